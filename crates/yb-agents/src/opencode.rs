//! The adapter of opencode: one prompt on stdin, JSON events on stdout, its log on stderr.
//!
//! Measured with 1.18.33. It retries 429, 5xx and refused connections five times within a minute, and reports that only in its log;
//! then, and at once for other statuses, it prints an `error` event with exit code 1. There is no event at the end of a run, and the
//! usage is the sum over its steps without subagents. SIGTERM kills it by signal, and processes of its shell tool survive. A denied
//! call outside of the workspace ends the run with exit code 0. An unknown agent is a warning, and the default agent runs.

mod reader;

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use yb_supervise::Sandbox;

use super::cli::{Call, Cli, Invocation, allowlist, lay_over, permission_mode};
use super::definition::DefinitionDirs;
use super::guard::Model;
use super::reader::Reader;
use super::{AdapterError, ExecutionContext, Host};
use yb_case::fields_agent::CLI_SECTION;
use yb_case::shape::{Field, Kind};
use yb_case::{
    AgentProgram, AgentSpec, AgentTool, Capabilities, ConfigKeys, Credentials, ModelApi, NpmProgram,
    ToolPurpose,
};

/// Runs the installed `opencode`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Opencode;

static SPEC: AgentSpec = AgentSpec {
    name: "opencode",
    label: "opencode",
    summary: "opencode, with the models of many vendors",
    adapter_version: "1.0.0",
    log_dir: "opencode-logs",
    provider: "unknown",
    error_prefix: "AGENT",
    program: AgentProgram::Npm(NpmProgram {
        bin: "opencode",
        path_variable: "YB_OPENCODE",
        package: "opencode-ai",
        tested: "1.18.33",
        megabytes: 360,
        install_scripts: true,
    }),
    credentials: Credentials {
        variables: &[
            "ANTHROPIC_API_KEY",
            OPENAI_KEY,
            "GEMINI_API_KEY",
            "GOOGLE_GENERATIVE_AI_API_KEY",
            "OPENROUTER_API_KEY",
            "GROQ_API_KEY",
            "MISTRAL_API_KEY",
            "XAI_API_KEY",
            "OPENCODE_API_KEY",
        ],
        login: Some("opencode auth login"),
        hint: "set `OPENAI_API_KEY`, `ANTHROPIC_API_KEY` or another provider's key, or run `opencode auth login`",
    },
    variables: &[
        "ANTHROPIC_API_KEY",
        "GEMINI_API_KEY",
        "GOOGLE_GENERATIVE_AI_API_KEY",
        "GROQ_API_KEY",
        "MISTRAL_API_KEY",
        OPENAI_KEY,
        OPENAI_URL,
        "OPENCODE_API_KEY",
        "OPENROUTER_API_KEY",
        "XAI_API_KEY",
        "XDG_DATA_HOME",
    ],
    apis: &[ModelApi::OPENAI],
    bypass_variables: &[],
    tools: &[
        AgentTool::new(ToolPurpose::Read, "read"),
        AgentTool::new(ToolPurpose::Grep, "grep"),
        AgentTool::new(ToolPurpose::Glob, "glob"),
        AgentTool::new(ToolPurpose::List, "list"),
        AgentTool::new(ToolPurpose::Write, "write"),
        AgentTool::new(ToolPurpose::Edit, "edit"),
        AgentTool::new(ToolPurpose::Shell, "bash"),
        AgentTool::new(ToolPurpose::Fetch, "webfetch"),
        AgentTool::new(ToolPurpose::WebSearch, "websearch"),
        AgentTool::new(ToolPurpose::Subagent, "task"),
        AgentTool::new(ToolPurpose::Tasks, "todowrite"),
        AgentTool::new(ToolPurpose::Other, "lsp"),
        AgentTool::new(ToolPurpose::Other, "patch"),
        AgentTool::new(ToolPurpose::Other, "skill"),
        AgentTool::new(ToolPurpose::Other, "todoread"),
    ],
    tool_kinds: &["external_directory"],
    model_rule: None,
    config_keys: ConfigKeys::Only(&[
        "instructions",
        "agent_name",
        "agent",
        "agents",
        "append_system_prompt",
        "system_prompt",
        "permission_mode",
        "tools",
        "allowed_tools",
        "disallowed_tools",
        "mcp_servers",
        "mcp",
        "effort",
        "settings",
        "extra_args",
    ]),
    section: Field::new("opencode", Kind::Object(&CLI_SECTION), "For opencode alone; others ignore it."),
    mcp_tools: None,
    instruction_file: Some(INSTRUCTION_FILE),
    trusted_files: &[],
    capabilities: Capabilities { cost_limit: false, structured_output: false },
};

