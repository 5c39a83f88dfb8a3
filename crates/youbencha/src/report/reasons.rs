//! Why trials did not pass: the outcome in color, the reason, and what the test runner printed.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use yb_engine::evaluate::EvaluatorStatus;
use yb_engine::outcome::{Outcome, PassCredit};
use yb_engine::run::{AttemptRecord, Plan, RunDir, RunState};
use yb_figures::{counted, duration_ms, money};

use super::TrialNames;
use crate::printer::{Style, StyledText};
use crate::workspace::display_path;

/// The longest reason in a line, in characters.
const REASON: usize = 300;
/// How many failures are shown during a run and at its end.
const FAILURES: usize = 3;
/// How many lines of each: the first ones and the last ones.
const LINES: (usize, usize) = (3, 5);
/// How many groups of trials are listed at the end of a run.
const GROUPS: usize = 20;

/// Returns the style of an outcome.
pub(crate) fn style(outcome: Outcome) -> Style {
    match outcome.pass_credit() {
        PassCredit::One => Style::Green,
        PassCredit::Zero => Style::BoldRed,
        _ => Style::Yellow,
    }
}

/// Returns the style of the status of an evaluator.
fn status_style(status: &str) -> Style {
    match status {
        "passed" => Style::Green,
        "failed" => Style::BoldRed,
        _ => Style::Yellow,
    }
}

/// Summarizes an attempt in one line after a prefix.
pub(crate) fn one_line(prefix: StyledText, record: &AttemptRecord) -> StyledText {
    let cost = record.spend.total().map(|usd| format!(", {}", money(usd))).unwrap_or_default();
    let reason = reason(record).map(|reason| format!(": {reason}")).unwrap_or_default();
    let time = duration_ms(record.duration_ms);
    prefix.styled(style(record.outcome), record.outcome).text(format_args!(" in {time}{cost}{reason}"))
}

/// Returns why an attempt did not pass, in one line.
fn reason(record: &AttemptRecord) -> Option<String> {
    if record.outcome == Outcome::Passed {
        return None;
    }
    if let Some(error) = &record.error {
        return Some(short(error.lines().next().unwrap_or_default()));
    }
    // After a grader error, list the evaluators that could not run.
    let wanted = match record.outcome {
        Outcome::GraderError => EvaluatorStatus::Skipped,
        _ => EvaluatorStatus::Failed,
    };
    let failed = record.evaluators.iter().filter(|graded| graded.status == wanted);
    let texts: Vec<String> = failed
        .map(|graded| match graded.message.as_deref().map(|message| message.trim_start_matches("✗ ")) {
            Some(message) if !message.is_empty() => format!("{}: {message}", graded.name),
            _ => graded.name.clone(),
        })
        .collect();
    (!texts.is_empty()).then(|| short(&texts.join("; ")))
}

