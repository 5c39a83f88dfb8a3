//! The adapter of the Gemini CLI: one prompt on stdin, JSON events on stdout, retries and reasons on stderr.
//!
//! Measured with 0.61.0. By default it restarts itself and then ignores SIGTERM; with the restart disabled, SIGTERM is exit code 0
//! without a result, and processes of its shell tool survive. An untrusted workspace is exit code 55; settings of a trusted workspace
//! with hooks, servers and commands take effect, so they are hidden. An API error exits with the status modulo 256; other exit codes
//! are 41 (no credentials), 42 (no prompt), 53 (turn limit) and 1. `@name` in a prompt is replaced by the file of that name.

mod reader;

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use yb_claude::AgentDefinition;
use yb_supervise::Sandbox;

use super::cli::{Call, Cli, Invocation, allowlist, on_path, permission_mode};
use super::definition::{self, DefinitionDirs};
use super::guard::Model;
use super::reader::Reader;
use super::{AdapterError, ExecutionContext, Host, Isolation};
use yb_case::fields_agent::CLI_SECTION;
use yb_case::shape::{Field, Kind};
use yb_case::{
    AgentProgram, AgentSpec, AgentTool, Capabilities, ConfigKeys, Credentials, ModelApi, NetworkMode,
    NpmProgram, ToolPurpose,
};

/// Runs the installed `gemini`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Gemini;

static SPEC: AgentSpec = AgentSpec {
    name: "gemini",
    label: "Gemini CLI",
    summary: "Google's Gemini CLI",
    adapter_version: "1.0.0",
    log_dir: "gemini-logs",
    provider: "google",
    error_prefix: "AGENT",
    program: AgentProgram::Npm(NpmProgram {
        bin: "gemini",
        path_variable: "YB_GEMINI",
        package: "@google/gemini-cli",
        tested: "0.61.0",
        megabytes: 100,
        install_scripts: false,
    }),
    credentials: Credentials {
        variables: &[API_KEY, VERTEX],
        login: Some("gemini"),
        hint: "set `GEMINI_API_KEY`, or run `gemini` once and log in",
    },
    variables: &[
        API_KEY,
        BASE_URL,
        "GEMINI_MODEL",
        "GOOGLE_API_KEY",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "GOOGLE_CLOUD_LOCATION",
        "GOOGLE_CLOUD_PROJECT",
        VERTEX,
    ],
    apis: &[ModelApi::GEMINI],
    bypass_variables: &[VERTEX],
    tools: &[
        AgentTool::new(ToolPurpose::Read, "read_file"),
        AgentTool::new(ToolPurpose::Grep, "grep_search"),
        AgentTool::new(ToolPurpose::Glob, "glob"),
        AgentTool::new(ToolPurpose::List, "list_directory"),
        AgentTool::new(ToolPurpose::Write, "write_file"),
        AgentTool::new(ToolPurpose::Edit, "replace"),
        AgentTool::new(ToolPurpose::Shell, "run_shell_command"),
        AgentTool::new(ToolPurpose::Fetch, "web_fetch"),
        AgentTool::new(ToolPurpose::WebSearch, "google_web_search"),
        AgentTool::new(ToolPurpose::Subagent, "invoke_agent"),
        AgentTool::new(ToolPurpose::Tasks, "write_todos"),
        AgentTool::new(ToolPurpose::Other, "activate_skill"),
        AgentTool::new(ToolPurpose::Other, "enter_plan_mode"),
        AgentTool::new(ToolPurpose::Other, "exit_plan_mode"),
        AgentTool::new(ToolPurpose::Other, "list_background_processes"),
        AgentTool::new(ToolPurpose::Other, "read_background_output"),
        AgentTool::new(ToolPurpose::Other, "read_many_files"),
        AgentTool::new(ToolPurpose::Other, "save_memory"),
        AgentTool::new(ToolPurpose::Other, "update_topic"),
    ],
    tool_kinds: &[],
    model_rule: None,
    config_keys: ConfigKeys::Only(&[
        "instructions",
        "agent_name",
        "agents",
        "append_system_prompt",
        "system_prompt",
        "permission_mode",
        "tools",
        "allowed_tools",
        "disallowed_tools",
        "max_turns",
        "mcp_servers",
        "mcp",
        "settings",
        "add_dirs",
        "extra_args",
    ]),
    section: Field::new("gemini", Kind::Object(&CLI_SECTION), "For gemini alone; others ignore it."),
    mcp_tools: None,
    instruction_file: Some("GEMINI.md"),
    trusted_files: &[],
    capabilities: Capabilities { cost_limit: false, structured_output: false },
};