/// Its instruction file in a workspace.
const INSTRUCTION_FILE: &str = "AGENTS.md";
const OPENAI_KEY: &str = "OPENAI_API_KEY";
const OPENAI_URL: &str = "OPENAI_BASE_URL";
/// Keys of providers and the hosts of their models.
const PROVIDERS: [(&str, &str); 9] = [
    ("ANTHROPIC_API_KEY", "api.anthropic.com"),
    (OPENAI_KEY, "api.openai.com"),
    ("GEMINI_API_KEY", "generativelanguage.googleapis.com"),
    ("GOOGLE_GENERATIVE_AI_API_KEY", "generativelanguage.googleapis.com"),
    ("OPENROUTER_API_KEY", "openrouter.ai"),
    ("GROQ_API_KEY", "api.groq.com"),
    ("MISTRAL_API_KEY", "api.mistral.ai"),
    ("XAI_API_KEY", "api.x.ai"),
    ("OPENCODE_API_KEY", "opencode.ai"),
];
/// The provider of a custom Chat Completions address.
const COMPATIBLE: &str = "openai-compatible";
/// The npm package of that provider, which is bundled.
const PACKAGE: &str = "@ai-sdk/openai-compatible";

impl Cli for Opencode {
    fn agent_spec(&self) -> &'static AgentSpec {
        &SPEC
    }

    fn is_authenticated(&self, host: &Host) -> bool {
        PROVIDERS.iter().any(|(key, _)| host.variable(key).is_some()) || login(host).is_some()
    }

    fn model(&self, host: &Host) -> Vec<Model> {
        if let Some(url) = host.variable(OPENAI_URL) {
            return vec![Model::At(url.to_string_lossy().into_owned())];
        }
        let keys = PROVIDERS.iter().filter(|(key, _)| host.variable(key).is_some());
        keys.map(|(_, name)| Model::On(name)).collect()
    }

    fn invocation(&self, call: &Call<'_>) -> Result<Invocation, AdapterError> {
        let (context, config) = (call.context, &call.context.config);
        let mode = permission_mode(config);
        let mut it = Invocation { permission_mode: mode.to_owned(), ..Invocation::default() };
        let model = model(context)?;
        // Only its log names the model that it chose itself.
        let level = if model.is_some() { "WARN" } else { "INFO" };
        it.arg("run").flag("format", "json").arg("--thinking");
        it.arg("--print-logs").flag("log-level", level);
        if let Some(model) = model {
            it.flag("model", model);
        }
        if let Some(name) = &config.agent_name {
            it.flag("agent", name);
        } else if config.system_prompt.is_some() {
            it.flag("agent", AGENT);
        }
        if let Some(effort) = &config.effort {
            it.flag("variant", effort);
        }
        if mode == "bypassPermissions" {
            it.arg("--auto");
        }
        for argument in &config.extra_args {
            it.arg(argument);
        }
        if let Some(text) = &config.append_system_prompt {
            it.files.push((call.private("instructions.md"), text.clone()));
        }
        it.env.insert("OPENCODE_CONFIG_CONTENT", settings(call)?.to_string().into());
        for name in ["AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "SHARE", "TERMINAL_TITLE"] {
            it.env.insert(disabling(name), "1".into());
        }
        if !config.trust_repo_settings {
            it.env.insert("OPENCODE_DISABLE_PROJECT_CONFIG", "1".into());
        }
        // Its state follows HOME, except for a stored login.
        if let Some(own) = login(&context.host) {
            it.env.insert("XDG_DATA_HOME", own.into());
        }
        Ok(it)
    }

    /// It would run its default agent instead of an unknown one.
    fn definition_file(&self, name: &str, context: &ExecutionContext) -> Option<(DefinitionDirs, PathBuf)> {
        let file = context.private_dir.join(format!("home/.config/opencode/agent/{name}.md"));
        (!BUILT_IN_AGENTS.contains(&name)).then_some((DEFINITIONS, file))
    }

    fn reader(&self, call: &Call<'_>) -> Box<dyn Reader> {
        let model = model(call.context).ok().flatten();
        Box::new(reader::OpencodeReader::new(model))
    }

    /// A stored login is writable, because its tokens rotate; sessions are in the same folder.
    fn show(&self, view: Sandbox, context: &ExecutionContext) -> Sandbox {
        login(&context.host).map_or(view.clone(), |data| view.writable(data.join("opencode")))
    }
}

