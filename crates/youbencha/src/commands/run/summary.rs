//! What a run came to, in a table, and the next command to type.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use yb_engine::log::{ExecutionStatus, UsageSource, YouBenchaLog};
use yb_engine::outcome::{Counts, Outcome};
use yb_engine::run::{
    AttemptRecord, Plan, PlanOptions, PlannedTrial, Ready, RunDir, RunInfo, RunState, StopReason, find_run,
};

use crate::error::CliError;
use crate::exit_code::ExitCode;
use crate::printer::{Printer, plural};
use crate::report::{JSON_VERSION, dollars, duration};
use crate::table::Table;

/// The exit code of a run.
pub(super) fn exit_code(state: &RunState, mistake: bool) -> ExitCode {
    let trials = state.trials().filter_map(|(_, trial)| trial.result()).map(|result| of(result.outcome));
    let stopped = match &state.stopped {
        Some(StopReason::Interrupted) => Some(ExitCode::Interrupted),
        Some(StopReason::Budget) => Some(ExitCode::Uncertain),
        Some(_) => Some(ExitCode::Infrastructure),
        None => None,
    };
    ExitCode::strongest(trials.chain(stopped).chain(mistake.then_some(ExitCode::Usage)))
}

fn of(outcome: Outcome) -> ExitCode {
    let code = outcome.exit_code();
    ExitCode::ALL.into_iter().find(|known| known.code() == code).unwrap_or(ExitCode::Failed)
}

/// The last line of `--json`.
pub(super) fn json(run: &RunDir, state: &RunState, code: ExitCode, printer: &mut Printer) {
    let tally = state.tally();
    printer.line(json!({
        "v": JSON_VERSION,
        "event": "summary",
        "run": run.id(),
        "results": run.results(),
        "planned": tally.planned,
        "done": tally.done,
        "outcomes": tally.outcomes,
        "spend": tally.spend,
        "exit_code": code.code(),
    }));
}

/// A single trial in full; several as a table.
pub(super) fn show(
    run: &RunDir,
    plan: &Plan,
    state: &RunState,
    printer: &mut Printer,
) -> Result<(), CliError> {
    match plan.trials.as_slice() {
        [only] => single(run, only, state, printer),
        _ => table(run, plan, state, printer),
    }
    next(run, plan, state, printer);
    Ok(())
}

fn single(run: &RunDir, trial: &PlannedTrial, state: &RunState, printer: &mut Printer) {
    let Some(last) = state.get(&trial.folder).and_then(|state| state.attempts.last()) else { return };
    for warning in &last.warnings {
        printer.note(format_args!("warning: {warning}"));
    }
    printer.line(format_args!("{}: {}", trial.case, last.outcome));
    let artifacts = run.artifacts(&trial.folder, last.attempt);
    match YouBenchaLog::read(&artifacts.join(yb_engine::log::FILE_NAME)) {
        Ok(log) => agent(&log, printer),
        Err(_) => {
            if let Some(error) = &last.error {
                printer.line(format_args!("  error: {error}"));
            }
        }
    }
    for (name, status, message) in evaluators(&artifacts) {
        printer.line(format_args!("  {name}: {status}: {message}"));
    }
    printer.line(format_args!("  artifacts: {}", shown(&artifacts)));
}

