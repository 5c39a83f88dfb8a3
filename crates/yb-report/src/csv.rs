//! CSV: a row per trial, for spreadsheets and data frames.

use crate::escape::csv_field;
use crate::evaluation::evaluations;
use crate::model::{OutcomeClass, Report, Trial};
use crate::text::one_line;

const COLUMNS: [&str; 24] = [
    "run",
    "suite",
    "case",
    "variant",
    "repeat",
    "trial",
    "agent",
    "model",
    "outcome",
    "passed",
    "started_at",
    "duration_ms",
    "cost_usd",
    "agent_usd",
    "subagents_usd",
    "judge_usd",
    "tokens",
    "turns",
    "attempts",
    "isolation",
    "commit",
    "evaluators",
    "failed_evaluators",
    "reason",
];

/// Renders a report as CSV (RFC 4180, UTF-8, CRLF). `passed` is 1, 0, or empty if the trial does not count.
#[must_use]
pub fn csv(report: &Report) -> String {
    let mut text = COLUMNS.join(",");
    text.push_str("\r\n");
    for (run, trial) in report.trials() {
        let number = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
        let money = |usd: Option<f64>| usd.map(|usd| usd.to_string()).unwrap_or_default();
        let names = |only_failed: bool| {
            let graded = trial.graded.iter().filter(|(_, status)| !only_failed || status == "failed");
            graded.map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(" ")
        };
        let row = [
            run.id.clone(),
            run.name.clone(),
            trial.case.clone(),
            trial.variant.clone(),
            trial.repeat.to_string(),
            trial.name.clone(),
            trial.agent.clone(),
            trial.model.clone().unwrap_or_default(),
            trial.outcome.name.clone(),
            match trial.outcome.class {
                OutcomeClass::Passed => "1".to_owned(),
                OutcomeClass::Failed => "0".to_owned(),
                _ => String::new(),
            },
            trial.started_at.clone().unwrap_or_default(),
            number(trial.duration_ms),
            money(trial.money.total()),
            money(trial.money.agent),
            money(trial.money.subagents),
            money(trial.money.judge),
            number(trial.tokens),
            number(trial.turns),
            trial.attempts.len().max(1).to_string(),
            trial.isolation.clone().unwrap_or_default(),
            trial.commit.clone().unwrap_or_default(),
            names(false),
            names(true),
            reason(trial).unwrap_or_default(),
        ];
        text.push_str(&row.map(|cell| csv_field(&cell)).join(","));
        text.push_str("\r\n");
    }
    text
}

/// Returns why a trial did not pass, in one line: its error, or else the messages of the evaluators that did not pass.
pub(crate) fn reason(trial: &Trial) -> Option<String> {
    if matches!(trial.outcome.class, OutcomeClass::Passed | OutcomeClass::Pending) {
        return None;
    }
    if let Some(error) = trial.error.as_deref().filter(|error| !error.trim().is_empty()) {
        return Some(one_line(error));
    }
    let results = trial.results();
    let messages: Vec<String> = evaluations(&results)
        .into_iter()
        .filter(|one| one.status != "passed")
        .map(|one| {
            let message = one.error.unwrap_or(one.message);
            one_line(&if message.is_empty() { one.status } else { format!("{}: {message}", one.name) })
        })
        .collect();
    if !messages.is_empty() {
        return Some(messages.join("; "));
    }
    // No evaluator failed or ran: use the errors of the agent.
    let log = trial.log().unwrap_or_default();
    let errors = log["errors"].as_array().into_iter().flatten();
    errors.filter_map(|error| error["message"].as_str()).map(one_line).next()
}

/// Returns what the runners printed about the failures of a trial, for formats with a block of text: at most this many lines.
pub(crate) fn failure_text(trial: &Trial, max_lines: usize) -> String {
    if matches!(trial.outcome.class, OutcomeClass::Passed | OutcomeClass::Pending) {
        return String::new();
    }
    let mut lines: Vec<String> = Vec::new();
    for one in evaluations(&trial.results()).into_iter().filter(|one| one.status != "passed") {
        for failure in &one.failures {
            lines.push(format!("{}: {}", one.name, failure.title()));
            lines.extend(failure.lines.iter().map(|line| format!("    {line}").trim_end().to_owned()));
        }
    }
    if let more @ 1.. = lines.len().saturating_sub(max_lines) {
        lines.truncate(max_lines);
        lines.push(format!("… {}", yb_figures::counted(more, "more line", "more lines")));
    }
    lines.join("\n")
}
