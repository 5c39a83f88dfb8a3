//! `budget`: limits tokens, cost, duration and turns.
//!
//! A limit on a value that was not reported fails: otherwise an agent that hides its usage would be the cheapest. The
//! duration is measured by us; everything else is reported by the agent or observed by the tape.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use super::{Assertion, Evaluator, EvaluatorContext, GradeError, Subject, Trust, Verdict, into_config};
use yb_case::shape::{COUNT, Field, Kind, MILLISECONDS, NON_NEGATIVE, Object};
use yb_case::{ConfigReader, EvaluatorConfig, EvaluatorInput, EvaluatorSpec};
use yb_model::log::{UsageSource, YouBenchaLog};

pub(crate) static SPEC: EvaluatorSpec = EvaluatorSpec {
    name: "budget",
    summary: "tokens, cost, duration and turns, against limits",
    input: EvaluatorInput::Log,
    config: &CONFIG,
    read,
};

static CONFIG: Object =
    Object { name: "budget", fields: &[Field::new("assertions", Kind::Object(&ASSERTIONS), "Limits.")] };

static ASSERTIONS: Object = Object {
    name: "budgetAssertions",
    fields: &[
        Field::new("max_tokens", COUNT, "Maximum number of input and output tokens, without cache."),
        Field::new("max_input_tokens", COUNT, "Maximum number of uncached input tokens."),
        Field::new("max_output_tokens", COUNT, "Maximum number of output tokens."),
        Field::new("max_cost_usd", NON_NEGATIVE, "Maximum cost."),
        Field::new("max_duration", MILLISECONDS, "Maximum duration."),
        Field::new("max_turns", COUNT, "Maximum number of turns."),
    ],
};

/// Limits for the resources that an agent uses.
#[derive(Debug, Clone, PartialEq, Default)]
struct BudgetCheck {
    /// Input and output tokens, without cached ones.
    max_tokens: Option<u64>,
    /// Input tokens at the full price.
    max_input_tokens: Option<u64>,
    max_output_tokens: Option<u64>,
    max_cost_usd: Option<f64>,
    max_duration: Option<Duration>,
    max_turns: Option<u64>,
}

fn read(reader: &mut ConfigReader<'_, '_>) -> Option<Arc<dyn EvaluatorConfig>> {
    Some(into_config(BudgetCheck {
        max_tokens: reader.count("assertions.max_tokens"),
        max_input_tokens: reader.count("assertions.max_input_tokens"),
        max_output_tokens: reader.count("assertions.max_output_tokens"),
        max_cost_usd: reader.number("assertions.max_cost_usd"),
        max_duration: reader.duration("assertions.max_duration"),
        max_turns: reader.count("assertions.max_turns"),
    }))
}

#[async_trait]
impl Evaluator for BudgetCheck {
    fn is_vacuous(&self) -> bool {
        *self == Self::default()
    }

    async fn evaluate(&self, subject: &Subject, _context: &EvaluatorContext) -> Result<Verdict, GradeError> {
        Ok(grade(self, &subject.log))
    }
}

fn grade(limits: &BudgetCheck, log: &YouBenchaLog) -> Verdict {
    let usage = &log.usage;
    // The usage that was metered until an agent was killed is a lower bound.
    let known = matches!(usage.source, UsageSource::Observed | UsageSource::SelfReported);
    let lower_bound = usage.source == UsageSource::Metered;
    let reported = |value: u64| (known || lower_bound).then_some(value as f64);
    let duration = limits.max_duration.map(|limit| limit.as_millis() as f64);
    let amounts = [
        Amount::new(
            "max_tokens",
            limits.max_tokens.map(|n| n as f64),
            reported(usage.total_tokens),
            lower_bound,
        ),
        Amount::new(
            "max_input_tokens",
            limits.max_input_tokens.map(|n| n as f64),
            reported(usage.input_tokens),
            lower_bound,
        ),
        Amount::new(
            "max_output_tokens",
            limits.max_output_tokens.map(|n| n as f64),
            reported(usage.output_tokens),
            lower_bound,
        ),
        Amount::new(
            "max_cost_usd",
            limits.max_cost_usd,
            usage.cost_usd.filter(|_| known || lower_bound),
            lower_bound,
        ),
        Amount::new("max_duration_ms", duration, Some(log.execution.duration_ms as f64), false),
        Amount::new(
            "max_turns",
            limits.max_turns.map(|n| n as f64),
            log.execution.num_turns.map(|turns| turns as f64),
            false,
        ),
    ];
    let checks: Vec<Assertion> = amounts.iter().filter_map(Amount::check).collect();
    let uses_report = checks.iter().any(|check| check.name != "max_duration_ms");
    let mut verdict = Verdict::from_checks(checks)
        .metric("duration_ms", log.execution.duration_ms)
        .metric("usage_source", serde_json::to_value(usage.source).unwrap_or_default());
    if known || lower_bound {
        verdict = verdict
            .metric("total_tokens", usage.total_tokens)
            .metric("input_tokens", usage.input_tokens)
            .metric("output_tokens", usage.output_tokens)
            .metric("cost_usd", usage.cost_usd.map_or(Value::Null, Value::from));
    }
    if let Some(turns) = log.execution.num_turns {
        verdict = verdict.metric("turns", turns);
    }
    verdict.trust = uses_report.then_some(match usage.source {
        UsageSource::Observed => Trust::Observed,
        _ => Trust::SelfReported,
    });
    let total = verdict.checks.len();
    let passed = total - verdict.failed_checks().count();
    verdict.with_summary(&format!("{passed} of {total} limits met"))
}

