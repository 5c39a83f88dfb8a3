//! A short pull request comment: pass rate, a small table, failures with reasons.

use std::fmt::Write as _;

use serde_json::Value;
use yb_engine::compare::Comparison;
use yb_engine::stats::Decision;
use yb_figures::{count, duration_ms, money, percent, plural, points};

use crate::comparison;
use crate::csv::{failure_text, reason};
use crate::escape::{clean, code, escape_text, fence};
use crate::model::{Cell, Matrix, OutcomeClass, Report, Run};
use crate::text::shorten;
use crate::value::plain_field;

/// The maximum length of a GitHub comment in characters.
pub const GITHUB_LIMIT: usize = 65_536;

/// Maximum number of table rows, and of listed failures.
const ROWS: usize = 10;
/// Maximum length of a name.
const NAME: usize = 80;
/// Maximum length of a reason.
const REASON: usize = 300;
/// Maximum number of lines about the failures of a trial, and their length.
const LINES: usize = 12;
const TEXT: usize = 1_500;
/// Maximum length of a gate message.
const SENTENCE: usize = 200;

/// Renders a report as a comment that is always shorter than [`GITHUB_LIMIT`].
#[must_use]
pub fn github(report: &Report) -> String {
    if let (Some(found), Some(run)) = (&report.comparison, report.runs.last()) {
        return compared(found, run);
    }
    let mut text = String::new();
    // One run always fits; of several, as many as fit.
    for (at, run) in report.runs.iter().enumerate() {
        let mut part = String::new();
        write_run(&mut part, run);
        if text.chars().count() + part.chars().count() > GITHUB_LIMIT - 100 {
            let _ = writeln!(text, "{} omitted.", plural(report.runs.len() - at, "run"));
            break;
        }
        text.push_str(&part);
    }
    text
}

/// Renders the comparison of a run with another one.
fn compared(found: &Comparison, run: &Run) -> String {
    let mut text = String::new();
    let run_mark = gate_mark(run).unwrap_or(match found.decision {
        Decision::Ok => "✅",
        Decision::Regressed => "❌",
        Decision::Inconclusive => "⚠️",
    });
    let rate = |rate: Option<f64>| rate.map_or_else(|| "?".to_owned(), percent);
    let delta = found.pass_rate.map(|shown| format!(" ({})", points(shown.estimate))).unwrap_or_default();
    let _ = writeln!(
        text,
        "### {run_mark} {}: {} → {}{delta}\n",
        escape_text(&shorten(&run.name, NAME)),
        rate(found.a.pass_rate),
        rate(found.b.pass_rate)
    );
    gates(&mut text, run);
    let _ = writeln!(text, "{}\n", escape_text(&shorten(&found.reason, REASON)));
    let rows = comparison::cases(found);
    let variants = comparison::has_variants(found);
    let has_cost = rows.iter().any(|row| !row.cost.is_empty());
    let changed = rows.iter().filter(|row| row.points != Some(0.0)).count();
    let shown = if rows.len() <= ROWS { rows.len() } else { changed.min(ROWS) };
    if shown > 0 {
        let names = ["", "case", "variant", "before", "now", "change", "time", "cost"];
        let wanted = |name: &str| (name != "variant" || variants) && (name != "cost" || has_cost);
        let names: Vec<&str> = names.into_iter().filter(|name| wanted(name)).collect();
        let rules = names.iter().map(|name| match *name {
            "" | "case" | "variant" => " --- |",
            _ => " ---: |",
        });
        let _ = writeln!(text, "| {} |\n|{}", names.join(" | ").trim_start(), rules.collect::<String>());
        for row in rows.iter().take(shown) {
            let mut cells = vec![case_mark(run, &row.label).unwrap_or_default().to_owned()];
            cells.push(escape_text(&shorten(row.case, NAME)));
            cells.extend(variants.then(|| escape_text(&shorten(&row.variant, NAME))));
            cells.extend([row.before.clone(), row.now.clone(), row.change.clone(), row.time.clone()]);
            cells.extend(has_cost.then(|| row.cost.clone()));
            let _ = writeln!(text, "| {} |", cells.join(" | "));
        }
    }
    if let hidden @ 1.. = rows.len() - shown {
        let _ = writeln!(
            text,
            "\n{} with a smaller loss, without a change or better omitted.",
            plural(hidden, "case")
        );
    }
    for note in comparison::notes(found) {
        let _ = writeln!(text, "\n{}", escape_text(&shorten(&note, REASON)));
    }
    failures(&mut text, run);
    let _ = writeln!(
        text,
        "\n<sub>run {} against {} · full report: `yb report --format html`</sub>\n",
        code(&shorten(&run.id, NAME)),
        code(&shorten(&comparison::before(found), 2 * NAME))
    );
    text
}

