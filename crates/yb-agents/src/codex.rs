//! The adapter of Codex: `codex exec --json`, with the Responses API.
//!
//! Measured with 0.166.0. It ignores `OPENAI_BASE_URL`, so a custom provider has the address. Its plugins query GitHub and delay the
//! exit by five seconds, and without a connection it retries without a limit, so both are disabled. SIGTERM kills it and its tools by
//! signal 15. Exit codes are 0, 1, and 2 for unknown arguments.

mod reader;

use std::path::{Path, PathBuf};

use serde_json::Value;
use yb_supervise::Sandbox;

use super::cli::{Call, Cli, Invocation, npm_platform, permission_mode};
use super::guard::Model;
use super::reader::Reader;
use super::{AdapterError, AgentConfig, ExecutionContext, Host, Isolation};
use yb_case::shape::{FREE, Field};
use yb_case::{
    AgentProgram, AgentSpec, Capabilities, ConfigKeys, Credentials, ModelApi, NetworkMode, NpmProgram,
};

/// Runs the installed `codex`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Codex;

static SPEC: AgentSpec = AgentSpec {
    name: "codex",
    label: "Codex",
    summary: "OpenAI's Codex CLI",
    adapter_version: "1.0.0",
    log_dir: "codex-logs",
    provider: "openai",
    error_prefix: "AGENT",
    program: AgentProgram::Npm(NpmProgram {
        bin: "codex",
        path_variable: "YB_CODEX",
        package: "@openai/codex",
        tested: "0.166.0",
        megabytes: 440,
        install_scripts: false,
    }),
    credentials: Credentials {
        variables: &KEYS,
        login: Some("codex login"),
        hint: "log in with `codex login`, or set `OPENAI_API_KEY`",
    },
    variables: &["OPENAI_API_KEY", "CODEX_API_KEY", "OPENAI_BASE_URL", "CODEX_HOME"],
    apis: &[ModelApi::OPENAI],
    bypass_variables: &["CODEX_API_KEY"],
    // It has one tool, a shell; `permission_mode` makes that read-only.
    tools: &[],
    tool_kinds: &[],
    model_rule: None,
    config_keys: ConfigKeys::Only(&[
        "instructions",
        "append_system_prompt",
        "system_prompt",
        "permission_mode",
        "mcp_servers",
        "mcp",
        "effort",
        "add_dirs",
        "extra_args",
    ]),
    section: Field::new("codex", FREE, "For codex alone; others ignore it."),
    mcp_tools: Some("mcp__{server}__"),
    instruction_file: Some("AGENTS.md"),
    trusted_files: &[],
    capabilities: Capabilities { cost_limit: false, structured_output: true },
};

/// Variables with a key, by precedence.
const KEYS: [&str; 2] = ["CODEX_API_KEY", "OPENAI_API_KEY"];
/// The default base URL of the API.
const API: &str = "https://api.openai.com/v1";
/// Hosts of a login and its models.
const LOGIN: [&str; 2] = ["auth.openai.com", "chatgpt.com"];
/// The name of the provider with address and key.
const PROVIDER: &str = "youbencha";
/// The most API retries, about three seconds. The runner retries after longer failures.
const MAX_RETRIES: u32 = 4;

