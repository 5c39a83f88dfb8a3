//! The summary of a run: a table of results and the next command.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::Duration;

use yb_engine::compare::VariantSummary;
use yb_engine::outcome::{Outcome, PassCredit};
use yb_engine::run::{AttemptRecord, Plan, RunDir, RunResults, RunState, StopReason, find_run};
use yb_figures::{duration, duration_ms, median_ms, money, plural};

use super::{reasons, trial};
use crate::printer::{Printer, StyledText};
use crate::table::Table;

/// Prints a single trial in detail, several as a table with the failures again.
pub(crate) fn show(run: &RunDir, plan: &Plan, state: &RunState, elapsed: Duration, printer: &mut Printer) {
    match plan.trials.as_slice() {
        [only] => trial::brief(run, only, state, printer),
        _ => several(run, plan, state, Some(elapsed), printer),
    }
    next(run, plan, state, printer);
}

/// Prints the trials of a run: a table, those that did not pass with their reasons, and a total line.
pub(crate) fn several(
    run: &RunDir,
    plan: &Plan,
    state: &RunState,
    elapsed: Option<Duration>,
    printer: &mut Printer,
) {
    table(plan, state, printer);
    let failed = reasons::failed_trials(run, plan, state);
    if !failed.is_empty() {
        printer.line("");
        failed.into_iter().for_each(|line| printer.line(line));
        printer.line("");
    }
    total(plan, state, elapsed, printer);
}

/// The totals of a case and variant.
#[derive(Default)]
struct SummaryRow {
    passed: usize,
    counted: usize,
    planned: usize,
    left_out: usize,
    usd: Option<f64>,
    times: Vec<u64>,
}

/// Prints a row for each case and variant.
fn table(plan: &Plan, state: &RunState, printer: &mut Printer) {
    let mut rows: Vec<(&str, &str, SummaryRow)> = Vec::new();
    let mut places: HashMap<(&str, &str), usize> = HashMap::new();
    for trial in &plan.trials {
        let (case, variant) = (trial.case.as_str(), trial.variant.as_str());
        let place = *places.entry((case, variant)).or_insert_with(|| {
            rows.push((case, variant, SummaryRow::default()));
            rows.len() - 1
        });
        let row = &mut rows[place].2;
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
    let variants = rows.iter().any(|(_, variant, _)| *variant != "default");
    let mut shown = Table::new(if variants {
        &["case", "variant", "passed", "excluded", "pending", "median time", "cost"]
    } else {
        &["case", "passed", "excluded", "pending", "median time", "cost"]
    });
    for (case, variant, row) in rows {
        let median = median_ms(row.times).map(duration_ms).unwrap_or_default();
        let pending = row.planned - row.counted - row.left_out;
        let nonzero = |count: usize| if count == 0 { String::new() } else { count.to_string() };
        let mut cells = vec![case.to_owned()];
        if variants {
            cells.push(variant.to_owned());
        }
        cells.extend([
            format!("{}/{}", row.passed, row.counted),
            nonzero(row.left_out),
            nonzero(pending),
            median,
            row.usd.map(money).unwrap_or_default(),
        ]);
        shown.row(cells);
    }
    printer.text(&shown.to_string());
    if variants && let Some(summary) = VariantSummary::of(&RunResults::figures_of(plan, state)) {
        compare_variants(&summary, printer);
    }
}

/// Prints the number of trials by outcome, cost, time and isolation.
fn total(plan: &Plan, state: &RunState, elapsed: Option<Duration>, printer: &mut Printer) {
    let tally = state.tally();
    let cost = tally.spend.total().map(|usd| format!(", {}", money(usd))).unwrap_or_default();
    let unknown = match tally.unpriced {
        0 => String::new(),
        unpriced if cost.is_empty() && unpriced == tally.done => String::new(),
        unpriced => format!(" (cost of {} unknown)", plural(unpriced, "trial")),
    };
    let took = elapsed.map(|time| format!(" in {}", duration(time))).unwrap_or_default();
    let isolation = isolation(plan, state);
    let mut line =
        StyledText::new().text(format_args!("{} of {}: ", tally.done, plural(tally.planned, "trial")));
    if tally.outcomes.is_empty() {
        line = line.text("no results");
    }
    for (at, (outcome, count)) in tally.outcomes.iter().enumerate() {
        line = line.text(if at == 0 { "" } else { ", " });
        line = line.styled(reasons::style(*outcome), format_args!("{count} {outcome}"));
    }
    printer.line(line.text(format_args!("{cost}{unknown}{took}{isolation}")));
}

/// Prints a total for each variant, the effects of factors, and which is better.
fn compare_variants(summary: &VariantSummary, printer: &mut Printer) {
    for table in summary.tables() {
        let mut shown = Table::new(&table.header.iter().map(String::as_str).collect::<Vec<_>>());
        for row in table.rows {
            shown.row(row);
        }
        printer.line("");
        printer.text(&shown.to_string());
    }
    for answer in &summary.answers {
        printer.line(answer);
    }
    printer.line("");
}

/// Lists the isolation levels used, with counts if they differ.
fn isolation(plan: &Plan, state: &RunState) -> String {
    let mut used: BTreeMap<String, usize> = BTreeMap::new();
    for trial in &plan.trials {
        let result = state.get(&trial.folder).and_then(|trial| trial.result());
        let Some(result) = result else { continue };
        if let Some(level) = result.isolation {
            let filter =
                if result.syscall_filter == Some(false) { " without a system call filter" } else { "" };
            *used.entry(format!("{level}{filter}")).or_default() += 1;
        }
    }
    let levels: Vec<String> = match used.len() {
        0 => return String::new(),
        1 => used.into_keys().collect(),
        _ => used.into_iter().map(|(level, count)| format!("{level} ({count})")).collect(),
    };
    format!("; isolation: {}", levels.join(", "))
}

/// Prints hints for the next command.
pub(crate) fn next(run: &RunDir, plan: &Plan, state: &RunState, printer: &mut Printer) {
    let name = short_name(run);
    let tally = state.tally();
    if tally.pending() > 0 {
        let reason = match &state.stopped {
            Some(StopReason::Budget) => " --max-cost MORE",
            _ => "",
        };
        printer.note(format_args!(
            "hint: {} pending, resume with: yb run --resume {name}{reason}",
            plural(tally.pending(), "trial")
        ));
        return;
    }
    let bad = plan.trials.iter().find(|trial| {
        let result = state.get(&trial.folder).and_then(|state| state.result());
        result.is_some_and(|result: &AttemptRecord| result.outcome != Outcome::Passed)
    });
    match bad {
        Some(trial) if plan.trials.len() > 1 => {
            printer.note(format_args!("hint: inspect a trial: yb show {name} {}", trial.folder));
            printer.note(html_hint(&name));
        }
        None if plan.trials.len() > 1 => {
            printer.note(format_args!("hint: inspect the run: yb show {name}"));
            printer.note(html_hint(&name));
        }
        _ => printer.note(format_args!("hint: inspect the trial: yb show {name}")),
    }
}

fn html_hint(name: &str) -> String {
    let from = if name == "latest" { String::new() } else { format!(" --from {name}") };
    format!("hint: write an HTML report: yb report{from} --format html")
}

/// Returns the shortest name of a run: `latest` if it is the newest.
pub(crate) fn short_name(run: &RunDir) -> String {
    let root = run.path().parent().and_then(Path::parent);
    match root.map(|root| find_run(root, "latest")) {
        Some(Ok(latest)) if latest.id() == run.id() => "latest".to_owned(),
        _ => run.id(),
    }
}
