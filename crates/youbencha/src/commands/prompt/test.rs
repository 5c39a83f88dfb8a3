//! `yb prompt test`: runs the rows of a dataset as the cases of a suite.

use clap::{Args as _, FromArgMatches as _};
use serde_json::{Map, Value, json};
use yb_claude::sdk::ToolServer;
use yb_prompt::{
    ClaudeAgentObjectParams, ClaudeAgentTextParams, DatasetRow, McpServerConfig, Prompt, QueryParams,
};

use super::PromptSession;
use super::suite::{PromptSuite, evaluator};
use super::tool_host::{self, ToolHost};
use yb_engine::Extensions;

use crate::args::{PromptTestArgs, RunArgs};
use crate::commands::run::{self, load};
use crate::error::{CliError, ErrorKind};
use crate::exit_code::ExitCode;
use crate::printer::Printer;

pub(super) fn run(
    args: &PromptTestArgs,
    extensions: &Extensions,
    printer: &mut Printer,
) -> Result<ExitCode, CliError> {
    let mut session = PromptSession::new(&args.query);
    let prompt = session.load_with_tools(&args.file)?;
    let dataset = args.dataset.as_ref().map(|path| path.to_string_lossy());
    let rows = prompt.dataset(dataset.as_deref(), session.client.loader())?;
    if rows.is_empty() {
        return Err(CliError::new(ErrorKind::Usage, "dataset has no rows"));
    }
    if !prompt.test_settings().score_thresholds.is_empty()
        && rows.iter().all(|row| row.expected_output.is_none())
    {
        let message = format!("{}: `score_thresholds`, but no row has `expected_output`", prompt.path());
        return Err(
            CliError::new(ErrorKind::Usage, message).hint("add `expected_output` to the rows of the dataset")
        );
    }
    let rows = rows
        .into_iter()
        .map(|row| {
            let formatted = session.format(&prompt, &row.input).map_err(|error| with_row(&error, &row))?;
            Ok((row, formatted))
        })
        .collect::<Result<Vec<_>, CliError>>()?;
    session.warn(printer);
    let (settings, _) = load::settings(false)?;
    let root = settings.workspace_dir();
    let gates = gates(&prompt, &root, printer)?;
    let suite = PromptSuite::new(&prompt, &rows, gates)?.write(&root, &prompt)?;
    let mut run = as_run(args, &suite)?;
    // All rows have the same tools.
    let host =
        rows.first().and_then(|(_, formatted)| tool_server(formatted)).map(ToolHost::start).transpose()?;
    run.env.extend(host.as_ref().map(|host| (tool_host::VARIABLE.to_owned(), host.address.clone())));
    run::run(&run, extensions, printer)
}

/// Returns the server of the commands that the prompt declares.
fn tool_server(formatted: &QueryParams) -> Option<ToolServer> {
    let (QueryParams::Text(ClaudeAgentTextParams { options, .. })
    | QueryParams::Object(ClaudeAgentObjectParams { options, .. })) = formatted;
    options.mcp_servers.values().find_map(|server| match server {
        McpServerConfig::InProcess(server) => Some(server.clone()),
        _ => None,
    })
}

/// Adds the row to an error.
fn with_row(error: &CliError, row: &DatasetRow) -> CliError {
    let message = format!("line {} of the dataset: {}", row.line, error.message());
    error.hints().iter().fold(CliError::new(error.kind(), message), |edge, hint| edge.hint(hint))
}

/// Builds the gates of the prompt header.
fn gates(
    prompt: &Prompt,
    root: &std::path::Path,
    printer: &mut Printer,
) -> Result<Map<String, Value>, CliError> {
    let settings = prompt.test_settings();
    let mut gates = Map::new();
    let thresholds: Map<String, Value> = settings
        .score_thresholds
        .iter()
        .map(|(eval, share)| (evaluator(eval), json!({ "min_pass_rate": share })))
        .collect();
    if !thresholds.is_empty() {
        gates.insert("evaluators".to_owned(), Value::Object(thresholds));
    }
    if let Some(tolerance) = settings.regression_tolerance {
        let Some(key) = &settings.experiment_key else {
            let message = format!("{}: `regression_tolerance` without `experiment_key`", prompt.path());
            return Err(CliError::new(ErrorKind::Usage, message)
                .hint("name the baseline to compare with: `experiment_key: main`"));
        };
        if yb_engine::baseline::names(root).contains(key) {
            gates.insert("no_regression".to_owned(), json!({"against": key, "tolerance": tolerance}));
        } else {
            printer.note(format_args!(
                "note: baseline `{key}` does not exist yet; hint: create it after this run: yb baseline set {key}"
            ));
        }
    }
    Ok(gates)
}

/// Builds the arguments of the equivalent `yb run`; further options keep their defaults.
fn as_run(args: &PromptTestArgs, suite: &std::path::Path) -> Result<RunArgs, CliError> {
    let mut words: Vec<std::ffi::OsString> = vec!["run".into(), "--config".into(), suite.into()];
    let mut put = |flag: &str, value: Option<String>| {
        if let Some(value) = value {
            words.push(format!("--{flag}={value}").into());
        }
    };
    put("repeat", args.repeat.map(|number| number.to_string()));
    put("jobs", args.jobs.map(|number| number.to_string()));
    put("max-cost", args.max_cost.map(|usd| usd.to_string()));
    put("isolation", args.isolation.map(|level| level.as_str().to_owned()));
    for gate in &args.gates {
        put("gate", Some(gate.clone()));
    }
    let flags = [("--dry-run", args.dry_run), ("--json", args.json), ("--quiet", args.quiet)];
    words.extend(flags.iter().filter(|(_, given)| *given).map(|(flag, _)| (*flag).into()));
    let parsed = RunArgs::augment_args(clap::Command::new("run")).try_get_matches_from(words);
    let mut run = parsed
        .and_then(|matches| RunArgs::from_arg_matches(&matches))
        .map_err(|error| CliError::new(ErrorKind::Usage, error.to_string()))?;
    run.otel = args.otel.clone();
    Ok(run)
}
