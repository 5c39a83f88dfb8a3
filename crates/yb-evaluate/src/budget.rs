//! `budget`: what an agent used, against the limits of the case.
//!
//! What nobody reported is no pass: an agent that hides what it used would else be the cheapest of all. The time is our
//! own measurement; everything else is the agent's word, or the tape's.

use async_trait::async_trait;
use serde_json::Value;

use super::{Assertion, Desk, Evaluator, GradeError, Need, Subject, Trust, Verdict};
use yb_case::Budget;
use yb_model::log::{UsageSource, YouBenchaLog};

#[async_trait]
impl Evaluator for Budget {
    fn need(&self) -> Need {
        Need::Log
    }

    async fn evaluate(&self, subject: &Subject, _desk: &Desk) -> Result<Verdict, GradeError> {
        Ok(judge(self, &subject.log))
    }
}

fn judge(limits: &Budget, log: &YouBenchaLog) -> Verdict {
    let usage = &log.usage;
    // What was metered until an agent was ended is a lower bound.
    let known = matches!(usage.source, UsageSource::Observed | UsageSource::SelfReported);
    let least = usage.source == UsageSource::Metered;
    let reported = |value: u64| (known || least).then_some(value as f64);
    let duration = limits.max_duration.map(|limit| limit.as_millis() as f64);
    let amounts = [
        Amount::new("max_tokens", limits.max_tokens.map(|n| n as f64), reported(usage.total_tokens), least),
        Amount::new(
            "max_input_tokens",
            limits.max_input_tokens.map(|n| n as f64),
            reported(usage.input_tokens),
            least,
        ),
        Amount::new(
            "max_output_tokens",
            limits.max_output_tokens.map(|n| n as f64),
            reported(usage.output_tokens),
            least,
        ),
        Amount::new("max_cost_usd", limits.max_cost_usd, usage.cost_usd.filter(|_| known || least), least),
        Amount::new("max_duration_ms", duration, Some(log.execution.duration_ms as f64), false),
        Amount::new(
            "max_turns",
            limits.max_turns.map(|n| n as f64),
            log.execution.num_turns.map(|turns| turns as f64),
            false,
        ),
    ];
    let checks: Vec<Assertion> = amounts.iter().filter_map(Amount::check).collect();
    let told = checks.iter().any(|check| check.name != "max_duration_ms");
    let mut verdict = Verdict::of(checks)
        .metric("duration_ms", log.execution.duration_ms)
        .metric("usage_source", serde_json::to_value(usage.source).unwrap_or_default());
    if known || least {
        verdict = verdict
            .metric("total_tokens", usage.total_tokens)
            .metric("input_tokens", usage.input_tokens)
            .metric("output_tokens", usage.output_tokens)
            .metric("cost_usd", usage.cost_usd.map_or(Value::Null, Value::from));
    }
    if let Some(turns) = log.execution.num_turns {
        verdict = verdict.metric("turns", turns);
    }
    verdict.trust = told.then_some(match usage.source {
        UsageSource::Observed => Trust::Observed,
        _ => Trust::SelfReported,
    });
    let said = format!(
        "{} of {} limits hold",
        verdict.checks.len() - verdict.failed().count(),
        verdict.checks.len()
    );
    verdict.saying(&said)
}

/// One amount and its limit.
struct Amount {
    name: &'static str,
    limit: Option<f64>,
    value: Option<f64>,
    /// Whether it may have been more.
    least: bool,
}

impl Amount {
    fn new(name: &'static str, limit: Option<f64>, value: Option<f64>, least: bool) -> Self {
        Self { name, limit, value, least }
    }

    fn check(&self) -> Option<Assertion> {
        let limit = self.limit?;
        let what = self.name.trim_start_matches("max_");
        let Some(value) = self.value else {
            let check = Assertion::of(self.name, false).found(Value::Null, plain(limit));
            return Some(check.because(|| format!("{what} not reported")));
        };
        let within = value <= limit && !self.least;
        Some(Assertion::of(self.name, within).found(plain(value), plain(limit)).because(|| {
            if value > limit {
                format!("{what} ({value}) exceeds {} ({limit})", self.name)
            } else {
                format!("{what} is at least {value}: the agent was ended before it reported")
            }
        }))
    }
}

/// A whole number without a point.
fn plain(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() < 9e15 {
        Value::from(number as i64)
    } else {
        Value::from(number)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::EvaluatorStatus;
    use crate::samples::log;

    fn limits() -> Budget {
        Budget {
            max_tokens: Some(100),
            max_cost_usd: Some(0.5),
            max_duration: Some(Duration::from_secs(60)),
            max_turns: Some(3),
            ..Budget::default()
        }
    }

    #[test]
    fn what_was_reported_is_held_against_the_limits() {
        let mut log = log();
        log.usage.source = UsageSource::SelfReported;
        log.usage.total_tokens = 100;
        log.usage.cost_usd = Some(0.25);
        log.execution.num_turns = Some(3);
        let verdict = judge(&limits(), &log);
        assert_eq!(verdict.status, EvaluatorStatus::Passed, "{}", verdict.message);
        assert_eq!(verdict.trust, Some(Trust::SelfReported));
        log.execution.num_turns = Some(4);
        log.usage.cost_usd = Some(0.75);
        let verdict = judge(&limits(), &log);
        assert_eq!(
            verdict.message,
            "✗ 2 of 4 limits hold | cost_usd (0.75) exceeds max_cost_usd (0.5); turns (4) exceeds max_turns (3)"
        );
    }

    #[test]
    fn what_nobody_reported_is_no_pass() {
        let mut log = log();
        log.usage.source = UsageSource::Unreported;
        let verdict = judge(&limits(), &log);
        assert_eq!(verdict.status, EvaluatorStatus::Failed);
        assert_eq!(
            verdict.message,
            "✗ 1 of 4 limits hold | tokens not reported; cost_usd not reported; turns not reported"
        );
        assert!(!verdict.metrics.contains_key("total_tokens"));
        log.usage.source = UsageSource::Metered;
        log.usage.total_tokens = 5;
        let only = Budget { max_tokens: Some(10), ..Budget::default() };
        assert_eq!(judge(&only, &log).status, EvaluatorStatus::Failed);
    }

    #[test]
    fn the_time_is_our_own_measurement() {
        let only = Budget { max_duration: Some(Duration::from_secs(60)), ..Budget::default() };
        let verdict = judge(&only, &log());
        assert_eq!((verdict.status, verdict.trust), (EvaluatorStatus::Passed, None));
        assert_eq!(verdict.assertions["max_duration_ms"], 60_000);
    }
}
