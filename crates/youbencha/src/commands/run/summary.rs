//! What a run comes to, for programs.

use serde_json::json;
use yb_engine::outcome::Outcome;
use yb_engine::run::{Over, RunDir, RunState, StopReason};

use crate::exit_code::ExitCode;
use crate::printer::Printer;
use crate::report::JSON_VERSION;

/// The exit code of a run.
pub(in crate::commands) fn exit_code(state: &RunState, mistake: bool) -> ExitCode {
    let trials = state.trials().filter_map(|(_, trial)| trial.result()).map(|result| of(result.outcome));
    let stopped = match &state.stopped {
        Some(StopReason::Interrupted) => Some(ExitCode::Interrupted),
        Some(StopReason::Budget) => Some(ExitCode::Uncertain),
        Some(_) => Some(ExitCode::Infrastructure),
        None => None,
    };
    ExitCode::strongest(trials.chain(stopped).chain(mistake.then_some(ExitCode::Usage)))
}

/// The exit code of a trial that came to this.
pub(in crate::commands) fn of(outcome: Outcome) -> ExitCode {
    let code = outcome.exit_code();
    ExitCode::ALL.into_iter().find(|known| known.code() == code).unwrap_or(ExitCode::Failed)
}

/// The last line of `--json`.
pub(super) fn json(run: &RunDir, over: &Over, code: ExitCode, printer: &mut Printer) {
    let tally = over.state.tally();
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
        "left_out": tally.left_out(),
        "outcomes": tally.outcomes,
        "spend": tally.spend,
        "cost_usd": tally.spend.total(),
        "unpriced": tally.unpriced,
        "error": over.mistake.as_ref().map(ToString::to_string),
        "exit_code": code.code(),
    }));
}
