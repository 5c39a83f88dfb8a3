//! The exit code and the JSON summary of a run.

use serde_json::json;
use yb_engine::outcome::Outcome;
use yb_engine::run::{RunDir, RunOutcome, StopReason};

use crate::exit_code::ExitCode;
use crate::printer::Printer;
use crate::report::{self, JSON_VERSION};

/// Returns the exit code of a run. Gates decide, if there are any; if they are inconclusive because no trial counted, the outcomes
/// of the trials decide.
pub(super) fn exit_code(over: &RunOutcome) -> ExitCode {
    let state = &over.state;
    let tally = state.tally();
    let gates = over.gates.as_ref().map(|report| report::gates::exit_code(report.status));
    let trials = state.trials().filter_map(|(_, trial)| trial.result()).map(|result| of(result.outcome));
    let use_trials =
        gates.is_none() || (gates == Some(ExitCode::Inconclusive) && tally.passed() + tally.failed() == 0);
    let stopped = match &state.stopped {
        Some(StopReason::Interrupted) => Some(ExitCode::Interrupted),
        Some(StopReason::Budget) => Some(ExitCode::Inconclusive),
        Some(_) => Some(ExitCode::Infrastructure),
        None => None,
    };
    let mistake = over.config_error.is_some().then_some(ExitCode::Usage);
    ExitCode::strongest(trials.filter(|_| use_trials).chain(gates).chain(stopped).chain(mistake))
}

/// Returns the exit code of an outcome.
pub(in crate::commands) fn of(outcome: Outcome) -> ExitCode {
    let code = outcome.exit_code();
    ExitCode::ALL.into_iter().find(|known| known.code() == code).unwrap_or(ExitCode::Failed)
}

/// Prints the last lines of `--json`: gates, if any, and the summary.
pub(super) fn json(run: &RunDir, over: &RunOutcome, code: ExitCode, printer: &mut Printer) {
    let tally = over.state.tally();
    if let Some(report) = &over.gates {
        printer.json(&json!({
            "v": JSON_VERSION,
            "event": "gates",
            "answer": report.status,
            "gates": report.gates,
        }));
    }
    printer.json(&json!({
        "v": JSON_VERSION,
        "event": "summary",
        "run": run.id(),
        "directory": run.path(),
        "results": run.results(),
        "finished": over.state.finished,
        "stopped": over.state.stopped,
        "planned": tally.planned,
        "done": tally.done,
        "passed": tally.passed(),
        "failed": tally.failed(),
        "left_out": tally.excluded(),
        "outcomes": tally.outcomes,
        "spend": tally.spend,
        "cost_usd": tally.spend.total(),
        "unpriced": tally.unpriced,
        "gates": over.gates.as_ref().map(|report| report.status),
        "error": over.config_error.as_ref().map(ToString::to_string),
        "exit_code": code.code(),
    }));
}