/// An amount and its limit.
struct Amount {
    name: &'static str,
    limit: Option<f64>,
    value: Option<f64>,
    /// Whether the actual amount may be higher.
    lower_bound: bool,
}

impl Amount {
    fn new(name: &'static str, limit: Option<f64>, value: Option<f64>, lower_bound: bool) -> Self {
        Self { name, limit, value, lower_bound }
    }

    fn check(&self) -> Option<Assertion> {
        let limit = self.limit?;
        let what = self.name.trim_start_matches("max_");
        let Some(value) = self.value else {
            let check = Assertion::new(self.name, false).with_values(Value::Null, json_number(limit));
            return Some(check.with_message(|| format!("{what} not reported")));
        };
        let within = value <= limit && !self.lower_bound;
        Some(
            Assertion::new(self.name, within)
                .with_values(json_number(value), json_number(limit))
                .with_message(|| {
                    if value > limit {
                        format!("{what} ({value}) exceeds {} ({limit})", self.name)
                    } else {
                        format!("{what} is at least {value}: the agent was killed before it reported")
                    }
                }),
        )
    }
}

/// Returns a number as JSON, without a fraction if it is an integer.
fn json_number(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() < 9e15 {
        Value::from(number as i64)
    } else {
        Value::from(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EvaluatorStatus;
    use crate::fixtures::log;

    fn limits() -> BudgetCheck {
        BudgetCheck {
            max_tokens: Some(100),
            max_cost_usd: Some(0.5),
            max_duration: Some(Duration::from_secs(60)),
            max_turns: Some(3),
            ..BudgetCheck::default()
        }
    }

    #[test]
    fn reported_usage_is_compared_with_limits() {
        let mut log = log();
        log.usage.source = UsageSource::SelfReported;
        log.usage.total_tokens = 100;
        log.usage.cost_usd = Some(0.25);
        log.execution.num_turns = Some(3);
        let verdict = grade(&limits(), &log);
        assert_eq!(verdict.status, EvaluatorStatus::Passed, "{}", verdict.message);
        assert_eq!(verdict.trust, Some(Trust::SelfReported));
        log.execution.num_turns = Some(4);
        log.usage.cost_usd = Some(0.75);
        let verdict = grade(&limits(), &log);
        assert_eq!(
            verdict.message,
            "✗ 2 of 4 limits met | cost_usd (0.75) exceeds max_cost_usd (0.5); turns (4) exceeds max_turns (3)"
        );
    }

    #[test]
    fn unreported_usage_fails() {
        let mut log = log();
        log.usage.source = UsageSource::Unreported;
        let verdict = grade(&limits(), &log);
        assert_eq!(verdict.status, EvaluatorStatus::Failed);
        assert_eq!(
            verdict.message,
            "✗ 1 of 4 limits met | tokens not reported; cost_usd not reported; turns not reported"
        );
        assert!(!verdict.metrics.contains_key("total_tokens"));
        log.usage.source = UsageSource::Metered;
        log.usage.total_tokens = 5;
        let only = BudgetCheck { max_tokens: Some(10), ..BudgetCheck::default() };
        assert_eq!(grade(&only, &log).status, EvaluatorStatus::Failed);
    }

    #[test]
    fn duration_does_not_depend_on_the_agent() {
        let only = BudgetCheck { max_duration: Some(Duration::from_secs(60)), ..BudgetCheck::default() };
        let verdict = grade(&only, &log());
        assert_eq!((verdict.status, verdict.trust), (EvaluatorStatus::Passed, None));
        assert_eq!(verdict.assertions["max_duration_ms"], 60_000);
    }
}