const API_KEY: &str = "GEMINI_API_KEY";
const BASE_URL: &str = "GOOGLE_GEMINI_BASE_URL";
const VERTEX: &str = "GOOGLE_GENAI_USE_VERTEXAI";
/// The default host of the API.
const API: &str = "generativelanguage.googleapis.com";
/// Hosts of a login and its models.
const LOGIN: [&str; 2] = ["cloudcode-pa.googleapis.com", "oauth2.googleapis.com"];
/// Files of a login, in `.gemini`.
const LOGIN_FILES: [&str; 2] = ["oauth_creds.json", "google_accounts.json"];
/// The most API attempts, about fifteen seconds. The runner retries after longer failures.
const ATTEMPTS: u32 = 3;
/// Where definitions of agents are.
const DEFINITIONS: DefinitionDirs =
    DefinitionDirs { project: &[".gemini/agents"], home: &[".gemini/agents"] };
/// Files of a repository that take effect in a trusted workspace.
const REPOSITORY_SETTINGS: [&str; 4] =
    [".gemini/settings.json", ".gemini/extensions", ".gemini/policies", ".env"];

impl Cli for Gemini {
    fn agent_spec(&self) -> &'static AgentSpec {
        &SPEC
    }

    fn is_authenticated(&self, host: &Host) -> bool {
        [API_KEY, VERTEX].iter().any(|name| host.variable(name).is_some()) || !login(host).is_empty()
    }

    fn model(&self, host: &Host) -> Vec<Model> {
        match host.variable(BASE_URL) {
            Some(url) => vec![Model::At(url.to_string_lossy().into_owned())],
            None if host.variable(API_KEY).is_some() => vec![Model::On(API)],
            None if host.variable(VERTEX).is_some() => vec![Model::On("aiplatform.googleapis.com")],
            None => LOGIN.into_iter().map(Model::On).collect(),
        }
    }

    fn invocation(&self, call: &Call<'_>) -> Result<Invocation, AdapterError> {
        let (context, config) = (call.context, &call.context.config);
        check_repository(context)?;
        let definition = definition(context)?;
        let mode = permission_mode(config);
        let mut it = Invocation { permission_mode: mode.to_owned(), ..Invocation::default() };
        it.flag("output-format", "stream-json");
        it.flag(
            "approval-mode",
            match mode {
                // Only the tools of the list are registered.
                _ if allowlist(config).is_some() => "yolo",
                "bypassPermissions" | "auto" => "yolo",
                "acceptEdits" => "auto_edit",
                "plan" => "plan",
                _ => "default",
            },
        );
        // Without a name, it lets another model choose.
        let inherited = |model: &&String| !["inherit", "auto"].contains(&model.as_str());
        let of_definition = || definition.as_ref()?.model.as_ref().filter(inherited);
        if let Some(model) = config.model.as_ref().or_else(of_definition) {
            it.flag("model", model);
        }
        for path in &config.add_dirs {
            it.flag("include-directories", path);
        }
        for argument in &config.extra_args {
            it.arg(argument);
        }
        let prompt = definition.as_ref().map(|definition| &definition.prompt);
        if let Some(text) = config.system_prompt.as_ref().or(prompt) {
            let path = call.private("system.md");
            it.env.insert("GEMINI_SYSTEM_MD", path.clone().into());
            it.files.push((path, text.clone()));
        }
        let home = call.private("home").join(".gemini");
        if let Some(text) = &config.append_system_prompt {
            it.files.push((home.join("GEMINI.md"), text.clone()));
        }
        for (name, agent) in &config.agents {
            let file = home.join("agents").join(format!("{name}.md"));
            it.files.push((file, definition::file_text(agent, name)));
        }
        let settings = settings(context, definition.as_ref());
        it.files.push((home.join("settings.json"), settings.to_string()));
        for key in definition.iter().flat_map(|definition| definition.more.keys()) {
            if ["temperature", "timeout_mins"].contains(&key.as_str()) {
                it.warnings.push(format!("`{key}` of the agent's definition has no effect"));
            }
        }
        for name in ["GEMINI_CLI_TRUST_WORKSPACE", "GEMINI_CLI_NO_RELAUNCH"] {
            it.env.insert(name, "true".into());
        }
        it.env.insert("GEMINI_TELEMETRY_ENABLED", "false".into());
        Ok(it)
    }

    fn reader(&self, call: &Call<'_>) -> Box<dyn Reader> {
        Box::new(reader::GeminiReader::new(call.private("home").join(".gemini")))
    }

    fn show(&self, view: Sandbox, context: &ExecutionContext) -> Sandbox {
        // An empty file would be an error, so its directory is hidden.
        let hidden = of_repository(context).into_iter().map(|path| match path.parent() {
            Some(parent) if parent != context.workspace => parent.to_owned(),
            _ => path,
        });
        let view = hidden.fold(view, |view, path| view.hidden(path));
        let view = login(&context.host).iter().fold(view, Sandbox::writable);
        // It is a script, and Node.js may be in the user's home.
        let node = on_path("node", &context.host).and_then(|node| node.canonicalize().ok());
        match node.as_deref().and_then(Path::parent).and_then(Path::parent) {
            Some(prefix) if !prefix.starts_with("/usr") => super::view::show(view, prefix),
            _ => view,
        }
    }

    /// Links a stored login, because its tokens are renewed.
    fn prepare(&self, context: &ExecutionContext) -> std::io::Result<()> {
        #[cfg(unix)]
        for file in login(&context.host) {
            let link = context.private_dir.join("home/.gemini").join(file.file_name().unwrap_or_default());
            if link.symlink_metadata().is_err() {
                std::os::unix::fs::symlink(file, link)?;
            }
        }
        Ok(())
    }
}

