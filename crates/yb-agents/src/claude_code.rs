//! The adapter of Claude Code, on top of `yb-claude`.

mod environment;
mod options;
mod subagent_calls;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use async_trait::async_trait;
use yb_claude::{
    AvailabilityCheck, CliSearch, EnvChange, FindError, Invocation, InvocationTarget, Options,
    PermissionMode, Prompt,
};
use yb_supervise::{Command, EgressRules, End};

use super::artifacts::Artifacts;
use super::cli::{LATE_VERSION_DEADLINE, known_version, query_version, remember_version};
use super::drive::{OutputFormat, drive};
use super::guard;
use super::normalize::{self, AgentOutput};
use super::programs::InstalledProgram;
use super::reader::ClaudeReader;
use super::secrets::{secrets, secrets_of_json};
use super::{
    Adapter, AdapterError, AgentConfig, Availability, AvailabilityStatus, Environment, Executed,
    ExecutionContext, ExecutionResult, Host, Intent,
};
use yb_case::fields_agent::CLI_FIELDS;
use yb_case::shape::{Field, Kind, Object};
use yb_case::{
    AgentProgram, AgentSpec, AgentTool, Capabilities, ConfigKeys, Credentials, ModelApi, ModelRule,
    NetworkMode, NpmProgram, ToolPurpose,
};
use yb_model::log::{StdinContent, YouBenchaLog};

pub use subagent_calls::{SubagentCall, subagent_calls};

static SPEC: AgentSpec = AgentSpec {
    name: "claude-code",
    label: "Claude Code",
    summary: "Anthropic's Claude Code CLI",
    adapter_version: "1.0.0",
    log_dir: "claude-code-logs",
    provider: "anthropic",
    error_prefix: "CLAUDE",
    program: AgentProgram::Npm(NpmProgram {
        bin: "claude",
        path_variable: "YB_CLAUDE",
        package: "@anthropic-ai/claude-code",
        tested: "2.1.325",
        megabytes: 350,
        install_scripts: false,
    }),
    credentials: Credentials {
        variables: &["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"],
        login: Some("claude auth login"),
        hint: "log in with `claude auth login`, or set `ANTHROPIC_API_KEY`",
    },
    variables: &[
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_BASE_URL",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "CLAUDE_CODE_USE_BEDROCK",
        "CLAUDE_CODE_USE_VERTEX",
        "CLAUDE_CONFIG_DIR",
    ],
    apis: &[ModelApi::ANTHROPIC],
    bypass_variables: &[
        "ANTHROPIC_AUTH_TOKEN",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "CLAUDE_CODE_USE_BEDROCK",
        "CLAUDE_CODE_USE_VERTEX",
    ],
    tools: &[
        AgentTool::new(ToolPurpose::Read, "Read"),
        AgentTool::new(ToolPurpose::Grep, "Grep"),
        AgentTool::new(ToolPurpose::Glob, "Glob"),
        AgentTool::new(ToolPurpose::Write, "Write"),
        AgentTool::new(ToolPurpose::Edit, "Edit"),
        AgentTool::new(ToolPurpose::Shell, "Bash"),
        AgentTool::new(ToolPurpose::Fetch, "WebFetch"),
        AgentTool::new(ToolPurpose::WebSearch, "WebSearch"),
        AgentTool::new(ToolPurpose::Subagent, "Agent"),
        AgentTool::new(ToolPurpose::Tasks, "TaskCreate"),
        AgentTool::new(ToolPurpose::Tasks, "TaskUpdate"),
        AgentTool::new(ToolPurpose::Other, "AskUserQuestion"),
        AgentTool::new(ToolPurpose::Other, "BashOutput"),
        AgentTool::new(ToolPurpose::Other, "CronCreate"),
        AgentTool::new(ToolPurpose::Other, "CronDelete"),
        AgentTool::new(ToolPurpose::Other, "CronList"),
        AgentTool::new(ToolPurpose::Other, "EnterPlanMode"),
        AgentTool::new(ToolPurpose::Other, "EnterWorktree"),
        AgentTool::new(ToolPurpose::Other, "ExitPlanMode"),
        AgentTool::new(ToolPurpose::Other, "ExitWorktree"),
        AgentTool::new(ToolPurpose::Other, "KillShell"),
        AgentTool::new(ToolPurpose::Other, "ListAgents"),
        AgentTool::new(ToolPurpose::Other, "ListMcpResourcesTool"),
        AgentTool::new(ToolPurpose::Other, "Monitor"),
        AgentTool::new(ToolPurpose::Other, "NotebookEdit"),
        AgentTool::new(ToolPurpose::Other, "ReadMcpResourceTool"),
        AgentTool::new(ToolPurpose::Other, "ReportFindings"),
        AgentTool::new(ToolPurpose::Other, "ScheduleWakeup"),
        AgentTool::new(ToolPurpose::Other, "SendMessage"),
        AgentTool::new(ToolPurpose::Other, "Skill"),
        AgentTool::new(ToolPurpose::Other, "SlashCommand"),
        AgentTool::new(ToolPurpose::Other, "StructuredOutput"),
        AgentTool::new(ToolPurpose::Other, "Task"),
        AgentTool::new(ToolPurpose::Other, "TaskGet"),
        AgentTool::new(ToolPurpose::Other, "TaskList"),
        AgentTool::new(ToolPurpose::Other, "TaskOutput"),
        AgentTool::new(ToolPurpose::Other, "TaskStop"),
        AgentTool::new(ToolPurpose::Other, "ToolSearch"),
        AgentTool::new(ToolPurpose::Other, "Workflow"),
    ],
    tool_kinds: &[],
    model_rule: Some(ModelRule {
        is_full_name,
        model: "a Claude model",
        expected: "`claude-` and a name, such as `claude-sonnet-4-5`",
    }),
    config_keys: ConfigKeys::All,
    section: Field::new("claude-code", Kind::Object(&SECTION), "For claude-code alone; others ignore it."),
    mcp_tools: Some("mcp__{server}__"),
    instruction_file: Some("CLAUDE.md"),
    trusted_files: &[
        ".claude/settings.json",
        ".claude/settings.local.json",
        ".claude/skills/",
        ".claude/commands/",
        ".mcp.json",
    ],
    capabilities: Capabilities { cost_limit: true, structured_output: true },
};