fn short(text: &str) -> String {
    match text.char_indices().nth(REASON) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The result of an evaluator, from `results.json`.
pub(crate) struct GradedResult {
    name: String,
    status: String,
    /// Where the code of the agent ran.
    place: Option<String>,
    message: String,
    failures: Vec<(Option<String>, Vec<String>)>,
    /// The files with the output.
    logs: Vec<PathBuf>,
}

impl GradedResult {
    /// Reads the results of all evaluators, in order.
    pub(crate) fn read(artifacts: &Path) -> Vec<Self> {
        let bytes = std::fs::read(artifacts.join("results.json")).unwrap_or_default();
        let results: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        list(&results["evaluators"]).iter().map(|one| Self::of(one, artifacts)).collect()
    }

    fn of(result: &Value, artifacts: &Path) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let lines = |failure: &Value| list(&failure["lines"]).iter().map(text).collect();
        let logs = list(&result["artifacts"]).iter().filter(|file| file["type"] == "log");
        Self {
            name: text(&result["evaluator"]),
            status: text(&result["status"]),
            place: result["graded_code"].as_str().map(str::to_owned),
            message: text(&result["message"]),
            failures: list(&result["failures"])
                .iter()
                .map(|failure| (failure["test"].as_str().map(str::to_owned), lines(failure)))
                .collect(),
            logs: logs.filter_map(|file| Some(artifacts.join(file["path"].as_str()?))).collect(),
        }
    }

    /// Returns the lines about the evaluator: status, message, and all that its runner printed about failures.
    pub(crate) fn lines(&self) -> Vec<StyledText> {
        let place = self.place.as_ref().map(|place| format!(" ({place})")).unwrap_or_default();
        let line = StyledText::new().text(format_args!("  {}: ", self.name));
        let line = line.styled(status_style(&self.status), &self.status);
        let mut lines = vec![line.text(format_args!("{place}: {}", self.message))];
        for failure in &self.failures {
            lines.extend(failure_lines(failure, usize::MAX));
        }
        if self.status != "passed" {
            let logs = self.logs.iter().filter(|log| log.is_file());
            lines.extend(logs.map(|log| {
                StyledText::new().styled(Style::Dim, format_args!("    output: {}", display_path(log)))
            }));
        }
        lines
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Returns the lines about one failure: the test, and what was printed, shortened in the middle to this many lines.
fn failure_lines((test, lines): &(Option<String>, Vec<String>), most: usize) -> Vec<StyledText> {
    let mut shown = Vec::new();
    if let Some(test) = test {
        shown.push(StyledText::new().text("    ").styled(Style::Red, format_args!("✗ {test}")));
    }
    let printed = |line: &String| {
        let bar = StyledText::new().styled(Style::Red, "    │ ");
        // A line of a difference stands out.
        bar.styled(if line.starts_with("E ") { Style::Plain } else { Style::Dim }, line)
    };
    if lines.len() > most {
        let (first, last) = LINES;
        let omitted = counted(lines.len() - first - last, "more line", "more lines");
        shown.extend(lines[..first].iter().map(printed));
        shown.push(
            StyledText::new().styled(Style::Red, "    │ ").styled(Style::Dim, format_args!("… {omitted}")),
        );
        shown.extend(lines[lines.len() - last..].iter().map(printed));
    } else {
        shown.extend(lines.iter().map(printed));
    }
    shown
}

/// Returns what the runners of an attempt that did not pass printed, shortened.
pub(crate) fn excerpt(run: &RunDir, record: &AttemptRecord) -> Vec<StyledText> {
    if record.outcome == Outcome::Passed
        || record.evaluators.iter().all(|one| one.status == EvaluatorStatus::Passed)
    {
        return Vec::new();
    }
    let graded = GradedResult::read(&run.artifacts(&record.trial, record.attempt));
    let failures: Vec<_> = graded.iter().flat_map(|one| &one.failures).collect();
    let mut lines: Vec<StyledText> = failures
        .iter()
        .take(FAILURES)
        .flat_map(|failure| failure_lines(failure, LINES.0 + LINES.1))
        .collect();
    if let more @ 1.. = failures.len().saturating_sub(FAILURES) {
        let more = counted(more, "more failure", "more failures");
        lines.push(StyledText::new().styled(Style::Dim, format_args!("    and {more}")));
    }
    lines
}

/// Returns the trials that did not pass, with their reasons; repeats of a trial with the same reason are one entry.
pub(crate) fn failed_trials(run: &RunDir, plan: &Plan, state: &RunState) -> Vec<StyledText> {
    struct Group<'a> {
        name: String,
        reason: Option<String>,
        record: &'a AttemptRecord,
        count: usize,
    }
    let mut groups: Vec<Group<'_>> = Vec::new();
    let mut places: HashMap<(String, Option<String>, Outcome), usize> = HashMap::new();
    for trial in &plan.trials {
        let Some(record) = state.get(&trial.folder).and_then(|trial| trial.result()) else { continue };
        if record.outcome == Outcome::Passed {
            continue;
        }
        let (name, reason) = (TrialNames::without_repeat(trial), reason(record));
        let place = *places.entry((name.clone(), reason.clone(), record.outcome)).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) => group.count += 1,
            None => groups.push(Group { name, reason, record, count: 1 }),
        }
    }
    let mut lines = Vec::new();
    for group in groups.iter().take(GROUPS) {
        let outcome = group.record.outcome;
        let times = if group.count > 1 { format!(" ({} times)", group.count) } else { String::new() };
        let reason = group.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        let line = StyledText::new().styled(style(outcome), "✗").text(format_args!(" {}: ", group.name));
        lines.push(line.styled(style(outcome), outcome).text(format_args!("{times}{reason}")));
        lines.extend(excerpt(run, group.record));
    }
    if let more @ 1.. = groups.len().saturating_sub(GROUPS) {
        lines.push(StyledText::from(format_args!("and {more} more; `yb show --json` lists all")));
    }
    lines
}
