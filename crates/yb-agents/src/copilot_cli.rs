//! The adapter of the Copilot CLI: one prompt on stdin, JSON events on stdout, log files.
//!
//! Measured with 1.0.102. The npm program is a wrapper that leaves its child on SIGTERM, so the native program is run. It exits with 0
//! and without a result on SIGTERM, and with 1 on every error. The first run unpacks 235 MB into a cache that all trials share; it is
//! unpacked before the sandbox starts, and read-only in it. Copilot blanks values of variables that look secret in its events, even
//! within words: a key of one letter makes them unreadable.

mod reader;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use yb_redact::Secrets;
use yb_supervise::Sandbox;

use super::cli::{Call, Cli, Invocation, allowlist, npm_platform, permission_mode};
use super::definition::{self, DefinitionDirs};
use super::guard::Model;
use super::reader::Reader;
use super::secrets::secrets;
use super::{AdapterError, Environment, ExecutionContext, Host};
use yb_case::shape::{FREE, Field};
use yb_case::{
    AgentProgram, AgentSpec, AgentTool, Capabilities, ConfigKeys, Credentials, ModelApi, NpmProgram,
    ToolPurpose,
};

/// Runs the installed `copilot`.
#[derive(Debug, Clone, Copy, Default)]
pub struct CopilotCli;

static SPEC: AgentSpec = AgentSpec {
    name: "copilot-cli",
    label: "Copilot",
    summary: "GitHub's Copilot CLI",
    adapter_version: "1.0.0",
    log_dir: "copilot-logs",
    provider: "github",
    error_prefix: "AGENT",
    program: AgentProgram::Npm(NpmProgram {
        bin: "copilot",
        path_variable: "YB_COPILOT",
        package: "@github/copilot",
        tested: "1.0.102",
        megabytes: 190,
        install_scripts: false,
    }),
    credentials: Credentials {
        variables: &["COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN", PROVIDER],
        login: None,
        hint: "set `COPILOT_GITHUB_TOKEN`, or `COPILOT_PROVIDER_BASE_URL` and `COPILOT_PROVIDER_API_KEY`",
    },
    variables: &[
        "COPILOT_GITHUB_TOKEN",
        "GH_TOKEN",
        "GITHUB_TOKEN",
        "COPILOT_MODEL",
        "COPILOT_OFFLINE",
        "COPILOT_PROVIDER_API_KEY",
        PROVIDER,
        "COPILOT_PROVIDER_BEARER_TOKEN",
        "COPILOT_PROVIDER_HEADERS",
        "COPILOT_PROVIDER_MAX_OUTPUT_TOKENS",
        "COPILOT_PROVIDER_MAX_PROMPT_TOKENS",
        "COPILOT_PROVIDER_MODEL_ID",
        "COPILOT_PROVIDER_TYPE",
        "COPILOT_PROVIDER_WIRE_API",
        "COPILOT_PROVIDER_WIRE_MODEL",
        "XDG_CACHE_HOME",
    ],
    apis: &[ModelApi {
        variable: PROVIDER,
        address: "https://api.githubcopilot.com",
        suffix: "/v1",
        key: "COPILOT_PROVIDER_API_KEY",
    }],
    bypass_variables: &[],
    tools: &[
        AgentTool::new(ToolPurpose::Read, "view"),
        AgentTool::new(ToolPurpose::Grep, "grep"),
        AgentTool::new(ToolPurpose::Glob, "glob"),
        AgentTool::new(ToolPurpose::Write, "create"),
        AgentTool::new(ToolPurpose::Edit, "edit"),
        AgentTool::new(ToolPurpose::Shell, "bash"),
        AgentTool::new(ToolPurpose::Fetch, "web_fetch"),
        AgentTool::new(ToolPurpose::Subagent, "task"),
        AgentTool::new(ToolPurpose::Other, "fetch_copilot_cli_documentation"),
        AgentTool::new(ToolPurpose::Other, "list_agents"),
        AgentTool::new(ToolPurpose::Other, "list_bash"),
        AgentTool::new(ToolPurpose::Other, "read_agent"),
        AgentTool::new(ToolPurpose::Other, "read_bash"),
        AgentTool::new(ToolPurpose::Other, "session_store_sql"),
        AgentTool::new(ToolPurpose::Other, "skill"),
        AgentTool::new(ToolPurpose::Other, "sql"),
        AgentTool::new(ToolPurpose::Other, "stop_bash"),
        AgentTool::new(ToolPurpose::Other, "write_agent"),
        AgentTool::new(ToolPurpose::Other, "write_bash"),
    ],
    tool_kinds: &["memory", "shell", "url", "write"],
    model_rule: None,
    config_keys: ConfigKeys::Only(&[
        "instructions",
        "agent_name",
        "agent",
        "agents",
        "permission_mode",
        "tools",
        "allowed_tools",
        "disallowed_tools",
        "mcp_servers",
        "mcp",
        "effort",
        "add_dirs",
        "extra_args",
    ]),
    section: Field::new("copilot-cli", FREE, "For copilot-cli alone; others ignore it."),
    mcp_tools: Some("{server}-"),
    instruction_file: Some(".github/copilot-instructions.md"),
    trusted_files: &[],
    capabilities: Capabilities { cost_limit: false, structured_output: false },
};

