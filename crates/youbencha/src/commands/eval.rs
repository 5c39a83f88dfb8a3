//! `yb eval`: grades a directory, or re-grades a recorded run, without running an agent.

mod regrade;

use serde_json::json;
use yb_engine::Extensions;
use yb_engine::case::{self};
use yb_engine::outcome::Outcome;
use yb_engine::run::RunContext;
use yb_engine::trial::{DirectoryEvaluation, Runner};

use super::run::{load, summary};
use super::trajectory;
use crate::agents;
use crate::args::EvalArgs;
use crate::error::{CliError, ErrorKind};
use crate::exit_code::ExitCode;
use crate::printer::Printer;
use crate::signals::Signals;
use crate::tracing::{GradingTrace, Tracing};
use crate::workspace::display_path;

pub(super) fn run(
    args: &EvalArgs,
    extensions: &Extensions,
    printer: &mut Printer,
) -> Result<ExitCode, CliError> {
    // Multi-threaded: reading and writing the files of many trials uses several cores.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(CliError::failed_to("start"))?;
    runtime.block_on(async {
        let mut signals = Signals::listen().map_err(CliError::failed_to("listen for signals"))?;
        let mut tracing = Tracing::off();
        let code = tokio::select! {
            done = work(args, extensions, &mut tracing, printer) => done,
            // Dropping the future kills grading processes and discards an incomplete grading.
            () = signals.stop() => Ok(ExitCode::Interrupted),
        };
        tracing.finish(code.as_ref().ok().copied(), &mut signals, printer).await;
        code
    })
}

async fn work(
    args: &EvalArgs,
    extensions: &Extensions,
    tracing: &mut Tracing,
    printer: &mut Printer,
) -> Result<ExitCode, CliError> {
    let (settings, found) = load::settings(false)?;
    if !load::show(found, args.strict, printer) {
        return Ok(ExitCode::Usage);
    }
    let setup = RunContext::new(settings, agents::environment(), extensions.clone());
    *tracing = Tracing::start(&args.otel, &setup.settings, &setup.env, printer)?;
    match &args.from {
        Some(name) => regrade::run(args, name, &setup, tracing, printer).await,
        None => directory(args, setup, tracing, printer).await,
    }
}

/// Loads an eval file and prints its diagnostics; `None` if it is invalid.
fn eval_file(
    args: &EvalArgs,
    file: &std::path::Path,
    setup: &RunContext,
    printer: &mut Printer,
) -> Option<case::EvalFile> {
    let options = setup.extensions.load_options().with_variables(setup.settings.variables());
    let loaded = case::load_eval(file, &options);
    let good = load::show(loaded.diagnostics, args.strict, printer);
    loaded.eval.filter(|_| good)
}

async fn directory(
    args: &EvalArgs,
    setup: RunContext,
    tracing: &Tracing,
    printer: &mut Printer,
) -> Result<ExitCode, CliError> {
    let Some(file) = args.config() else { return Ok(ExitCode::Usage) };
    let Some(eval) = eval_file(args, file, &setup, printer) else { return Ok(ExitCode::Usage) };
    let log = args.trajectory.as_deref().map(trajectory::read).transpose()?;
    let empty = tempfile::tempdir().map_err(CliError::failed_to("create a directory"))?;
    let directory = match eval.directory.clone() {
        Some(directory) => directory,
        None if log.is_some() => empty.path().to_owned(),
        None => {
            return Err(CliError::new(ErrorKind::Usage, "the file has no `directory` to grade")
                .hint("add `directory: PATH`, or re-grade a run: `--from RUN`"));
        }
    };
    let mut runner = Runner::new(setup.settings, setup.env, setup.extensions);
    runner.isolation = args.isolation;
    let trace = tracing.grading(&eval.case().name);
    runner.trace = trace.as_ref().map(GradingTrace::node);
    let done = runner.evaluate(&eval, &directory, log).await.map_err(|error| CliError::from(&error))?;
    if let Some(trace) = trace {
        trace.end([done.outcome]);
    }
    if !args.quiet {
        for warning in &done.warnings {
            printer.note(format_args!("warning: {warning}"));
        }
    }
    if args.json {
        let mut value = json!(done.results);
        value["directory"] = json!(done.artifacts);
        printer.pretty_json(&value);
    } else {
        show(&done, printer);
    }
    Ok(summary::of(done.outcome))
}

fn show(done: &DirectoryEvaluation, printer: &mut Printer) {
    printer.line(format_args!("{}: {}", done.results.test_case.name, done.outcome));
    for one in &done.results.evaluators {
        let status = json!(one.status);
        let place = one.graded_code.map(|place| format!(" ({})", place.as_str())).unwrap_or_default();
        let status = format!("{}{place}", status.as_str().unwrap_or_default());
        printer.line(format_args!("  {}: {status}: {}", one.evaluator, one.message));
    }
    printer.line(format_args!("  artifacts: {}", display_path(&done.artifacts)));
    if done.outcome == Outcome::GraderError {
        printer.note("hint: an evaluator failed to run; see its message");
    }
}
