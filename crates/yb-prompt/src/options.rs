//! What a query is made with: the fields that the Claude Agent SDK takes, checked, and as options of our own SDK.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Map, Value, json};
use yb_claude::sdk::{Hooks, Host, ToolServer};
use yb_claude::{McpServer, Options, PermissionMode, SystemPrompt, TextSource, Thinking};

use crate::error::PromptError;
use crate::schema;

/// The system prompt of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SystemPromptConfig {
    /// This text.
    Text(String),
    /// Claude Code's own.
    Preset {
        /// What follows it.
        append: Option<String>,
    },
}

/// An MCP server of a query.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum McpServerConfig {
    /// One that this program is.
    InProcess(ToolServer),
    /// One that the CLI starts or reaches.
    External(McpServer),
}

/// The shape of a structured answer.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputFormat {
    /// Its JSON Schema.
    pub schema: Value,
}

/// What a query is made with.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ClaudeAgentQueryOptions {
    /// The model.
    pub model: Option<String>,
    /// How many tokens the model may think.
    pub max_thinking_tokens: Option<u32>,
    /// The most turns.
    pub max_turns: Option<u32>,
    /// The most that it may cost.
    pub max_budget_usd: Option<f64>,
    /// What the agent may do without being asked; `default` if not said.
    pub permission_mode: Option<PermissionMode>,
    /// Where it works.
    pub cwd: Option<PathBuf>,
    /// The system prompt; without one the model gets none.
    pub system_prompt: Option<SystemPromptConfig>,
    /// What needs no permission.
    pub allowed_tools: Option<Vec<String>>,
    /// What is denied.
    pub disallowed_tools: Option<Vec<String>>,
    /// MCP servers by name.
    pub mcp_servers: BTreeMap<String, McpServerConfig>,
    /// Functions that are called at certain moments.
    pub hooks: Hooks,
    /// The shape of a structured answer.
    pub output_format: Option<OutputFormat>,
}

impl ClaudeAgentQueryOptions {
    /// Holds every field against its rule.
    ///
    /// # Errors
    /// [`PromptError::Invalid`] with the first field that breaks one.
    pub fn validate(&self) -> Result<(), PromptError> {
        if self.model.as_ref().is_some_and(|model| model.trim().is_empty()) {
            return Err(PromptError::invalid("model", "expected a name that is not empty"));
        }
        check_turns(self.max_turns)?;
        check_budget(self.max_budget_usd)?;
        if let Some(format) = &self.output_format {
            schema::check(&format.schema).map_err(|reason| {
                PromptError::invalid("outputFormat.schema", format!("not a valid JSON Schema: {reason}"))
            })?;
        }
        Ok(())
    }

    /// The same for a session of [`yb_claude::sdk`], with everything that it may ask of this program.
    pub fn host(&self) -> Host {
        self.host_with(|options| options)
    }

    /// The same with more options than a prompt has.
    pub fn host_with(&self, more: impl FnOnce(Options) -> Options) -> Host {
        let mut options = Options::default();
        options.model.clone_from(&self.model);
        options.thinking = self.max_thinking_tokens.map(Thinking::Budget);
        options.max_turns = self.max_turns;
        options.max_budget_usd = self.max_budget_usd;
        options.permission_mode = self.permission_mode;
        options.cwd.clone_from(&self.cwd);
        options.system_prompt = SystemPrompt::Text(String::new());
        match &self.system_prompt {
            None => {}
            Some(SystemPromptConfig::Text(text)) => options.system_prompt = SystemPrompt::Text(text.clone()),
            Some(SystemPromptConfig::Preset { append }) => {
                options.system_prompt = SystemPrompt::Preset;
                options.append_system_prompt = append.clone().map(TextSource::Text);
            }
        }
        options.allowed_tools.clone_from(&self.allowed_tools);
        options.disallowed_tools.clone_from(&self.disallowed_tools);
        options.json_schema = self.output_format.as_ref().map(|format| format.schema.clone());
        let mut served = Vec::new();
        for (name, server) in &self.mcp_servers {
            match server {
                McpServerConfig::InProcess(server) => served.push(server.clone()),
                McpServerConfig::External(server) => {
                    options.mcp_servers.insert(name.clone(), server.clone());
                }
            }
        }
        let mut host = Host::new(more(options));
        if !self.hooks.is_empty() {
            host = host.with_hooks(self.hooks.clone());
        }
        served.into_iter().fold(host, Host::with_tools)
    }