fn write_run(text: &mut String, run: &Run) {
    let whole = run.totals();
    let name = escape_text(&shorten(&run.name, NAME));
    let run_mark = gate_mark(run).unwrap_or_else(|| mark(&whole));
    lifts(text, run);
    let _ = writeln!(text, "### {run_mark} {name}: {}\n", summary(run, &whole));
    gates(text, run);
    let matrix = Matrix::of(run);
    // If rows are omitted, failures come first.
    let mut cells: Vec<_> = matrix.cells().collect();
    let hidden = cells.len().saturating_sub(ROWS);
    if hidden > 0 {
        cells.sort_by(|one, two| rank(one.2).total_cmp(&rank(two.2)));
    }
    let variants = run.has_variants();
    let priced = whole.money.total().is_some();
    let mut header = "| | case |".to_owned();
    let mut line = "| --- | --- |".to_owned();
    for (column, wanted, rule) in [
        ("variant", variants, " --- |"),
        ("passed", true, " ---: |"),
        ("median time", true, " ---: |"),
        ("cost", priced, " ---: |"),
    ] {
        if wanted {
            let _ = write!(header, " {column} |");
            line.push_str(rule);
        }
    }
    let _ = writeln!(text, "{header}\n{line}");
    for (case, variant, cell) in cells.iter().take(ROWS) {
        let label = if *variant == "default" { (*case).to_owned() } else { format!("{case} / {variant}") };
        let mark = case_mark(run, &label).unwrap_or_else(|| mark(cell));
        let _ = write!(text, "| {mark} | {} |", escape_text(&shorten(case, NAME)));
        if variants {
            let _ = write!(text, " {} |", escape_text(&shorten(variant, NAME)));
        }
        let _ = write!(text, " {}/{} |", cell.passed, cell.counted);
        let _ = write!(text, " {} |", cell.median_ms().map(duration_ms).unwrap_or_default());
        if priced {
            let _ = write!(text, " {} |", cell.money.total().map(money).unwrap_or_default());
        }
        text.push('\n');
    }
    if hidden > 0 {
        let _ = writeln!(text, "\n{} with the fewest failures omitted.", plural(hidden, "row"));
    }
    failures(text, run);
    let _ = writeln!(
        text,
        "\n<sub>run {} · full report: `yb report --format html`</sub>\n",
        code(&shorten(&run.id, NAME))
    );
}

/// Writes whether the add-ons of variants help, before anything else.
fn lifts(text: &mut String, run: &Run) {
    for lift in run.variants.iter().flat_map(|summary| &summary.lifts) {
        let _ = writeln!(text, "**{}**\n", escape_text(&shorten(&lift.sentence, REASON)));
    }
}

