//! What a run comes to for a program, and what it would come to.

use serde_json::json;
use yb_engine::outcome::Outcome;
use yb_engine::run::{PlanOptions, Ready, RunDir, RunInfo, RunState, StopReason};

use crate::exit_code::ExitCode;
use crate::printer::{Printer, plural};
use crate::report::{JSON_VERSION, dollars};
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