    /// The same as JSON, with the names that the Claude Agent SDK has; functions and servers by their names alone.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut map = Map::new();
        let mut put = |name: &str, value: Value| {
            if !value.is_null() {
                map.insert(name.to_owned(), value);
            }
        };
        put("model", json!(self.model));
        put("maxThinkingTokens", json!(self.max_thinking_tokens));
        put("maxTurns", json!(self.max_turns));
        put("maxBudgetUsd", json!(self.max_budget_usd));
        put("permissionMode", json!(self.permission_mode.unwrap_or(PermissionMode::Default).as_str()));
        put("cwd", json!(self.cwd));
        put(
            "systemPrompt",
            match &self.system_prompt {
                None => Value::Null,
                Some(SystemPromptConfig::Text(text)) => json!(text),
                Some(SystemPromptConfig::Preset { append: None }) => {
                    json!({"type": "preset", "preset": "claude_code"})
                }
                Some(SystemPromptConfig::Preset { append }) => {
                    json!({"type": "preset", "preset": "claude_code", "append": append})
                }
            },
        );
        put("allowedTools", json!(self.allowed_tools));
        put("disallowedTools", json!(self.disallowed_tools));
        let servers = self.mcp_servers.iter().map(|(name, server)| {
            let kind = match server {
                McpServerConfig::InProcess(server) => json!({"type": "sdk", "tools": server.tool_names()}),
                McpServerConfig::External(_) => json!({"type": "external"}),
            };
            (name.clone(), kind)
        });
        let servers: Map<String, Value> = servers.collect();
        put("mcpServers", if servers.is_empty() { Value::Null } else { Value::Object(servers) });
        put("hooks", if self.hooks.is_empty() { Value::Null } else { json!(self.hooks.len()) });
        put(
            "outputFormat",
            match &self.output_format {
                None => Value::Null,
                Some(format) => json!({"type": "json_schema", "schema": format.schema}),
            },
        );
        Value::Object(map)
    }
}

pub(crate) fn check_turns(turns: Option<u32>) -> Result<(), PromptError> {
    if turns == Some(0) {
        return Err(PromptError::invalid("maxTurns", "expected a whole number of at least 1"));
    }
    Ok(())
}

pub(crate) fn check_budget(usd: Option<f64>) -> Result<(), PromptError> {
    if usd.is_some_and(|usd| !usd.is_finite() || usd <= 0.0) {
        return Err(PromptError::invalid("maxBudgetUsd", "expected a number above 0"));
    }
    Ok(())
}

/// What holds for every prompt of an adapter, unless the prompt says otherwise.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct AdapterOptions {
    /// What the agent may do without being asked.
    pub permission_mode: Option<PermissionMode>,
    /// Where it works.
    pub cwd: Option<PathBuf>,
    /// The most turns, of prompts without `max_calls`.
    pub max_turns: Option<u32>,
    /// The most that an answer may cost.
    pub max_budget_usd: Option<f64>,
    /// Whether Claude Code's own system prompt stands before the prompt's.
    pub system_prompt_preset: bool,
    /// What needs no permission.
    pub allowed_tools: Option<Vec<String>>,
    /// What is denied.
    pub disallowed_tools: Option<Vec<String>>,
}

impl AdapterOptions {
    /// Reads them from JSON, with the names that the Claude Agent SDK has (`permissionMode`) or ours (`permission_mode`).
    ///
    /// # Errors
    /// [`PromptError::Invalid`] for an unknown field or a value that breaks its rule.
    pub fn from_json(value: &Value) -> Result<Self, PromptError> {
        let Some(map) = value.as_object() else {
            return Err(PromptError::invalid("adapterOptions", "expected an object"));
        };
        let mut options = Self::default();
        for (key, value) in map.iter().filter(|(_, value)| !value.is_null()) {
            let wrong = |expected: &str| PromptError::invalid(key, format!("expected {expected}: `{value}`"));
            let texts = || {
                let items = value.as_array().ok_or_else(|| wrong("a list of texts"))?.iter();
                let texts = items.map(|item| item.as_str().map(str::to_owned));
                texts.collect::<Option<Vec<_>>>().ok_or_else(|| wrong("a list of texts")).map(Some)
            };
            match key.as_str() {
                "permissionMode" | "permission_mode" => {
                    let text = value.as_str().ok_or_else(|| wrong("a text"))?;
                    let mode: Result<PermissionMode, _> = text.parse();
                    let mode = mode.map_err(|error| PromptError::invalid(key, error.to_string()))?;
                    options.permission_mode = Some(mode);
                }
                "cwd" => options.cwd = Some(value.as_str().ok_or_else(|| wrong("a path"))?.into()),
                "maxTurns" | "max_turns" => {
                    let turns = value.as_u64().and_then(|turns| u32::try_from(turns).ok());
                    let turns = turns.filter(|turns| *turns > 0);
                    options.max_turns = Some(turns.ok_or_else(|| wrong("a whole number of at least 1"))?);
                }
                "maxBudgetUsd" | "max_budget_usd" => {
                    let usd = value.as_f64().filter(|usd| usd.is_finite() && *usd > 0.0);
                    options.max_budget_usd = Some(usd.ok_or_else(|| wrong("a number above 0"))?);
                }
                "systemPromptPreset" | "system_prompt_preset" => {
                    options.system_prompt_preset =
                        value.as_bool().ok_or_else(|| wrong("`true` or `false`"))?;
                }
                "allowedTools" | "allowed_tools" => options.allowed_tools = texts()?,
                "disallowedTools" | "disallowed_tools" => options.disallowed_tools = texts()?,
                _ => return Err(PromptError::invalid(key, "an adapter has no such option")),
            }
        }
        Ok(options)
    }
}