fn agent(log: &YouBenchaLog, printer: &mut Printer) {
    let status = match log.execution.status {
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
    printer.line(format_args!("  agent: {} {status} after {seconds:.1} s{used}", log.agent_info.name));
    for error in &log.errors {
        printer.line(format_args!("  error: {}", error.message));
    }
}

/// Name, status and message of each evaluator, from the results on disk.
fn evaluators(artifacts: &Path) -> Vec<(String, String, String)> {
    let bytes = std::fs::read(artifacts.join("results.json")).unwrap_or_default();
    let results: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    results["evaluators"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|one| (text(&one["evaluator"]), text(&one["status"]), text(&one["message"])))
        .collect()
}

/// One row for each case and variant.
#[derive(Default)]
struct Row {
    passed: usize,
    counted: usize,
    planned: usize,
    left_out: usize,
    usd: Option<f64>,
    times: Vec<u64>,
}

fn table(run: &RunDir, plan: &Plan, state: &RunState, printer: &mut Printer) {
    let mut rows: BTreeMap<(usize, &str, &str), Row> = BTreeMap::new();
    let mut order: Vec<(&str, &str)> = Vec::new();
    for trial in &plan.trials {
        let name = (trial.case.as_str(), trial.variant.as_str());
        let place = order.iter().position(|known| *known == name).unwrap_or_else(|| {
            order.push(name);
            order.len() - 1
        });
        let row = rows.entry((place, name.0, name.1)).or_default();
        row.planned += 1;
        let Some(trial) = state.get(&trial.folder) else { continue };
        for usd in trial.attempts.iter().filter_map(|attempt| attempt.spend.total()) {
            row.usd = Some(row.usd.unwrap_or(0.0) + usd);
        }
        if let Some(result) = trial.result() {
            match result.outcome.counts_as() {
                Counts::One => (row.passed, row.counted) = (row.passed + 1, row.counted + 1),
                Counts::Zero => row.counted += 1,
                _ => row.left_out += 1,
            }
            row.times.push(result.duration_ms);
        }
    }
    let variants = order.iter().any(|(_, variant)| *variant != "default");
    let mut shown = Table::new(if variants {
        &["case", "variant", "passed", "left out", "to do", "median time", "cost"]
    } else {
        &["case", "passed", "left out", "to do", "median time", "cost"]
    });
    for ((_, case, variant), mut row) in rows {
        row.times.sort_unstable();
        let median = row.times.get(row.times.len() / 2).map(|ms| duration(*ms)).unwrap_or_default();
        let to_do = row.planned - row.counted - row.left_out;
        let some = |count: usize| if count == 0 { String::new() } else { count.to_string() };
        let mut cells = vec![case.to_owned()];
        if variants {
            cells.push(variant.to_owned());
        }
        cells.extend([
            format!("{}/{}", row.passed, row.counted),
            some(row.left_out),
            some(to_do),
            median,
            row.usd.map(dollars).unwrap_or_default(),
        ]);
        shown.row(cells);
    }
    printer.text(&shown.to_string());
    let tally = state.tally();
    let outcomes: Vec<String> =
        tally.outcomes.iter().map(|(outcome, count)| format!("{count} {outcome}")).collect();
    let cost = tally.spend.total().map(|usd| format!(", {}", dollars(usd))).unwrap_or_default();
    let unknown = match tally.unpriced {
        0 => String::new(),
        unpriced if cost.is_empty() && unpriced == tally.done => String::new(),
        unpriced => format!(" (the cost of {} is not known)", plural(unpriced as u64, "trial")),
    };
    let outcomes = if outcomes.is_empty() { "nothing done".to_owned() } else { outcomes.join(", ") };
    printer.line(format_args!(
        "{} of {}: {outcomes}{cost}{unknown}",
        tally.done,
        plural(tally.planned as u64, "trial")
    ));
    let _ = run;
}

/// What to type now.
fn next(run: &RunDir, plan: &Plan, state: &RunState, printer: &mut Printer) {
    let name = short_name(run);
    let tally = state.tally();
    if tally.pending() > 0 {
        let reason = match &state.stopped {
            Some(StopReason::Budget) => " --max-cost MORE",
            _ => "",
        };
        printer.note(format_args!(
            "{} still to do: `yb run --resume {name}{reason}`",
            plural(tally.pending() as u64, "trial")
        ));
        return;
    }
    let bad = plan.trials.iter().find(|trial| {
        let result = state.get(&trial.folder).and_then(|state| state.result());
        result.is_some_and(|result: &AttemptRecord| result.outcome != Outcome::Passed)
    });
    match bad {
        Some(trial) if plan.trials.len() > 1 => {
            printer.note(format_args!("look at it: `yb show {name} {}`", trial.folder));
        }
        _ => printer.note(format_args!("look at it: `yb show {name}`")),
    }
}

/// `latest` if that is what it is.
fn short_name(run: &RunDir) -> String {
    let root = run.path().parent().and_then(Path::parent);
    match root.map(|root| find_run(root, "latest")) {
        Some(Ok(latest)) if latest.id() == run.id() => "latest".to_owned(),
        _ => run.id(),
    }
}

/// What would be run.
pub(super) fn dry_run(ready: &Ready, options: &PlanOptions, jobs: usize, printer: &mut Printer) {
    let count = ready.trials().count();
    let mut shown = Table::new(&["trial", "agent", "model", "commit"]);
    for trial in ready.trials() {
        let commit: String = trial.commit.chars().take(12).collect();
        shown.row(vec![
            trial.folder.clone(),
            trial.agent.clone(),
            trial.model.clone().unwrap_or_default(),
            commit,
        ]);
    }
    printer.text(&shown.to_string());
    printer.line(format_args!(
        "{}, {} at once; nothing was started",
        plural(count as u64, "trial"),
        jobs.min(count)
    ));
    for (agent, version) in &ready.agents {
        let version = version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
        printer.line(format_args!("{agent}{version}: ready"));
    }
    if let Some(max) = options.max_cost_usd {
        printer.line(format_args!("stops at {}", dollars(max)));
    }
}

/// What a resumption would do.
pub(super) fn pending(info: &RunInfo, printer: &mut Printer) {
    let mut count = 0;
    for trial in &info.plan.trials {
        if info.state.get(&trial.folder).and_then(|state| state.result()).is_none() {
            printer.line(&trial.folder);
            count += 1;
        }
    }
    printer.line(format_args!("{} to do; nothing was started", plural(count, "trial")));
}

/// Relative to the working directory, if it is below it.
fn shown(path: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(&here).unwrap_or(path).display().to_string()
}