/// Variables with a GitHub token, by precedence.
const TOKENS: [&str; 3] = ["COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"];
/// The variable with the base URL of a custom model.
const PROVIDER: &str = "COPILOT_PROVIDER_BASE_URL";
/// Hosts of GitHub's models.
const HOSTS: [&str; 5] = [
    "api.github.com",
    "api.githubcopilot.com",
    "api.individual.githubcopilot.com",
    "api.business.githubcopilot.com",
    "api.enterprise.githubcopilot.com",
];
/// The prompt limit that it assumes for an unknown model, in tokens.
const PROMPT_LIMIT: usize = 128_000;
/// The fewest characters of a token in its estimate.
const TOKEN: usize = 3;

impl Cli for CopilotCli {
    fn agent_spec(&self) -> &'static AgentSpec {
        &SPEC
    }

    fn native(&self, packages: &Path) -> Option<PathBuf> {
        let package = packages.join("@github").join(format!("copilot-{}", npm_platform()?));
        Some(package.join(format!("copilot{}", std::env::consts::EXE_SUFFIX)))
    }

    fn is_authenticated(&self, host: &Host) -> bool {
        TOKENS.iter().chain([&PROVIDER]).any(|name| host.variable(name).is_some())
    }

    fn model(&self, host: &Host) -> Vec<Model> {
        match host.variable(PROVIDER) {
            Some(url) => vec![Model::At(url.to_string_lossy().into_owned())],
            None => HOSTS.into_iter().map(Model::On).collect(),
        }
    }

    fn invocation(&self, call: &Call<'_>) -> Result<Invocation, AdapterError> {
        let (context, config) = (call.context, &call.context.config);
        let mode = permission_mode(config);
        let mut it = Invocation { permission_mode: mode.to_owned(), ..Invocation::default() };
        it.flag("output-format", "json").flag("usage-output-file", usage_file(context));
        it.flag("log-level", "all").flag("log-dir", logs(context)).flag("add-dir", &context.workspace);
        it.arg("--disable-builtin-mcps");
        if let Some(model) = &config.model {
            it.flag("model", model);
        }
        if let Some(name) = &config.agent_name {
            it.flag("agent", name);
        }
        for (name, agent) in &config.agents {
            it.files.push((agent_file(context, name), definition::file_text(agent, name)));
        }
        if let Some(effort) = &config.effort {
            it.flag("reasoning-effort", effort);
        }
        match mode {
            "bypassPermissions" => it.arg("--allow-all-tools").arg("--allow-all-paths"),
            "auto" => it.arg("--allow-all-tools"),
            "acceptEdits" => it.flag("allow-tool", "write"),
            _ => &mut it,
        };
        let available = config.tools.as_deref().or_else(|| allowlist(config)).unwrap_or_default();
        for rule in available {
            tools_of(rule).into_iter().for_each(|tool| _ = it.flag("available-tools", tool));
        }
        for rule in config.allowed_tools.iter().flatten() {
            permission(rule).into_iter().for_each(|kind| _ = it.flag("allow-tool", kind));
        }
        for rule in config.disallowed_tools.iter().flatten() {
            let flag = if is_tool(rule) { "excluded-tools" } else { "deny-tool" };
            it.flag(flag, rule);
        }
        for path in &config.add_dirs {
            it.flag("add-dir", path);
        }
        if !config.mcp_servers.is_empty() {
            let path = context.private_dir.join("mcp.json");
            let servers = config.mcp_servers.iter().map(|(name, server)| (name.clone(), with_tools(server)));
            it.flag("additional-mcp-config", format!("@{}", path.display()));
            let servers: serde_json::Map<_, _> = servers.collect();
            it.files.push((path, json!({ "mcpServers": servers }).to_string()));
        }
        for argument in &config.extra_args {
            it.arg(argument);
        }
        it.env.insert("COPILOT_HOME", context.private_dir.join("config").into());
        it.env.insert("COPILOT_AUTO_UPDATE", "false".into());
        it.env.insert("XDG_CACHE_HOME", private_cache(context).into());
        let own = context.host.variable(PROVIDER).is_some();
        // Prevents requests to GitHub that are not needed.
        if own && context.host.variable("COPILOT_OFFLINE").is_none() {
            it.env.insert("COPILOT_OFFLINE", "true".into());
        }
        let limit = "COPILOT_PROVIDER_MAX_PROMPT_TOKENS";
        if own && call.prompt.len() / TOKEN > PROMPT_LIMIT / 2 && context.host.variable(limit).is_none() {
            // An unknown model may have a higher limit; the API decides.
            it.env.insert(limit, (PROMPT_LIMIT + call.prompt.len()).to_string().into());
        }
        Ok(it)
    }

    fn definition_file(&self, name: &str, context: &ExecutionContext) -> Option<(DefinitionDirs, PathBuf)> {
        Some((DEFINITIONS, agent_file(context, name)))
    }

    fn reader(&self, call: &Call<'_>) -> Box<dyn Reader> {
        Box::new(reader::CopilotReader::new(usage_file(call.context)))
    }

    fn show(&self, view: Sandbox, context: &ExecutionContext) -> Sandbox {
        let Some(shared) = shared_cache(&context.host).map(|cache| cache.join("copilot")) else {
            return view;
        };
        super::view::show(view, &shared)
    }

    /// The cache is private, except for the unpacked program.
    fn prepare(&self, context: &ExecutionContext) -> std::io::Result<()> {
        std::fs::create_dir_all(private_cache(context))?;
        std::fs::create_dir_all(logs(context))?;
        #[cfg(unix)]
        if let Some(shared) = shared_cache(&context.host) {
            let link = private_cache(context).join("copilot");
            if link.symlink_metadata().is_err() {
                std::os::unix::fs::symlink(shared.join("copilot"), link)?;
            }
        }
        Ok(())
    }

    /// `--version` unpacks the program.
    fn version_environment(&self, host: &Host) -> Environment {
        let cache = shared_cache(host).map(|cache| ("XDG_CACHE_HOME".into(), cache.into()));
        cache.into_iter().chain([("COPILOT_AUTO_UPDATE".into(), "false".into())]).collect()
    }

    /// Copies its logs to the artifacts.
    fn keep(&self, call: &Call<'_>) -> std::io::Result<()> {
        keep_logs(&logs(call.context), call.folder, &Secrets::of_safe_length(secrets(&call.context.host.env)))
    }
}

