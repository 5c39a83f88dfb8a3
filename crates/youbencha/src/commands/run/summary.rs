//! What a run comes to, for programs.

use serde_json::json;
use yb_engine::outcome::Outcome;
use yb_engine::run::{RunDir, RunOutcome, StopReason};

use crate::exit_code::ExitCode;
use crate::printer::Printer;
use crate::report::{self, JSON_VERSION};

/// The exit code of a run. Gates decide, if there are any; trials speak again where none of them counted, because then they know better
/// why nobody can tell.
pub(super) fn exit_code(over: &RunOutcome) -> ExitCode {
    let state = &over.state;
    let tally = state.tally();
    let gates = over.gates.as_ref().map(|told| report::gates::exit_code(told.status));
    let trials = state.trials().filter_map(|(_, trial)| trial.result()).map(|result| of(result.outcome));
    let speak =
        gates.is_none() || (gates == Some(ExitCode::Uncertain) && tally.passed() + tally.failed() == 0);
    let stopped = match &state.stopped {
        Some(StopReason::Interrupted) => Some(ExitCode::Interrupted),
        Some(StopReason::Budget) => Some(ExitCode::Uncertain),
        Some(_) => Some(ExitCode::Infrastructure),
        None => None,
    };
    let mistake = over.config_error.is_some().then_some(ExitCode::Usage);
    ExitCode::strongest(trials.filter(|_| speak).chain(gates).chain(stopped).chain(mistake))
}

/// The exit code of a trial that came to this.
pub(in crate::commands) fn of(outcome: Outcome) -> ExitCode {
    let code = outcome.exit_code();
    ExitCode::ALL.into_iter().find(|known| known.code() == code).unwrap_or(ExitCode::Failed)
}

/// The last lines of `--json`: what the gates say, if there are any, and the whole.
pub(super) fn json(run: &RunDir, over: &RunOutcome, code: ExitCode, printer: &mut Printer) {
    let tally = over.state.tally();
    if let Some(told) = &over.gates {
        printer.line(json!({
            "v": JSON_VERSION,
            "event": "gates",
            "answer": told.status,
            "gates": told.gates,
        }));
    }
    printer.line(json!({
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
        "gates": over.gates.as_ref().map(|told| told.status),
        "error": over.config_error.as_ref().map(ToString::to_string),
        "exit_code": code.code(),
    }));
}