impl Cli for Codex {
    fn agent_spec(&self) -> &'static AgentSpec {
        &SPEC
    }

    fn native(&self, packages: &Path) -> Option<PathBuf> {
        let vendor = packages.join("@openai").join(format!("codex-{}", npm_platform()?)).join("vendor");
        let name = format!("codex{}", std::env::consts::EXE_SUFFIX);
        let triples = std::fs::read_dir(vendor).ok()?.filter_map(Result::ok);
        triples.map(|triple| triple.path().join("bin").join(&name)).find(|path| path.is_file())
    }

    fn is_authenticated(&self, host: &Host) -> bool {
        key(host).is_some() || login(host).is_some()
    }

    fn model(&self, host: &Host) -> Vec<Model> {
        let named = host.variable("OPENAI_BASE_URL").map(|url| url.to_string_lossy().into_owned());
        match (named, key(host)) {
            (Some(url), _) => vec![Model::At(url)],
            (None, Some(_)) => vec![Model::At(API.to_owned())],
            (None, None) => LOGIN.into_iter().map(Model::On).collect(),
        }
    }

    fn invocation(&self, call: &Call<'_>) -> Result<Invocation, AdapterError> {
        let (context, config) = (call.context, &call.context.config);
        let mut it =
            Invocation { permission_mode: permission_mode(config).to_owned(), ..Invocation::default() };
        it.arg("exec")
            .arg("--json")
            .arg("--skip-git-repo-check")
            .arg("--ignore-user-config")
            .flag("color", "never");
        for feature in ["plugins", "unbounded_connection_retries"] {
            it.flag("disable", feature);
        }
        setting(&mut it, "analytics.enabled", &false.into());
        setting(&mut it, "check_for_update_on_startup", &false.into());
        self.provide(&mut it, context);
        if let Some(model) = &config.model {
            setting(&mut it, "model", &model.as_str().into());
        }
        if let Some(text) = &config.append_system_prompt {
            setting(&mut it, "developer_instructions", &text.as_str().into());
        }
        if let Some(text) = &config.system_prompt {
            let path = call.private("instructions.md");
            setting(&mut it, "model_instructions_file", &path.to_string_lossy().into());
            it.files.push((path, text.clone()));
        }
        if let Some(effort) = &config.effort {
            let known = if effort == "max" { "xhigh" } else { effort };
            setting(&mut it, "model_reasoning_effort", &known.into());
        }
        // Its log on stderr is the only place that says that a server did not start.
        if !config.mcp_servers.is_empty() && context.host.variable("RUST_LOG").is_none() {
            it.env.insert("RUST_LOG", "codex_mcp::rmcp_client=warn".into());
        }
        for (name, server) in &config.mcp_servers {
            let key = format!("mcp_servers.{}", toml_key(name));
            setting(&mut it, &key, &Value::Object(server.clone()));
        }
        // Web search runs on the servers of the model, outside of the network restrictions.
        if context.network.mode != NetworkMode::Open {
            setting(&mut it, "web_search", &"disabled".into());
        }
        match permission_mode(config) {
            "bypassPermissions" => it.arg("--dangerously-bypass-approvals-and-sandbox"),
            "acceptEdits" | "auto" => it.flag("sandbox", "workspace-write"),
            _ => it.flag("sandbox", "read-only"),
        };
        if uses_own_sandbox(config) && context.isolation == Isolation::Landlock {
            return Err(AdapterError::config(
                format!(
                    "`permission_mode: {}` needs Codex's own sandbox, which does not work below landlock",
                    permission_mode(config)
                ),
                "install bubblewrap, or use `permission_mode: bypassPermissions`",
            ));
        }
        for path in &config.add_dirs {
            it.flag("add-dir", path);
        }
        if let Some(schema) = &config.answer_schema {
            let path = call.private("answer-schema.json");
            it.flag("output-schema", &path);
            it.files.push((path, schema.to_string()));
        }
        for argument in &config.extra_args {
            it.arg(argument);
        }
        // The prompt is on stdin: it may be long and may start with a dash.
        it.arg("-");
        Ok(it)
    }

    fn reader(&self, call: &Call<'_>) -> Box<dyn Reader> {
        // With the user's login it records sessions in the user's directory, which is not read.
        let sessions = call.private("config").join("sessions");
        Box::new(reader::CodexReader::new(call.context.config.model.clone(), sessions))
    }

    /// A stored login is writable, because its tokens rotate.
    fn show(&self, view: Sandbox, context: &ExecutionContext) -> Sandbox {
        let view = if uses_own_sandbox(&context.config) { view.nested_sandbox() } else { view };
        match login(&context.host).filter(|_| key(&context.host).is_none()) {
            Some(home) => view.writable(home),
            None => view,
        }
    }
}

/// Whether Codex runs commands in its own sandbox: in every permission mode that denies anything.
fn uses_own_sandbox(config: &AgentConfig) -> bool {
    permission_mode(config) != "bypassPermissions"
}

impl Codex {
    /// Sets its home directory and its provider.
    fn provide(&self, it: &mut Invocation, context: &ExecutionContext) {
        let host = &context.host;
        let Some(key) = key(host) else {
            let own = login(host).unwrap_or_else(|| context.private_dir.join("config"));
            it.env.insert("CODEX_HOME", own.into());
            return;
        };
        it.env.insert("CODEX_HOME", context.private_dir.join("config").into());
        let url = host.variable("OPENAI_BASE_URL").map(|url| url.to_string_lossy().into_owned());
        let provider = serde_json::json!({
            "name": PROVIDER, "base_url": url.unwrap_or_else(|| API.to_owned()), "env_key": key,
            "wire_api": "responses", "request_max_retries": MAX_RETRIES, "stream_max_retries": MAX_RETRIES,
        });
        setting(it, "model_provider", &PROVIDER.into());
        setting(it, &format!("model_providers.{PROVIDER}"), &provider);
    }
}

/// The variable with a key.
fn key(host: &Host) -> Option<&'static str> {
    KEYS.into_iter().find(|name| host.variable(name).is_some())
}

/// The directory of a stored login.
fn login(host: &Host) -> Option<PathBuf> {
    let named = host.variable("CODEX_HOME").map(PathBuf::from);
    let home = named.or_else(|| Some(Path::new(host.variable("HOME")?).join(".codex")))?;
    home.join("auth.json").is_file().then_some(home)
}

/// Adds `-c key=value`, the value as TOML.
fn setting(it: &mut Invocation, key: &str, value: &Value) {
    it.arg("-c").arg(format!("{key}={}", toml(value)));
}

/// A value as TOML on one line. JSON strings are TOML strings, except for DEL.
fn toml(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(toml).collect::<Vec<_>>().join(",")),
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(_, value)| !value.is_null());
            let fields: Vec<_> =
                fields.map(|(key, value)| format!("{}={}", toml_key(key), toml(value))).collect();
            format!("{{{}}}", fields.join(","))
        }
        // DEL needs an escape in TOML, and has none in JSON.
        Value::String(text) => Value::from(text.as_str()).to_string().replace('\u{7f}', "\\u007f"),
        other => other.to_string(),
    }
}

fn toml_key(key: &str) -> String {
    let bare = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    if bare { key.to_owned() } else { Value::from(key).to_string() }
}

#[cfg(test)]
mod tests;