/// Copies files but not symlinks, because its tools can write to the folder, without secrets.
fn keep_logs(from: &Path, to: &Path, secrets: &Secrets) -> std::io::Result<()> {
    if !std::fs::symlink_metadata(from)?.is_dir() {
        return Ok(());
    }
    for entry in std::fs::read_dir(from)?.filter_map(Result::ok) {
        if entry.file_type().is_ok_and(|kind| kind.is_file()) {
            let bytes = std::fs::read(entry.path())?;
            std::fs::write(to.join(entry.file_name()), secrets.redact_bytes(&bytes))?;
        }
    }
    Ok(())
}

fn usage_file(context: &ExecutionContext) -> PathBuf {
    context.private_dir.join("usage.json")
}

/// The folder of its logs.
fn logs(context: &ExecutionContext) -> PathBuf {
    context.private_dir.join("logs")
}

fn private_cache(context: &ExecutionContext) -> PathBuf {
    context.private_dir.join("home").join(".cache")
}

/// The cache of the user.
fn shared_cache(host: &Host) -> Option<PathBuf> {
    let named = host.variable("XDG_CACHE_HOME").map(PathBuf::from);
    named.or_else(|| Some(Path::new(host.variable("HOME")?).join(".cache")))
}

fn is_tool(rule: &str) -> bool {
    SPEC.tools.iter().any(|tool| tool.name == rule)
}

/// The tools that a rule is about: a tool, or a kind of tools such as `shell(git:*)`.
fn tools_of(rule: &str) -> Vec<&str> {
    match rule.split('(').next().unwrap_or(rule) {
        "shell" => vec!["bash", "read_bash", "write_bash", "stop_bash", "list_bash"],
        "write" => vec!["create", "edit"],
        "url" => vec!["web_fetch"],
        name => vec![name],
    }
}

/// The permission that a rule grants. Measured: tools that only read files in the workspace need none.
fn permission(rule: &str) -> Option<&str> {
    match rule {
        "bash" => Some("shell"),
        "create" | "edit" => Some("write"),
        "web_fetch" => Some("url"),
        rule => Some(rule).filter(|rule| !is_tool(rule)),
    }
}

/// Where definitions of agents are. It would find those in the workspace itself; its private home has all of them.
const DEFINITIONS: DefinitionDirs =
    DefinitionDirs { project: &[".github/agents"], home: &[".copilot/agents"] };

fn agent_file(context: &ExecutionContext, name: &str) -> PathBuf {
    context.private_dir.join(format!("config/agents/{name}.agent.md"))
}

/// Adds the list of allowed tools to an MCP server; by default all.
fn with_tools(server: &serde_json::Map<String, Value>) -> Value {
    let mut server = server.clone();
    server.entry("tools").or_insert_with(|| json!(["*"]));
    Value::Object(server)
}

#[cfg(test)]
mod tests;
