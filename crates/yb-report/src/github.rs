//! A short comment for a pull request: the verdict, a small table, what failed and why.

use std::fmt::Write as _;

use crate::csv::reason;
use crate::escape::{code, words};
use crate::figures::{count, dollars, duration, percent, plural, shorten};
use crate::model::{Cell, Matrix, Report, Run, Standing};
use crate::value::plain;

/// What GitHub takes as one comment, in characters.
pub const GITHUB_LIMIT: usize = 65_536;

/// Rows of the table, and failures with their reasons.
const ROWS: usize = 10;
/// Names are bounded too: whatever is in a run, the comment stays short.
const NAME: usize = 80;
const REASON: usize = 300;
/// Of a gate's words.
const SENTENCE: usize = 200;

/// The report as a comment, shorter than [`GITHUB_LIMIT`] whatever the runs hold.
#[must_use]
pub fn github(report: &Report) -> String {
    let mut text = String::new();
    // One run stays below the limit by its bounds; of several, as many as fit.
    for (at, run) in report.runs.iter().enumerate() {
        let mut part = String::new();
        one(&mut part, run);
        if text.chars().count() + part.chars().count() > GITHUB_LIMIT - 100 {
            let _ = writeln!(text, "{} left out.", plural(report.runs.len() - at, "run"));
            break;
        }
        text.push_str(&part);
    }
    text
}

fn one(text: &mut String, run: &Run) {
    let whole = run.whole();
    let name = words(&shorten(&run.name, NAME));
    let mark_of_all = by_gates(run).unwrap_or_else(|| mark(&whole));
    let _ = writeln!(text, "### {mark_of_all} {name}: {}\n", verdict(run, &whole));
    gates(text, run);
    let matrix = Matrix::of(run);
    // What failed comes first: with more rows than fit, it is what somebody must see.
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
        let _ = write!(text, "| {} | {} |", mark(cell), words(&shorten(case, NAME)));
        if variants {
            let _ = write!(text, " {} |", words(&shorten(variant, NAME)));
        }
        let _ = write!(text, " {}/{} |", cell.passed, cell.counted);
        let _ = write!(text, " {} |", cell.median_ms().map(duration).unwrap_or_default());
        if priced {
            let _ = write!(text, " {} |", cell.money.total().map(dollars).unwrap_or_default());
        }
        text.push('\n');
    }
    if hidden > 0 {
        let _ = writeln!(text, "\n{} left out, those with the fewest failures.", plural(hidden, "row"));
    }
    failures(text, run);
    let _ = writeln!(
        text,
        "\n<sub>run {} · `yb report --format html` has everything</sub>\n",
        code(&shorten(&run.id, NAME))
    );
}

fn failures(text: &mut String, run: &Run) {
    let bad: Vec<_> = run
        .trials
        .iter()
        .filter(|trial| !matches!(trial.verdict.standing, Standing::Passed | Standing::Pending))
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
            words(&shorten(&run.label(trial), 2 * NAME)),
            words(&trial.verdict.word)
        );
    }
    if bad.len() > ROWS {
        let _ = writeln!(text, "- and {} more", count((bad.len() - ROWS) as u64));
    }
    text.push_str("\n</details>\n");
}

/// Where there are gates, they decide.
fn by_gates(run: &Run) -> Option<&'static str> {
    match run.extra.get("gates")?["answer"].as_str()? {
        "held" => Some("✅"),
        "failed" => Some("❌"),
        _ => Some("⚠️"),
    }
}

/// What gates said, if the run has some: in whatever shape, by their usual names.
fn gates(text: &mut String, run: &Run) {
    let Some(gates) = run.extra.get("gates") else { return };
    let list = gates.as_array().or_else(|| gates["gates"].as_array()).or_else(|| gates["results"].as_array());
    for gate in list.into_iter().flatten().take(ROWS) {
        let name = ["name", "gate", "kind"].iter().find_map(|key| gate[key].as_str()).unwrap_or("gate");
        let state = ["answer", "status", "verdict", "passed"].iter().find_map(|key| gate.get(key)).map(plain);
        let why = ["reason", "message", "sentence"].iter().find_map(|key| gate[key].as_str());
        let _ = write!(text, "- gate **{}**", words(&shorten(name, NAME)));
        for part in [state.as_deref(), why].into_iter().flatten() {
            let _ = write!(text, ": {}", words(&shorten(part, SENTENCE)));
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
        Some(1.0) if cell.left_out + cell.pending == 0 => "✅",
        Some(1.0) => "⚠️",
        Some(_) => "❌",
    }
}

fn verdict(run: &Run, whole: &Cell) -> String {
    let mut parts = vec![match whole.rate() {
        Some(rate) => format!("{}/{} passed ({})", whole.passed, whole.counted, percent(rate)),
        None => "nothing counted".to_owned(),
    }];
    if whole.left_out > 0 {
        parts.push(format!("{} left out", count(whole.left_out as u64)));
    }
    if whole.pending > 0 {
        parts.push(format!("{} to do", count(whole.pending as u64)));
    }
    if let Some(usd) = whole.money.total() {
        parts.push(dollars(usd));
    }
    if run.condition != "finished" {
        parts.push(words(&run.condition));
    }
    parts.join(", ")
}
