//! The adapter of any program: an argument template, how the prompt is passed, and the format of the output.

mod template;

use async_trait::async_trait;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use yb_claude::INLINE_LIMIT;
use yb_supervise::{EgressRules, Stdin};

use super::artifacts::Artifacts;
use super::drive::{OutputFormat, drive};
use super::guard::{self, Model};
use super::normalize::{self, AgentOutput};
use super::reader::ClaudeReader;
use super::secrets::secrets;
use super::view::{HOME, TMP};
use super::{
    Adapter, AdapterError, AgentConfig, Availability, AvailabilityStatus, CommandConfig, DeclaredOutput,
    Environment, Executed, ExecutionContext, ExecutionResult, Host, Intent, PromptVia,
};
use template::Values;
use yb_case::shape::{Field, Kind, Object, text};
use yb_case::{AgentProgram, AgentSpec, Capabilities, ConfigKeys, Credentials, ModelApi};
use yb_model::log::{StdinContent, YouBenchaLog};

static SPEC: AgentSpec = AgentSpec {
    name: "command",
    label: "the command",
    summary: "any program",
    adapter_version: "1.0.0",
    log_dir: "command-logs",
    provider: "unknown",
    error_prefix: "AGENT",
    program: AgentProgram::FromCase,
    credentials: Credentials {
        variables: &[],
        login: None,
        hint: "give it credentials by `env` in the case",
    },
    variables: &[],
    apis: &[ModelApi::ANTHROPIC, ModelApi::OPENAI, ModelApi::GEMINI],
    bypass_variables: &[],
    tools: &[],
    tool_kinds: &[],
    model_rule: None,
    config_keys: ConfigKeys::Only(&[]),
    section: Field::new(
        "command",
        Kind::Object(&SECTION),
        "For the `command` agent alone; others ignore it.",
    ),
    mcp_tools: None,
    instruction_file: None,
    trusted_files: &[],
    capabilities: Capabilities { cost_limit: false, structured_output: false },
};

static SECTION: Object = Object {
    name: "commandAgent",
    fields: &[
        Field::new(
            "argv",
            Kind::List { of: &text(0, usize::MAX), min: 1 },
            "The program and its arguments; `{prompt}`, `{prompt_file}`, `{workspace}` and `{model}` are replaced.",
        )
        .required(),
        Field::new(
            "prompt_via",
            Kind::Word(&["argument", "stdin", "file"]),
            "How the prompt gets there; by default as `argv` says, else on stdin.",
        ),
        Field::new("output", Kind::Word(&["text", "claude-stream-json", "none"]), "What it prints.").default("\"text\""),
    ],
};

/// Runs the program that the case names.
#[derive(Debug, Clone, Copy, Default)]
pub struct Command;

#[async_trait]
impl Adapter for Command {
    fn spec(&self) -> &'static AgentSpec {
        &SPEC
    }

    fn validate(&self, intent: &Intent<'_>) -> Result<(), AdapterError> {
        let own = command_config(intent.config)?;
        let prompt = super::prompt::early(intent)?.unwrap_or_default();
        let via = prompt_via(&own, &prompt)?;
        let values = Values {
            prompt: &prompt,
            prompt_file: (via == PromptVia::File).then_some(Path::new("prompt")),
            workspace: Path::new("workspace"),
            model: intent.config.model.as_deref(),
        };
        values.fill(&own.argv)?;
        exits(&intent.nowhere()).map(drop)
    }

    /// Whether the program can be found; it is not run.
    async fn check_availability(&self, config: &AgentConfig, host: &Host) -> Availability {
        let (status, message, hints) = match command_config(config).map(|own| find(&own.argv[0], host)) {
            Ok(Some(path)) => (AvailabilityStatus::Ready, format!("found: {}", path.display()), Vec::new()),
            Ok(None) => (
                AvailabilityStatus::Missing,
                "the program of `agent.config.command` is not found".to_owned(),
                vec!["install it, or give its full path".to_owned()],
            ),
            Err(error) => (AvailabilityStatus::Missing, error.to_string(), error.hints()),
        };
        Availability { status, version: None, message, hints }
    }

    async fn execute(&self, context: &ExecutionContext) -> Result<ExecutionResult, AdapterError> {
        let own = command_config(&context.config)?;
        if !context.has_workspace() {
            return Err(AdapterError::WorkspaceMissing { path: context.workspace.clone() });
        }
        let prompt = super::prompt::prompt(context)?;
        let via = prompt_via(&own, &prompt)?;
        let artifacts = Artifacts::prepare(&context.artifacts_dir, SPEC.log_dir)?;
        let private = |source| AdapterError::PrivateNotWritable { path: context.private_dir.clone(), source };
        for folder in [HOME, TMP].map(|name| context.private_dir.join(name)) {
            yb_claude::hermetic::create_private_dir(&folder).map_err(private)?;
        }
        let prompt_file = match via {
            PromptVia::File => Some(write_prompt(&context.private_dir, &prompt).map_err(private)?),
            _ => None,
        };
        let values = Values {
            prompt: &prompt,
            prompt_file: prompt_file.as_deref(),
            workspace: &context.workspace,
            model: context.config.model.as_deref(),
        };
        let argv = values.fill(&own.argv)?;
        let stdin = if via == PromptVia::Stdin {
            Stdin::Bytes(prompt.clone().into_bytes().into())
        } else {
            Stdin::None
        };
        let command = command(&argv, context).stdin(stdin);
        let stdout = match own.output {
            DeclaredOutput::ClaudeStreamJson => OutputFormat::Messages(Box::new(ClaudeReader::default())),
            DeclaredOutput::Text | DeclaredOutput::None => OutputFormat::Text,
        };
        let exits = exits(context)?;
        let driven = drive(command, stdout, &artifacts, context, exits, |view| {
            let words = own.argv.iter().map(Path::new);
            let view = words.fold(view, super::view::show_file);
            find(&own.argv[0], &context.host)
                .map_or(view.clone(), |program| super::view::show_packages(view, &program))
        })
        .await?;
        let mut result = ExecutionResult::of(driven, prompt, &SPEC, artifacts);
        result.executed = Some(Executed {
            argv: argv.into_iter().map(Into::into).collect(),
            env: variables(context).into_keys().collect(),
            stdin: if via == PromptVia::Stdin { StdinContent::Prompt } else { StdinContent::Nothing },
        });
        Ok(result)
    }

    fn normalize_log(&self, result: &ExecutionResult, context: &ExecutionContext) -> YouBenchaLog {
        let output = command_config(&context.config).map(|own| own.output).unwrap_or_default();
        let (provider, content) = match (output, &result.transcript) {
            (DeclaredOutput::ClaudeStreamJson, Some(transcript)) if transcript.spoke() => {
                ("anthropic", AgentOutput::Messages(transcript))
            }
            _ if !result.was_started() => (SPEC.provider, AgentOutput::None),
            (DeclaredOutput::None, _) => (SPEC.provider, AgentOutput::None),
            _ => (SPEC.provider, AgentOutput::Text(&result.output)),
        };
        normalize::log(&SPEC, provider, &content, result, context)
    }
}