static SECTION: Object = Object { name: "claudeCode", fields: CLI_FIELDS };

/// Whether a model's name is no alias, which could mean another model tomorrow.
fn is_full_name(model: &str) -> bool {
    let plain = model.strip_prefix("anthropic/").unwrap_or(model);
    let plain = plain.strip_suffix("[1m]").unwrap_or(plain);
    plain.strip_prefix("claude-").is_some_and(|rest| {
        !rest.is_empty() && rest.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
    })
}

/// Runs the installed `claude`.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClaudeCode;

/// The invocation, before anything is started.
struct Plan {
    prompt: String,
    invocation: Invocation,
    mode: PermissionMode,
    warnings: Vec<String>,
}

#[async_trait]
impl Adapter for ClaudeCode {
    fn spec(&self) -> &'static AgentSpec {
        &SPEC
    }

    fn validate(&self, intent: &Intent<'_>) -> Result<(), AdapterError> {
        let context = intent.nowhere();
        // The prompt file may be in the workspace; any text will do.
        let prompt = super::prompt::early(intent)?.unwrap_or_else(|| "x".to_owned());
        let mut warnings = Vec::new();
        let (options, mode) = configured(&context, &mut warnings)?;
        options::check_agent_name(intent.config)?;
        exits(&context)?;
        invocation(options, mode, &prompt, &context).map(drop)
    }

    async fn check_availability(&self, config: &AgentConfig, host: &Host) -> Availability {
        let mut check = AvailabilityCheck::new(host.env.clone()).with_search(search(config, host));
        if let Some(shim) = &host.shim {
            check = check.with_shim(shim);
        }
        let found = check.check().await;
        let (status, program) = match &found {
            yb_claude::Availability::Ready(ready) => {
                (AvailabilityStatus::Ready, Some((&ready.path, ready.version.to_string())))
            }
            yb_claude::Availability::NotAuthenticated { path, version } => {
                (AvailabilityStatus::NotAuthenticated, Some((path, version.to_string())))
            }
            _ => (AvailabilityStatus::Missing, None),
        };
        let version = program.map(|(path, version)| {
            remember_version(path, &version);
            version
        });
        Availability { status, version, message: found.to_string(), hints: found.hints() }
    }

    async fn execute(&self, context: &ExecutionContext) -> Result<ExecutionResult, AdapterError> {
        let plan = plan(context)?;
        let program = program(context)?;
        let artifacts = Artifacts::prepare(&context.artifacts_dir, SPEC.log_dir)?;
        let private = |source| AdapterError::PrivateNotWritable { path: context.private_dir.clone(), source };
        yb_claude::hermetic::create_dirs(&context.private_dir).map_err(private)?;
        environment::link_skills(context).map_err(private)?;
        plan.invocation.write_files().map_err(private)?;
        let command = command(&plan.invocation, &program, context);
        let exits = exits(context)?;
        let driven = drive(
            command,
            OutputFormat::Messages(Box::new(ClaudeReader::of_claude_code())),
            &artifacts,
            context,
            exits,
            |view| environment::show(super::view::show_packages(view, &program), context),
        )
        .await?;
        trace_subagents(driven.transcript.as_ref(), context).await;
        let ended_by_itself = matches!(driven.report.end, End::Exited { .. } | End::Signaled { .. });
        let mut result = ExecutionResult::of(driven, plan.prompt, &SPEC, artifacts);
        // Its first message has the version, unless it died before.
        if result.summary().and_then(yb_claude::RunSummary::cli_version).is_none() {
            result.agent_version = late_version(&program, ended_by_itself, context).await;
        }
        result.warnings.splice(0..0, plan.warnings);
        result.permission_mode = Some(plan.mode.to_string());
        result.executed = Some(executed(&plan.invocation, program, context));
        Ok(result)
    }

    fn normalize_log(&self, result: &ExecutionResult, context: &ExecutionContext) -> YouBenchaLog {
        normalize::log(&SPEC, SPEC.provider, &AgentOutput::of_claude(result), result, context)
    }
}

