//! The event that tells how a trial was graded, beside the trial's span.

use std::time::SystemTime;

use opentelemetry::Context;
use opentelemetry::logs::{AnyValue, LogRecord as _, Logger, Severity};
use opentelemetry::trace::TraceContextExt as _;

use crate::content::Redact;
use crate::names::common;

/// How one evaluator saw a trial.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Evaluation {
    /// The evaluator.
    pub name: String,
    /// Its score, if it gives one.
    pub score: Option<f64>,
    /// Its verdict in a word, `passed` for example.
    pub label: Option<String>,
    /// Why.
    pub explanation: Option<String>,
}

impl Evaluation {
    /// By this evaluator.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// The same with a score.
    #[must_use]
    pub fn with_score(mut self, score: f64) -> Self {
        self.score = Some(score);
        self
    }

    /// The same with a verdict in a word.
    #[must_use]
    pub fn with_label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// The same with a reason.
    #[must_use]
    pub fn with_explanation(mut self, explanation: impl Into<String>) -> Self {
        self.explanation = Some(explanation.into());
        self
    }
}

/// Writes the event `gen_ai.evaluation.result` for the span of this context.
pub fn evaluation_result<L: Logger>(logger: &L, context: &Context, evaluation: &Evaluation, redact: &Redact) {
    let mut record = logger.create_log_record();
    let now = SystemTime::now();
    record.set_event_name(common::EVALUATION_EVENT);
    record.set_timestamp(now);
    record.set_observed_timestamp(now);
    record.set_severity_number(Severity::Info);
    let text = |text: &str| AnyValue::from(redact.apply(text.to_owned()));
    record.add_attribute(common::EVALUATION_NAME, text(&evaluation.name));
    if let Some(score) = evaluation.score {
        record.add_attribute(common::EVALUATION_SCORE, score);
    }
    if let Some(label) = &evaluation.label {
        record.add_attribute(common::EVALUATION_LABEL, text(label));
    }
    if let Some(explanation) = &evaluation.explanation {
        record.add_attribute(common::EVALUATION_EXPLANATION, text(explanation));
    }
    let span = context.span();
    let place = span.span_context();
    if place.is_valid() {
        record.set_trace_context(place.trace_id(), place.span_id(), Some(place.trace_flags()));
    }
    logger.emit(record);
}