/// The definition that it runs as: of the case, or from a file, which may be in the workspace. Gemini CLI itself runs a definition only
/// as a subagent of its own agent, which decides whether to call it.
fn definition(context: &ExecutionContext) -> Result<Option<AgentDefinition>, AdapterError> {
    let config = &context.config;
    let Some(name) = &config.agent_name else { return Ok(None) };
    let mut definition = match config.agents.get(name) {
        Some(definition) => definition.clone(),
        // Before there is a workspace, only the rest can be checked.
        None if !context.artifacts_dir.is_dir() => return Ok(None),
        None => {
            let text = definition::find(name, DEFINITIONS, context)?;
            AgentDefinition::parse(name, &text).map_err(|problem| {
                let message = format!("invalid definition of agent `{name}`: {problem}");
                AdapterError::config(
                    message,
                    "start with a header between `---` lines, followed by the prompt",
                )
            })?
        }
    };
    if let Some(tools) = &mut definition.tools {
        // Tools of MCP servers are in no list of its own tools.
        tools.retain(|tool| !tool.starts_with("mcp_"));
        let servers: Vec<String> = config.mcp_servers.keys().cloned().collect();
        *tools = definition::own_tools(name, tools, &SPEC, &servers)?;
    }
    Ok(Some(definition))
}