fn failures(text: &mut String, run: &Run) {
    let bad: Vec<_> = run
        .trials
        .iter()
        .filter(|trial| !matches!(trial.outcome.class, OutcomeClass::Passed | OutcomeClass::Pending))
        .collect();
    if bad.is_empty() {
        return;
    }
    let _ =
        writeln!(text, "\n<details><summary>{} that did not pass</summary>\n", plural(bad.len(), "trial"));
    for trial in bad.iter().take(ROWS) {
        let why = reason(trial).map(|why| format!(": {}", code(&shorten(&why, REASON)))).unwrap_or_default();
        let _ = writeln!(
            text,
            "- **{}** {}{why}",
            escape_text(&shorten(&run.label(trial), 2 * NAME)),
            escape_text(&trial.outcome.name)
        );
        let printed = shorten(&clean(&failure_text(trial, LINES)), TEXT);
        if !printed.is_empty() {
            let block = fence(&printed, "text");
            let indented: Vec<String> =
                block.lines().map(|line| format!("  {line}").trim_end().to_owned()).collect();
            let _ = writeln!(text, "\n{}\n", indented.join("\n"));
        }
    }
    if bad.len() > ROWS {
        let _ = writeln!(text, "- and {} more", count(bad.len() - ROWS));
    }
    text.push_str("\n</details>\n");
}

/// Returns the mark of the gates, if the run has gates.
fn gate_mark(run: &Run) -> Option<&'static str> {
    match run.extra.get("gates")?["answer"].as_str()? {
        "held" => Some("✅"),
        "failed" => Some("❌"),
        _ => Some("⚠️"),
    }
}

/// Returns the mark of a case in a run with gates: those of the gates that name it, else none. Without gates every trial must pass.
fn case_mark(run: &Run, label: &str) -> Option<&'static str> {
    let gates = run.extra.get("gates")?["gates"].as_array()?;
    let names = |gate: &&Value| {
        gate["cases"].as_array().is_some_and(|cases| cases.iter().any(|case| case.as_str() == Some(label)))
    };
    let with = |answer: &str| gates.iter().filter(names).any(|gate| gate["answer"] == answer);
    Some(if with("failed") {
        "❌"
    } else if with("cannot_tell") {
        "⚠️"
    } else {
        ""
    })
}

/// Writes the gates of the run, if any.
fn gates(text: &mut String, run: &Run) {
    let Some(gates) = run.extra.get("gates") else { return };
    let list = gates.as_array().or_else(|| gates["gates"].as_array()).or_else(|| gates["results"].as_array());
    for gate in list.into_iter().flatten().take(ROWS) {
        let name = ["name", "gate", "kind"].iter().find_map(|key| gate[key].as_str()).unwrap_or("gate");
        let state = ["answer", "status", "outcome", "passed"]
            .iter()
            .find_map(|key| Some(plain_field(key, gate.get(key)?)));
        let why = ["reason", "message", "sentence"].iter().find_map(|key| gate[key].as_str());
        let _ = write!(text, "- gate **{}**", escape_text(&shorten(name, NAME)));
        for part in [state.as_deref(), why].into_iter().flatten() {
            let _ = write!(text, ": {}", escape_text(&shorten(part, SENTENCE)));
        }
        text.push('\n');
    }
    if list.is_some_and(|list| !list.is_empty()) {
        text.push('\n');
    }
}

fn rank(cell: &Cell) -> f64 {
    cell.rate().unwrap_or(2.0)
}

fn mark(cell: &Cell) -> &'static str {
    match cell.rate() {
        None => "➖",
        Some(1.0) if cell.excluded + cell.pending == 0 => "✅",
        Some(1.0) => "⚠️",
        Some(_) => "❌",
    }
}

fn summary(run: &Run, whole: &Cell) -> String {
    let mut parts = vec![match whole.rate() {
        Some(rate) => format!("{}/{} passed ({})", whole.passed, whole.counted, percent(rate)),
        None => "no trial counted".to_owned(),
    }];
    if whole.excluded > 0 {
        parts.push(format!("{} excluded", count(whole.excluded)));
    }
    if whole.pending > 0 {
        parts.push(format!("{} pending", count(whole.pending)));
    }
    if let Some(usd) = whole.money.total() {
        parts.push(money(usd));
    }
    if run.condition != "finished" {
        parts.push(escape_text(&run.condition));
    }
    parts.join(", ")
}