/// The connections to the APIs that its variables name.
pub(super) fn exits(context: &ExecutionContext) -> Result<Option<EgressRules>, AdapterError> {
    let named = SPEC.apis.iter().filter_map(|api| context.host.variable(api.variable));
    let model: Vec<Model> = named.map(|url| Model::At(url.to_string_lossy().into_owned())).collect();
    guard::exits(&context.network, &context.host, &model)
}

/// Reads the agent's section of `agent.config`.
fn command_config(config: &AgentConfig) -> Result<CommandConfig, AdapterError> {
    let own = if config.section.is_empty() {
        CommandConfig::default()
    } else {
        CommandConfig::from_section(&config.section)?
    };
    if own.argv.first().is_none_or(String::is_empty) {
        let message = "`command` names no program";
        return Err(AdapterError::config(
            message,
            "write `agent.config.command.argv: [program, argument, …]`",
        ));
    }
    Ok(own)
}

/// How the prompt is passed: as the case says, or as the arguments show.
fn prompt_via(own: &CommandConfig, prompt: &str) -> Result<PromptVia, AdapterError> {
    let uses = |name: &str| own.argv.iter().any(|argument| argument.contains(name));
    let via = own.prompt_via.unwrap_or(match (uses("{prompt}"), uses("{prompt_file}")) {
        (true, _) => PromptVia::Argument,
        (false, true) => PromptVia::File,
        (false, false) => PromptVia::Stdin,
    });
    let missing = |name: &str| {
        let message = format!("`command`: no argument has `{name}`, so the prompt would not arrive");
        Err(AdapterError::config(message, format!("add `{name}`, or let the prompt come by stdin")))
    };
    match via {
        PromptVia::Argument if !uses("{prompt}") => missing("{prompt}"),
        PromptVia::File if !uses("{prompt_file}") => missing("{prompt_file}"),
        PromptVia::Argument if prompt.len() > INLINE_LIMIT => {
            let message = format!(
                "the prompt has {} bytes, at most {INLINE_LIMIT} are possible in an argument",
                prompt.len()
            );
            Err(AdapterError::config(message, "let the prompt come by stdin or by `{prompt_file}`"))
        }
        via => Ok(via),
    }
}

fn write_prompt(private_dir: &Path, prompt: &str) -> std::io::Result<PathBuf> {
    let path = private_dir.join(format!("prompt-{}.txt", jiff::Timestamp::now().as_nanosecond()));
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(&path)?.write_all(prompt.as_bytes())?;
    Ok(path)
}

fn command(argv: &[String], context: &ExecutionContext) -> yb_supervise::Command {
    let mut command = yb_supervise::Command::new(&argv[0]).args(&argv[1..]).envs(variables(context));
    for (name, value) in secrets(&context.host.env) {
        command = command.secret(name, value);
    }
    command
}

/// The given variables, with a private HOME and TMPDIR by default.
pub(super) fn variables(context: &ExecutionContext) -> Environment {
    let private = |name: &str, folder| (name.into(), context.private_dir.join(folder).into());
    let mut variables = Environment::from([
        private(yb_claude::env_vars::HOME, HOME),
        private(yb_claude::env_vars::TMPDIR, TMP),
    ]);
    variables.extend(context.host.env.clone());
    variables
}

/// Whether the program of a case prints messages, which are read.
#[must_use]
pub fn prints_messages(config: &AgentConfig) -> bool {
    command_config(config).is_ok_and(|own| own.output == DeclaredOutput::ClaudeStreamJson)
}

/// Finds a program by path or on the `PATH` of the child.
pub(super) fn find(program: &str, host: &Host) -> Option<PathBuf> {
    let path = Path::new(program);
    if path.components().count() > 1 {
        return path.is_file().then(|| path.to_owned());
    }
    yb_supervise::find_program(program, host.variable(yb_claude::env_vars::PATH)?)
}