/// Its settings: authentication, few retries, no telemetry, and the settings of the definition and the case.
fn settings(context: &ExecutionContext, definition: Option<&AgentDefinition>) -> Value {
    let config = &context.config;
    let host = &context.host;
    let auth = match () {
        () if host.variable(API_KEY).is_some() => "gemini-api-key",
        () if host.variable(VERTEX).is_some() => "vertex-ai",
        () if login(host).is_empty() => "gemini-api-key",
        () => "oauth-personal",
    };
    let mut tools = Map::new();
    let of_definition = || definition?.tools.as_deref();
    let core = config.tools.as_deref().or_else(|| allowlist(config)).or_else(of_definition);
    let lists = [("core", core), ("allowed", config.allowed_tools.as_deref())];
    for (name, list) in lists.into_iter().filter_map(|(name, list)| Some((name, list?))) {
        tools.insert(name.to_owned(), json!(list));
    }
    let mut denied = config.disallowed_tools.clone().unwrap_or_default();
    // They run on the servers of the model, outside of the network restrictions.
    if context.network.mode != NetworkMode::Open {
        denied.extend(["google_web_search", "web_fetch"].map(str::to_owned));
    }
    if !denied.is_empty() {
        tools.insert("exclude".to_owned(), json!(denied));
    }
    let mut settings = json!({
        "security": { "auth": { "selectedType": auth } },
        "general": { "maxAttempts": ATTEMPTS, "enableAutoUpdate": false, "enableAutoUpdateNotification": false },
        "privacy": { "usageStatisticsEnabled": false },
        "telemetry": { "enabled": false },
        "tools": tools,
        "mcpServers": config.mcp_servers,
    });
    let more = |key: &str| definition?.more.get(key);
    if let Some(turns) = config.max_turns.map(Value::from).or_else(|| more("max_turns").cloned()) {
        settings["model"] = json!({ "maxSessionTurns": turns });
    }
    if let Some(servers) = more("mcpServers") {
        super::cli::lay_over(&mut settings["mcpServers"], servers);
    }
    if let Some(own) = &config.settings {
        super::cli::lay_over(&mut settings, &Value::Object(own.clone()));
    }
    settings
}

/// The settings of an untrusted repository.
fn of_repository(context: &ExecutionContext) -> Vec<PathBuf> {
    if context.config.trust_repo_settings {
        return Vec::new();
    }
    let roots = context.workspace_roots();
    let is_there = |name: &&&str| roots.iter().any(|root| root.join(name).exists());
    REPOSITORY_SETTINGS.iter().filter(is_there).map(|name| context.workspace.join(name)).collect()
}

/// Rejects an untrusted repository with settings: only a sandbox can hide them.
fn check_repository(context: &ExecutionContext) -> Result<(), AdapterError> {
    let found = of_repository(context);
    let (Some(first), Isolation::None | Isolation::External) = (found.first(), context.isolation) else {
        return Ok(());
    };
    let name = first.strip_prefix(&context.workspace).unwrap_or(first).display();
    Err(AdapterError::InvalidConfig {
        message: format!("the repository brings `{name}`, which would take effect"),
        hints: vec![
            "let the agent run in a sandbox, which hides it".to_owned(),
            "or trust the repository: `agent.config.gemini.trust_repo_settings: true`".to_owned(),
        ],
    })
}

/// The files of the user's login; none if a variable has the credentials.
fn login(host: &Host) -> Vec<PathBuf> {
    let has_key = [API_KEY, VERTEX].iter().any(|name| host.variable(name).is_some());
    let home = host.variable("HOME").map(Path::new).filter(|_| !has_key);
    let files = |home: &Path| LOGIN_FILES.map(|name| home.join(".gemini").join(name));
    home.map(files).into_iter().flatten().filter(|path| path.is_file()).collect()
}

#[cfg(test)]
mod tests;