/// The agent with the system prompt of the case.
const AGENT: &str = "youbencha";
/// Agents that need no definition.
const BUILT_IN_AGENTS: [&str; 2] = ["build", "plan"];
/// Where definitions of agents are. It finds none in the workspace, whose settings are disabled.
const DEFINITIONS: DefinitionDirs = DefinitionDirs {
    project: &[".opencode/agent", ".opencode/agents"],
    home: &[".config/opencode/agent", ".config/opencode/agents"],
};

fn disabling(name: &'static str) -> &'static str {
    match name {
        "AUTOUPDATE" => "OPENCODE_DISABLE_AUTOUPDATE",
        "MODELS_FETCH" => "OPENCODE_DISABLE_MODELS_FETCH",
        "LSP_DOWNLOAD" => "OPENCODE_DISABLE_LSP_DOWNLOAD",
        "SHARE" => "OPENCODE_DISABLE_SHARE",
        _ => "OPENCODE_DISABLE_TERMINAL_TITLE",
    }
}

/// The model as `provider/name`. With an address of its own, a name alone is one of that address.
fn model(context: &ExecutionContext) -> Result<Option<String>, AdapterError> {
    let compatible = context.host.variable(OPENAI_URL).is_some();
    match &context.config.model {
        Some(model) if compatible && !model.starts_with(&format!("{COMPATIBLE}/")) => {
            Ok(Some(format!("{COMPATIBLE}/{model}")))
        }
        Some(model) if model.contains('/') || compatible => Ok(Some(model.clone())),
        Some(model) => Err(AdapterError::config(
            format!("`model` names no provider: `{model}`"),
            "write it as `provider/model`, such as `anthropic/claude-sonnet-5`",
        )),
        None if compatible => Err(AdapterError::config(
            format!("with `{OPENAI_URL}`, opencode needs the name of a model"),
            "set `agent.model`",
        )),
        None => Ok(None),
    }
}

/// Its configuration: address, permissions, and the settings of the case.
fn settings(call: &Call<'_>) -> Result<Value, AdapterError> {
    let (context, config) = (call.context, &call.context.config);
    let mut settings = json!({ "autoupdate": false, "share": "disabled", "permission": permission(context) });
    let named = model(context)?;
    if let (Some(url), Some(model)) = (context.host.variable(OPENAI_URL), &named) {
        let name = model.strip_prefix(&format!("{COMPATIBLE}/")).unwrap_or(model);
        let models: Map<String, Value> = [(name.to_owned(), json!({}))].into_iter().collect();
        settings["provider"] = json!({ COMPATIBLE: {
            "npm": PACKAGE, "models": models,
            // The key stays in its variable, because the configuration is in the log.
            "options": { "baseURL": url.to_string_lossy(), "apiKey": format!("{{env:{OPENAI_KEY}}}") },
        } });
    }
    if let Some(model) = named {
        settings["model"] = model.as_str().into();
        // For titles; by default it uses the cheapest known model.
        settings["small_model"] = model.into();
    }
    if let Some(text) = &config.system_prompt {
        let name = config.agent_name.as_deref().unwrap_or(AGENT);
        settings["agent"] = json!({ name: { "prompt": text, "mode": "primary" } });
    }
    for (name, agent) in &config.agents {
        let mut entry = json!({ "description": agent.description, "prompt": agent.prompt, "mode": "all" });
        if let Some(model) = &agent.model {
            entry["model"] = model.as_str().into();
        }
        if let Some(tools) = &agent.tools {
            let mut only = json!({ "*": "deny" });
            tools.iter().for_each(|tool| only[tool.as_str()] = "allow".into());
            entry["permission"] = only;
        }
        settings["agent"][name.as_str()] = entry;
    }
    let mut instructions = Vec::new();
    if config.append_system_prompt.is_some() {
        instructions.push(json!(call.private("instructions.md")));
    }
    // Without the configuration of the project, it does not look for the file itself.
    if config.instructions.is_some() && !config.trust_repo_settings {
        instructions.push(json!(context.workspace.join(INSTRUCTION_FILE)));
    }
    if !instructions.is_empty() {
        settings["instructions"] = Value::Array(instructions);
    }
    if !config.mcp_servers.is_empty() {
        let servers = config.mcp_servers.iter().map(|(name, server)| (name.clone(), server_of(server)));
        settings["mcp"] = Value::Object(servers.collect());
    }
    if let Some(own) = &config.settings {
        lay_over(&mut settings, &Value::Object(own.clone()));
    }
    Ok(settings)
}

/// Its permissions. There is no user to ask, so everything else is denied.
fn permission(context: &ExecutionContext) -> Value {
    let config = &context.config;
    let mut rules = match permission_mode(config) {
        "bypassPermissions" => json!({ "*": "allow" }),
        "acceptEdits" => json!({ "edit": "allow", "bash": "deny" }),
        "auto" => json!({ "edit": "allow", "bash": "allow" }),
        _ => json!({ "edit": "deny", "bash": "deny" }),
    };
    if let Some(tools) = config.tools.as_deref().or_else(|| allowlist(config)) {
        let mut allowed: Map<String, Value> =
            tools.iter().map(|tool| (tool.clone(), "allow".into())).collect();
        // Its permission to change files has one name.
        if allowed.contains_key("write") {
            allowed.insert("edit".to_owned(), "allow".into());
        }
        let mut only = json!({ "*": "deny" });
        lay_over(&mut only, &Value::Object(allowed));
        rules = only;
    }
    for tool in config.allowed_tools.iter().flatten().filter(|_| config.permission_mode.is_some()) {
        rules[tool.as_str()] = "allow".into();
    }
    for tool in config.disallowed_tools.iter().flatten() {
        rules[tool.as_str()] = "deny".into();
    }
    rules
}

/// Converts an MCP server from the usual format to opencode's.
fn server_of(server: &Map<String, Value>) -> Value {
    if server.get("type").and_then(Value::as_str).is_some_and(|kind| ["local", "remote"].contains(&kind)) {
        return Value::Object(server.clone());
    }
    let (mut own, key, from) = match server.get("url") {
        Some(url) => (json!({ "type": "remote", "url": url, "enabled": true }), "headers", "headers"),
        None => {
            let arguments = server.get("args").and_then(Value::as_array).into_iter().flatten();
            let command: Vec<&Value> = server.get("command").into_iter().chain(arguments).collect();
            (json!({ "type": "local", "command": command, "enabled": true }), "environment", "env")
        }
    };
    // Measured: it ignores a server with a value of null.
    if let Some(value) = server.get(from) {
        own[key] = value.clone();
    }
    own
}

/// The directory of a stored login; none if a variable has a key.
fn login(host: &Host) -> Option<PathBuf> {
    if PROVIDERS.iter().any(|(key, _)| host.variable(key).is_some()) {
        return None;
    }
    let named = host.variable("XDG_DATA_HOME").map(PathBuf::from);
    let data = named.or_else(|| Some(Path::new(host.variable("HOME")?).join(".local/share")))?;
    data.join("opencode/auth.json").is_file().then_some(data)
}

#[cfg(test)]
mod tests;
