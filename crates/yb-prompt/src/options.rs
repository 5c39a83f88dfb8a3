//! Query options of the Claude Agent SDK: validation, and conversion to `yb_claude` options.

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
    /// A text.
    Text(String),
    /// Claude Code's own system prompt.
    Preset {
        /// Text appended to it.
        append: Option<String>,
    },
}

/// An MCP server of a query.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum McpServerConfig {
    /// Served by this process.
    InProcess(ToolServer),
    /// Started or connected to by the CLI.
    External(McpServer),
}

/// The format of structured output.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputFormat {
    /// The JSON Schema.
    pub schema: Value,
}

/// The options of a query.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ClaudeAgentQueryOptions {
    /// The model.
    pub model: Option<String>,
    /// The maximum number of thinking tokens.
    pub max_thinking_tokens: Option<u32>,
    /// The maximum number of turns.
    pub max_turns: Option<u32>,
    /// The maximum cost in US dollars.
    pub max_budget_usd: Option<f64>,
    /// The permission mode. Defaults to `default`.
    pub permission_mode: Option<PermissionMode>,
    /// The working directory.
    pub cwd: Option<PathBuf>,
    /// The system prompt. `None` means an empty one.
    pub system_prompt: Option<SystemPromptConfig>,
    /// Tools that need no permission.
    pub allowed_tools: Option<Vec<String>>,
    /// Tools that are denied.
    pub disallowed_tools: Option<Vec<String>>,
    /// MCP servers by name.
    pub mcp_servers: BTreeMap<String, McpServerConfig>,
    /// The hooks.
    pub hooks: Hooks,
    /// The format of structured output.
    pub output_format: Option<OutputFormat>,
}

impl ClaudeAgentQueryOptions {
    /// Validates all fields.
    ///
    /// # Errors
    /// Fails with [`PromptError::Invalid`] at the first invalid field.
    pub fn validate(&self) -> Result<(), PromptError> {
        if self.model.as_ref().is_some_and(|model| model.trim().is_empty()) {
            return Err(PromptError::invalid("model", "expected a non-empty name"));
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

    /// Returns a host for [`yb_claude::sdk`] with these options, hooks and tool servers.
    pub fn host(&self) -> Host {
        self.host_with(|options| options)
    }

    /// Returns a host like [`host`](Self::host), with changed options.
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

    /// Returns the options as JSON with the field names of the Claude Agent SDK. Hooks are a count, tool servers their names.
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

/// Options of all prompts of an adapter. A prompt may override them.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct AdapterOptions {
    /// The permission mode.
    pub permission_mode: Option<PermissionMode>,
    /// The working directory.
    pub cwd: Option<PathBuf>,
    /// The maximum number of turns of prompts without `max_calls`.
    pub max_turns: Option<u32>,
    /// The maximum cost of a query in US dollars.
    pub max_budget_usd: Option<f64>,
    /// Whether the prompt's system message is appended to Claude Code's own.
    pub system_prompt_preset: bool,
    /// Tools that need no permission.
    pub allowed_tools: Option<Vec<String>>,
    /// Tools that are denied.
    pub disallowed_tools: Option<Vec<String>>,
}

impl AdapterOptions {
    /// Parses options from JSON, in camel case (`permissionMode`) or snake case (`permission_mode`).
    ///
    /// # Errors
    /// Fails with [`PromptError::Invalid`] if a field is unknown or invalid.
    pub fn from_json(value: &Value) -> Result<Self, PromptError> {
        let Some(map) = value.as_object() else {
            return Err(PromptError::invalid("adapterOptions", "expected an object"));
        };
        let mut options = Self::default();
        for (key, value) in map.iter().filter(|(_, value)| !value.is_null()) {
            let invalid =
                |expected: &str| PromptError::invalid(key, format!("expected {expected}: `{value}`"));
            let strings = || {
                let items = value.as_array().ok_or_else(|| invalid("a list of strings"))?.iter();
                let texts = items.map(|item| item.as_str().map(str::to_owned));
                texts.collect::<Option<Vec<_>>>().ok_or_else(|| invalid("a list of strings")).map(Some)
            };
            match key.as_str() {
                "permissionMode" | "permission_mode" => {
                    let text = value.as_str().ok_or_else(|| invalid("a string"))?;
                    let mode: Result<PermissionMode, _> = text.parse();
                    let mode = mode.map_err(|error| PromptError::invalid(key, error.to_string()))?;
                    options.permission_mode = Some(mode);
                }
                "cwd" => options.cwd = Some(value.as_str().ok_or_else(|| invalid("a path"))?.into()),
                "maxTurns" | "max_turns" => {
                    let turns = value.as_u64().and_then(|turns| u32::try_from(turns).ok());
                    let turns = turns.filter(|turns| *turns > 0);
                    options.max_turns = Some(turns.ok_or_else(|| invalid("a whole number of at least 1"))?);
                }
                "maxBudgetUsd" | "max_budget_usd" => {
                    let usd = value.as_f64().filter(|usd| usd.is_finite() && *usd > 0.0);
                    options.max_budget_usd = Some(usd.ok_or_else(|| invalid("a number above 0"))?);
                }
                "systemPromptPreset" | "system_prompt_preset" => {
                    options.system_prompt_preset =
                        value.as_bool().ok_or_else(|| invalid("`true` or `false`"))?;
                }
                "allowedTools" | "allowed_tools" => options.allowed_tools = strings()?,
                "disallowedTools" | "disallowed_tools" => options.disallowed_tools = strings()?,
                _ => return Err(PromptError::invalid(key, "unknown adapter option")),
            }
        }
        Ok(options)
    }
}
