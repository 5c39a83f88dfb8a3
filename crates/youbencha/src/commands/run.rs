//! `yb run`: one case, once: from the file to a log, results and an exit code.

use std::collections::BTreeMap;
use std::path::Path;

use yb_engine::case::{self, Case, LoadOptions, PrivateHosts};
use yb_engine::config::Settings;
use yb_engine::evaluate::EvaluatorStatus;
use yb_engine::log::{ExecutionStatus, UsageSource};
use yb_engine::outcome::Outcome;
use yb_engine::repo::HostPolicy;
use yb_engine::trial::{Finished, Runner, Step, TrialError};

use crate::args::RunArgs;
use crate::diagnostics::render;
use crate::error::{CliError, ErrorKind};
use crate::exit_code::ExitCode;
use crate::printer::Printer;
use crate::signals::Signals;

pub(super) fn run(args: &RunArgs, printer: &mut Printer) -> Result<ExitCode, CliError> {
    let Some((case, settings)) = load(args, printer)? else { return Ok(ExitCode::Usage) };
    let runtime = tokio::runtime::Runtime::new().map_err(CliError::failed_to("start"))?;
    runtime.block_on(async {
        let mut signals = Signals::listen().map_err(CliError::failed_to("listen for signals"))?;
        let mut runner = Runner::new(settings, environment());
        if args.allow_private_hosts {
            runner.hosts = HostPolicy::AllowPrivate;
        }
        let cancel = runner.cancellation.clone();
        let finished = {
            let mut tell = |step: Step| printer.note(describe(&step));
            let trial = runner.run(&case, &mut tell);
            tokio::pin!(trial);
            tokio::select! {
                finished = &mut trial => finished,
                () = signals.stop() => {
                    cancel.cancel();
                    trial.await
                }
            }
        };
        match finished {
            Ok(finished) => Ok(report(&finished, printer)),
            Err(error) if cancel.is_cancelled() || error.is_cancelled() => Ok(ExitCode::Interrupted),
            Err(error) => Err(error.into()),
        }
    })
}

/// The case and the settings that hold for it; `None` if something is wrong with the file, which was then shown.
fn load(args: &RunArgs, printer: &mut Printer) -> Result<Option<(std::sync::Arc<Case>, Settings)>, CliError> {
    let project = std::env::current_dir().map_err(|error| {
        CliError::new(ErrorKind::Usage, "failed to find the working directory").caused_by(error)
    })?;
    let (settings, mut found) = Settings::load(std::env::home_dir().as_deref(), &project);
    let hosts = if args.allow_private_hosts { PrivateHosts::Allowed } else { PrivateHosts::Refused };
    let options = LoadOptions::default().with_variables(settings.variables()).with_private_hosts(hosts);
    let loaded = case::load(&args.config, &options);
    found.extend(loaded.diagnostics);
    for finding in &found {
        printer.note(render(finding, finding.severity));
        printer.note("");
    }
    let Some(case) = loaded.case.filter(|_| !found.iter().any(yb_engine::diagnostic::Diagnostic::is_error))
    else {
        return Ok(None);
    };
    let mut settings = settings.with_case(&case);
    if args.delete_workspace {
        settings = settings.with_argument("keep_workspace", false);
    }
    Ok(Some((case, settings)))
}

/// What this process was given; only names that a case or an adapter asks for are passed on.
fn environment() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

fn describe(step: &Step) -> String {
    match step {
        Step::Resolved { commit } => format!("commit {commit}"),
        Step::Prepared { workspace } => format!("workspace {}", workspace.display()),
        Step::Hook { command } => format!("pre-execution: {command}"),
        Step::Acting { agent } => format!("{agent} is working"),
        Step::Captured => "captured what it left".to_owned(),
        _ => String::new(),
    }
}

fn report(finished: &Finished, printer: &mut Printer) -> ExitCode {
    for warning in &finished.warnings {
        printer.note(format_args!("warning: {warning}"));
    }
    let results = &finished.results;
    let log = &finished.log;
    printer.line(format_args!("{}: {}", results.test_case.name, finished.outcome.as_str()));
    let status = match results.agent.status {
        ExecutionStatus::Success => "succeeded",
        ExecutionStatus::Failed => "failed",
        ExecutionStatus::Timeout => "timed out",
        _ => "ended",
    };
    // What nobody reported is left out: the zeros in the log are there for its shape.
    let used = match log.usage.source {
        UsageSource::Unreported => String::new(),
        _ => {
            let cost = log.usage.estimated_cost_usd.map(|cost| format!(", ${cost:.4}")).unwrap_or_default();
            format!(", model {}, {} tokens{cost}", log.model_info.name, log.usage.total_tokens)
        }
    };
    let seconds = log.execution.duration_ms as f64 / 1000.0;
    printer.line(format_args!("  agent: {} {status} after {seconds:.1} s{used}", results.agent.kind));
    for error in &log.errors {
        printer.line(format_args!("  error: {}", error.message));
    }
    for result in &results.evaluators {
        let status = match result.status {
            EvaluatorStatus::Passed => "passed",
            EvaluatorStatus::Failed => "failed",
            EvaluatorStatus::Skipped => "skipped",
        };
        printer.line(format_args!("  {}: {status}: {}", result.evaluator, result.message));
    }
    printer.line(format_args!("  artifacts: {}", shown(&finished.artifacts)));
    exit_code(finished.outcome)
}

/// Relative to the working directory, if it is below it.
fn shown(path: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(&here).unwrap_or(path).display().to_string()
}

fn exit_code(outcome: Outcome) -> ExitCode {
    let code = outcome.exit_code();
    ExitCode::ALL.into_iter().find(|known| known.code() == code).unwrap_or(ExitCode::Failed)
}

impl From<TrialError> for CliError {
    fn from(error: TrialError) -> Self {
        let kind = match &error {
            TrialError::Unavailable { .. } => ErrorKind::Agent,
            error if error.is_configuration() => ErrorKind::Usage,
            _ => ErrorKind::Infrastructure,
        };
        let hints = error.hints();
        hints.into_iter().fold(Self::new(kind, error.to_string()), Self::hint)
    }
}