/// Returns the version of a program that ran without reporting it. A program that had to be stopped is not run again: it may hang,
/// and the trial would end late.
async fn late_version(
    program: &std::path::Path,
    ended_by_itself: bool,
    context: &ExecutionContext,
) -> Option<String> {
    if !ended_by_itself {
        return known_version(program);
    }
    query_version(program, Environment::new(), &context.host, LATE_VERSION_DEADLINE).await.ok()
}

/// Reports the model calls of subagents to the trace.
async fn trace_subagents(transcript: Option<&super::Transcript>, context: &ExecutionContext) {
    let session = transcript.and_then(|transcript| transcript.summary().session_id()).map(str::to_owned);
    let (Some(trace), Some(session)) = (&context.trace, session) else { return };
    let Some(config_dir) = environment::private_config_dir(context) else { return };
    let read = tokio::task::spawn_blocking(move || subagent_calls(&config_dir, &session));
    read.await.unwrap_or_default().iter().for_each(|call| trace.subagent_call(call));
}

fn plan(context: &ExecutionContext) -> Result<Plan, AdapterError> {
    if !context.has_workspace() {
        return Err(AdapterError::WorkspaceMissing { path: context.workspace.clone() });
    }
    let prompt = super::prompt::prompt(context)?;
    let mut warnings = Vec::new();
    let (options, mode) = configured(context, &mut warnings)?;
    let options = options::as_agent(options, context)?;
    let invocation = invocation(options, mode, &prompt, context)?;
    warnings.extend(invocation.warnings.iter().map(ToString::to_string));
    Ok(Plan { prompt, invocation, mode, warnings })
}

