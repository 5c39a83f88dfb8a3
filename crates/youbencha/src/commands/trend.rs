//! `yb trend`: pass rate, cost and time over the runs of a suite.

use std::path::Path;

use serde_json::{Value, json};
use yb_engine::run::{RunInfo, RunResults, TrialResults, all_runs};
use yb_engine::stats::Interval;
use yb_figures::{duration_ms, median_ms, money, percent, timestamp};

use crate::args::TrendArgs;
use crate::error::{CliError, ErrorKind};
use crate::exit_code::ExitCode;
use crate::printer::{Printer, Style, StyledText};
use crate::report::JSON_VERSION;
use crate::workspace::{self, RunCondition, display_path};

/// The width of the bar of a pass rate.
const BAR: usize = 20;

/// One run of the suite.
struct TrendRow {
    run: String,
    created_at: String,
    state: String,
    passed: usize,
    counted: u64,
    rate: Option<(f64, Interval)>,
    cost: Option<f64>,
    median_ms: Option<u64>,
}

pub(super) fn run(args: &TrendArgs, printer: &mut Printer) -> Result<ExitCode, CliError> {
    let root = workspace::root(printer)?;
    let mut rows = Vec::new();
    let mut known: Vec<String> = Vec::new();
    for run in all_runs(&root)? {
        // An unreadable run is listed by `yb list runs`.
        let Ok(info) = RunInfo::read(run) else { continue };
        if is_of(&info, &args.suite) {
            rows.push(TrendRow::of(&info, args.variant.as_deref()));
        } else if !known.contains(&info.plan.name) {
            known.push(info.plan.name.clone());
        }
    }
    if rows.is_empty() {
        return Err(no_runs(&args.suite, &known, &root));
    }
    rows.drain(..rows.len().saturating_sub(args.limit.max(1)));
    if args.json {
        let rows: Vec<Value> = rows.iter().map(TrendRow::json).collect();
        printer.pretty_json(
            &json!({ "v": JSON_VERSION, "suite": args.suite, "variant": args.variant, "runs": rows }),
        );
        return Ok(ExitCode::Passed);
    }
    print(&rows, printer);
    Ok(ExitCode::Passed)
}

/// Returns whether a run is of a suite: by name, or by file.
fn is_of(info: &RunInfo, suite: &str) -> bool {
    let file = Path::new(suite);
    let same_file = || {
        let real = |path: &Path| path.canonicalize().ok();
        real(file).is_some_and(|file| real(&info.plan.config) == Some(file))
    };
    info.plan.name == suite || same_file()
}

fn no_runs(suite: &str, known: &[String], root: &Path) -> CliError {
    let error = CliError::new(ErrorKind::Usage, format!("no runs of `{suite}` in `{}`", display_path(root)));
    if known.is_empty() {
        return error.hint("create one: `yb run FILE`");
    }
    let names: Vec<String> = known.iter().take(10).map(|name| format!("`{name}`")).collect();
    error.hint(format!("there are runs of {}", names.join(", ")))
}

impl TrendRow {
    fn of(info: &RunInfo, variant: Option<&str>) -> Self {
        let mut results = RunResults::of(&info.plan, &info.state);
        results.trials.retain(|trial| variant.is_none_or(|name| trial.variant == name));
        let decided: Vec<_> = results.trials.iter().filter_map(TrialResults::result).collect();
        let attempts = results.trials.iter().flat_map(|trial| &trial.attempts);
        let (passes, rate) = results.pass_rate();
        Self {
            run: info.run.id(),
            created_at: info.plan.created_at.clone(),
            state: RunCondition::of(info).to_string(),
            passed: usize::try_from(passes.passed).unwrap_or(usize::MAX),
            counted: passes.of,
            rate,
            cost: attempts.filter_map(|attempt| attempt.spend.total()).reduce(|one, two| one + two),
            median_ms: median_ms(decided.iter().map(|record| record.duration_ms)),
        }
    }

    fn json(&self) -> Value {
        json!({
            "run": self.run,
            "created_at": self.created_at,
            "state": self.state,
            "passed": self.passed,
            "counted": self.counted,
            "pass_rate": self.rate.map(|(rate, _)| rate),
            "interval": self.rate.map(|(_, interval)| interval),
            "cost_usd": self.cost,
            "median_ms": self.median_ms,
        })
    }
}

/// Prints a line for each run, with a bar and the interval of its pass rate.
fn print(rows: &[TrendRow], printer: &mut Printer) {
    let cells: Vec<[String; 6]> = rows
        .iter()
        .map(|row| {
            let interval = row.rate.map(|(_, of)| format!("{}–{}", percent(of.lower), percent(of.upper)));
            [
                timestamp(&row.created_at),
                format!("{}/{}", row.passed, row.counted),
                row.rate.map(|(rate, _)| percent(rate)).unwrap_or_default(),
                interval.unwrap_or_default(),
                row.cost.map(money).unwrap_or_default(),
                row.median_ms.map(duration_ms).unwrap_or_default(),
            ]
        })
        .collect();
    let header = ["created", "passed", "rate", "95% interval", "cost", "median time"];
    let widths: [usize; 6] = std::array::from_fn(|at| {
        let cells = cells.iter().map(|cells| yb_figures::width(&cells[at])).max().unwrap_or(0);
        if cells == 0 { 0 } else { cells.max(header[at].len()) }
    });
    let line = |cells: [&str; 6], bar: StyledText, run: &str| {
        let mut line = StyledText::new();
        for (at, cell) in cells.iter().enumerate() {
            if widths[at] > 0 {
                line = line.text(yb_figures::pad_end(cell, widths[at])).text("  ");
            }
            if at == 3 {
                line = line.join(&bar).text("  ");
            }
        }
        line.text(run)
    };
    let blank = StyledText::from(" ".repeat(BAR));
    printer.line(line(header, blank, "run"));
    for (row, cells) in rows.iter().zip(&cells) {
        let bar = bar(row.rate);
        let state = if row.state == "finished" { String::new() } else { format!(" ({})", row.state) };
        printer.line(line(cells.each_ref().map(String::as_str), bar, &format!("{}{state}", row.run)));
    }
}

/// Draws a pass rate with its interval: `━━━━━━╌╌──`.
fn bar(rate: Option<(f64, Interval)>) -> StyledText {
    let Some((rate, interval)) = rate else { return StyledText::from(" ".repeat(BAR)) };
    let cells = |share: f64| ((share * BAR as f64).round() as usize).min(BAR);
    let (filled, upper) = (cells(rate), cells(interval.upper).max(cells(rate)));
    let style = if rate >= 1.0 { Style::Green } else { Style::Yellow };
    StyledText::new()
        .styled(style, "━".repeat(filled))
        .styled(Style::Dim, "╌".repeat(upper - filled))
        .styled(Style::Dim, " ".repeat(BAR - upper))
}
