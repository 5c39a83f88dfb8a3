//! The adapter of agents that speak the Agent Client Protocol: JSON-RPC on stdin and stdout, one message per line.
//!
//! The case names the program. The few messages that are needed are implemented here, on the same pipes as the output of other
//! agents, so that deadlines, logs and sandboxes work the same. The crate of the protocol has its own transports and changed its major
//! version five times, so it is not used.

pub(super) mod reader;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use yb_supervise::Stdin;

use super::artifacts::Artifacts;
use super::command::{exits, find, variables};
use super::drive::{OutputFormat, drive};
use super::normalize;
use super::secrets::{secrets, secrets_of_json};
use super::{
    Adapter, AdapterError, AgentConfig, Availability, AvailabilityStatus, Executed, ExecutionContext,
    ExecutionResult, Host, Intent,
};
use yb_case::shape::{Field, Kind, Object, text};
use yb_case::{AgentProgram, AgentSpec, Capabilities, ConfigKeys, Credentials};
use yb_model::log::{StdinContent, YouBenchaLog};

static SPEC: AgentSpec = AgentSpec {
    name: "acp",
    label: "the agent",
    summary: "any agent that speaks the Agent Client Protocol",
    adapter_version: "1.0.0",
    log_dir: "acp-logs",
    provider: "unknown",
    error_prefix: "AGENT",
    program: AgentProgram::FromCase,
    credentials: Credentials {
        variables: &[],
        login: None,
        hint: "give it credentials by `env` in the case, or name its `auth_method`",
    },
    variables: &[],
    // The protocol has no setting for the address of a model.
    apis: &[],
    bypass_variables: &[],
    tools: &[],
    tool_kinds: &[],
    model_rule: None,
    config_keys: ConfigKeys::Only(&["permission_mode", "mcp_servers"]),
    section: Field::new("acp", Kind::Object(&SECTION), "For the `acp` agent alone; others ignore it."),
    mcp_tools: None,
    instruction_file: None,
    trusted_files: &[],
    capabilities: Capabilities { cost_limit: false, structured_output: false },
};

static SECTION: Object = Object {
    name: "acp",
    fields: &[
        Field::new(
            "argv",
            Kind::List { of: &text(0, usize::MAX), min: 1 },
            "The program that speaks the Agent Client Protocol on its stdin and stdout, and its arguments.",
        )
        .required(),
        Field::new(
            "auth_method",
            text(1, 100),
            "The protocol's name of the way to authenticate, if it wants one.",
        ),
    ],
};

/// Runs the program that the case names, and speaks the Agent Client Protocol to it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Acp;

/// A case's `agent.config.acp`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AcpConfig {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The way to authenticate before there is a session, by the name that the agent gives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth_method: Option<String>,
}

impl AcpConfig {
    /// A program and its arguments.
    pub fn new(argv: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { argv: argv.into_iter().map(Into::into).collect(), auth_method: None }
    }

    /// Reads a case's `agent.config.acp`.
    ///
    /// # Errors
    /// If the section does not have this shape.
    pub fn from_section(section: &Map<String, Value>) -> Result<Self, AdapterError> {
        Self::deserialize(section).map_err(|error| {
            let message = format!("`acp`: {error}");
            AdapterError::config(message, "write `agent.config.acp.argv: [program, argument, …]`")
        })
    }

    /// The section of `agent.config` with this configuration.
    #[must_use]
    pub fn to_section(&self) -> Map<String, Value> {
        super::context::section(self)
    }
}

#[async_trait]
impl Adapter for Acp {
    fn spec(&self) -> &'static AgentSpec {
        &SPEC
    }

    fn validate(&self, intent: &Intent<'_>) -> Result<(), AdapterError> {
        acp_config(intent.config)?;
        super::prompt::early(intent)?;
        exits(&intent.nowhere()).map(drop)
    }

    /// Whether the program can be found; it is not run.
    async fn check_availability(&self, config: &AgentConfig, host: &Host) -> Availability {
        let (status, message, hints) = match acp_config(config).and_then(|own| program(&own.argv[0], host)) {
            Ok(path) => (AvailabilityStatus::Ready, format!("found: {}", path.display()), Vec::new()),
            Err(error) => (AvailabilityStatus::Missing, error.to_string(), error.hints()),
        };
        Availability { status, version: None, message, hints }
    }

    async fn execute(&self, context: &ExecutionContext) -> Result<ExecutionResult, AdapterError> {
        let own = acp_config(&context.config)?;
        if !context.has_workspace() {
            return Err(AdapterError::WorkspaceMissing { path: context.workspace.clone() });
        }
        let prompt = super::prompt::prompt(context)?;
        let program = program(&own.argv[0], &context.host)?;
        let artifacts = Artifacts::prepare(&context.artifacts_dir, SPEC.log_dir)?;
        let private = |source| AdapterError::PrivateNotWritable { path: context.private_dir.clone(), source };
        yb_claude::hermetic::create_dirs(&context.private_dir).map_err(private)?;
        let command = command(&program, &own, context);
        let reader = reader::AcpReader::new(&own, context, &prompt);
        let exits = exits(context)?;
        let driven =
            drive(command, OutputFormat::Messages(Box::new(reader)), &artifacts, context, exits, |view| {
                let words = own.argv.iter().map(Path::new);
                super::view::show_packages(words.fold(view, super::view::show_file), &program)
            })
            .await?;
        let mut result = ExecutionResult::of(driven, prompt, &SPEC, artifacts);
        result.permission_mode = Some(super::cli::permission_mode(&context.config).to_owned());
        let arguments = own.argv[1..].iter().map(OsString::from);
        result.executed = Some(Executed {
            argv: std::iter::once(program.into()).chain(arguments).collect(),
            env: variables(context).into_keys().collect(),
            stdin: StdinContent::Prompt,
        });
        Ok(result)
    }

    fn normalize_log(&self, result: &ExecutionResult, context: &ExecutionContext) -> YouBenchaLog {
        normalize::log(&SPEC, SPEC.provider, &result.agent_output(), result, context)
    }
}

/// Reads the agent's section of `agent.config`.
fn acp_config(config: &AgentConfig) -> Result<AcpConfig, AdapterError> {
    let own = if config.section.is_empty() {
        AcpConfig::default()
    } else {
        AcpConfig::from_section(&config.section)?
    };
    if own.argv.first().is_none_or(String::is_empty) {
        let message = "`acp` names no program";
        return Err(AdapterError::config(message, "write `agent.config.acp.argv: [program, argument, …]`"));
    }
    Ok(own)
}

/// Finds a program by path or on its `PATH`.
fn program(name: &str, host: &Host) -> Result<PathBuf, AdapterError> {
    let found = find(name, host);
    found.ok_or_else(|| AdapterError::NotInstalled {
        message: format!("the program of `agent.config.acp` is not found: `{name}`"),
        hints: vec!["install it, or give its full path".to_owned()],
    })
}

fn command(program: &Path, own: &AcpConfig, context: &ExecutionContext) -> yb_supervise::Command {
    let mut command = yb_supervise::Command::new(program).args(&own.argv[1..]).envs(variables(context));
    let servers = context.config.mcp_servers.values().flat_map(secrets_of_json);
    for (name, value) in secrets(&context.host.env).chain(servers) {
        command = command.secret(name, value);
    }
    command.stdin(Stdin::Interactive)
}

#[cfg(test)]
mod tests;