/// All options except the definition of the agent, which may be in the workspace, and the environment.
fn configured(
    context: &ExecutionContext,
    warnings: &mut Vec<String>,
) -> Result<(Options, PermissionMode), AdapterError> {
    let mode = options::permission_mode(&context.config, warnings)?;
    environment::check_privileges(mode, context.isolation, environment::privileges())?;
    environment::check_skills(context)?;
    Ok((options::options(context, mode)?, mode))
}

/// Builds the invocation without writing its files.
fn invocation(
    options: Options,
    mode: PermissionMode,
    prompt: &str,
    context: &ExecutionContext,
) -> Result<Invocation, AdapterError> {
    // Files of an earlier execution in the same place are never overwritten.
    let unique = format!("files-{}", jiff::Timestamp::now().as_nanosecond());
    let target = InvocationTarget::new(context.private_dir.join(unique));
    environment::apply(options, mode, context)
        .invocation(&Prompt::text(prompt), &target)
        .map_err(|error| AdapterError::InvalidConfig { message: error.to_string(), hints: error.hints() })
}

/// The connections to the model.
fn exits(context: &ExecutionContext) -> Result<Option<EgressRules>, AdapterError> {
    if context.network.mode != NetworkMode::ModelOnly {
        return Ok(None);
    }
    guard::exits(&context.network, &context.host, &environment::model(&context.host, &context.network)?)
}

/// Searches the pinned version, then the installed one of the user, then the newest that `yb` installed.
fn search(config: &AgentConfig, host: &Host) -> CliSearch {
    let search = CliSearch::from_env(&|name| host.variable(name).map(OsStr::to_owned));
    let tool = super::pinned_program(&SPEC, config, host).or_else(|| newest(&search, host));
    match tool {
        Some(tool) => search.with_explicit(tool.prefix),
        None => search,
    }
}

/// The newest version that `yb` installed, if the user has no other.
fn newest(search: &CliSearch, host: &Host) -> Option<InstalledProgram> {
    match search.find() {
        Err(FindError::NotFound { .. }) => host.programs.as_ref()?.newest(&SPEC),
        _ => None,
    }
}

impl ClaudeCode {
    /// Returns the newest program that `yb` installed, if a search without it finds none.
    #[must_use]
    pub fn installed_by_yb(host: &Host) -> Option<PathBuf> {
        let search = CliSearch::from_env(&|name| host.variable(name).map(OsStr::to_owned));
        let prefix = newest(&search, host)?.prefix;
        search.with_explicit(prefix).find().ok().map(|found| found.path)
    }
}

fn program(context: &ExecutionContext) -> Result<PathBuf, AdapterError> {
    search(&context.config, &context.host).find().map(|found| found.path).map_err(|error| {
        AdapterError::NotInstalled {
            message: format!("Claude Code is not installed: {error}"),
            hints: error.hints(),
        }
    })
}

fn executed(invocation: &Invocation, program: PathBuf, context: &ExecutionContext) -> Executed {
    let decided = invocation.env.iter();
    let set = decided.clone().filter(|(_, change)| matches!(change, EnvChange::Set(_))).map(|(name, _)| name);
    let passed = context.host.env.keys().filter(|name| decided.clone().all(|(one, _)| one != *name));
    let names: BTreeSet<&OsString> = set.chain(passed).collect();
    Executed {
        argv: std::iter::once(program.into()).chain(invocation.args.iter().cloned()).collect(),
        env: names.into_iter().cloned().collect(),
        stdin: StdinContent::Frame,
    }
}

/// Builds the command; variables of the invocation override the given ones.
fn command(invocation: &Invocation, program: &std::path::Path, context: &ExecutionContext) -> Command {
    let mut command = invocation.command(program);
    for (name, value) in &context.host.env {
        if invocation.env.iter().all(|(decided, _)| decided != name) {
            command = command.env(name, value);
        }
    }
    let config = &context.config;
    let maps = config.mcp_servers.values().chain(&config.settings);
    for (name, value) in secrets(&context.host.env).chain(maps.flat_map(secrets_of_json)) {
        command = command.secret(name, value);
    }
    command
}
