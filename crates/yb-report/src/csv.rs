//! CSV: a row per trial, for spreadsheets and data frames.

use crate::escape::field;
use crate::evaluation::evaluations;
use crate::figures::one_line;
use crate::model::{Report, Standing, Trial};

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

/// The report as CSV (RFC 4180, UTF-8, CRLF). `passed` is 1, 0, or empty where a trial says nothing about its agent.
#[must_use]
pub fn csv(report: &Report) -> String {
    let mut text = COLUMNS.join(",");
    text.push_str("\r\n");
    for (run, trial) in report.trials() {
        let number = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
        let money = |usd: Option<f64>| usd.map(|usd| usd.to_string()).unwrap_or_default();
        let names = |only_failed: bool| {
            let said = trial.graded.iter().filter(|(_, status)| !only_failed || status == "failed");
            said.map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(" ")
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
            trial.verdict.word.clone(),
            match trial.verdict.standing {
                Standing::Passed => "1".to_owned(),
                Standing::Failed => "0".to_owned(),
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
        text.push_str(&row.map(|cell| field(&cell)).join(","));
        text.push_str("\r\n");
    }
    text
}

/// Why a trial did not pass, in one line: what went wrong, else what the evaluators that said no had to say.
pub(crate) fn reason(trial: &Trial) -> Option<String> {
    if matches!(trial.verdict.standing, Standing::Passed | Standing::Pending) {
        return None;
    }
    if let Some(error) = trial.error.as_deref().filter(|error| !error.trim().is_empty()) {
        return Some(one_line(error));
    }
    let results = trial.results();
    let said: Vec<String> = evaluations(&results)
        .into_iter()
        .filter(|one| one.status != "passed")
        .map(|one| {
            let message = one.error.unwrap_or(one.message);
            one_line(&if message.is_empty() { one.status } else { format!("{}: {message}", one.name) })
        })
        .collect();
    if !said.is_empty() {
        return Some(said.join("; "));
    }
    // The evaluators had nothing to object to, or were not asked: the agent's own errors are left.
    let log = trial.log().unwrap_or_default();
    let errors = log["errors"].as_array().into_iter().flatten();
    errors.filter_map(|error| error["message"].as_str()).map(one_line).next()
}
