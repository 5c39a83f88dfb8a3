//! What a run came to, in a table, and the next command to type.

use std::collections::BTreeMap;
use std::path::Path;

use yb_engine::outcome::{Outcome, PassCredit};
use yb_engine::run::{AttemptRecord, Plan, RunDir, RunState, StopReason, find_run};

use super::{dollars, duration, trial};
use crate::printer::{Printer, plural};
use crate::table::Table;

/// A single trial by itself; several as a table.
pub(crate) fn show(run: &RunDir, plan: &Plan, state: &RunState, printer: &mut Printer) {
    match plan.trials.as_slice() {
        [only] => trial::brief(run, only, state, printer),
        _ => table(plan, state, printer),
    }
    next(run, plan, state, printer);
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

/// A row for each case and variant, and a line for all of them.
pub(crate) fn table(plan: &Plan, state: &RunState, printer: &mut Printer) {
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
            match result.outcome.pass_credit() {
                PassCredit::One => (row.passed, row.counted) = (row.passed + 1, row.counted + 1),
                PassCredit::Zero => row.counted += 1,
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
    let isolation = isolation(plan, state);
    printer.line(format_args!(
        "{} of {}: {outcomes}{cost}{unknown}{isolation}",
        tally.done,
        plural(tally.planned as u64, "trial")
    ));
}

/// The levels that were really used, with their numbers where they differ.
fn isolation(plan: &Plan, state: &RunState) -> String {
    let mut used: BTreeMap<String, usize> = BTreeMap::new();
    for trial in &plan.trials {
        let result = state.get(&trial.folder).and_then(|trial| trial.result());
        if let Some(level) = result.and_then(|result| result.isolation) {
            *used.entry(level.to_string()).or_default() += 1;
        }
    }
    let levels: Vec<String> = match used.len() {
        0 => return String::new(),
        1 => used.into_keys().collect(),
        _ => used.into_iter().map(|(level, count)| format!("{level} ({count})")).collect(),
    };
    format!("; isolation: {}", levels.join(", "))
}

/// What to type now.
pub(crate) fn next(run: &RunDir, plan: &Plan, state: &RunState, printer: &mut Printer) {
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
            printer.note(format_args!("look at it: `yb show {name} {}`, {}", trial.folder, page(&name)));
        }
        None if plan.trials.len() > 1 => {
            printer.note(format_args!("look at it: `yb show {name}`, {}", page(&name)));
        }
        _ => printer.note(format_args!("look at it: `yb show {name}`")),
    }
}

/// All of a run, to click through.
fn page(name: &str) -> String {
    let from = if name == "latest" { String::new() } else { format!(" --from {name}") };
    format!("or all as a page: `yb report{from} --format html`")
}

/// What people may call a run: `latest` if that is what it is.
pub(crate) fn short_name(run: &RunDir) -> String {
    let root = run.path().parent().and_then(Path::parent);
    match root.map(|root| find_run(root, "latest")) {
        Some(Ok(latest)) if latest.id() == run.id() => "latest".to_owned(),
        _ => run.id(),
    }
}
