//! The `gen_ai.evaluation.result` event.

use std::time::SystemTime;

use opentelemetry::Context;
use opentelemetry::logs::{AnyValue, LogRecord as _, Logger, Severity};
use opentelemetry::trace::TraceContextExt as _;

use crate::content::Redactor;
use crate::names::common;

/// The result of one evaluator.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Evaluation {
    /// The evaluator's name.
    pub name: String,
    /// The score.
    pub score: Option<f64>,
    /// The verdict, for example `passed`.
    pub label: Option<String>,
    /// The explanation.
    pub explanation: Option<String>,
}

impl Evaluation {
    /// Creates a result of the evaluator with this name.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// Sets the score.
    #[must_use]
    pub fn with_score(mut self, score: f64) -> Self {
        self.score = Some(score);
        self
    }

    /// Sets the verdict.
    #[must_use]
    pub fn with_label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Sets the explanation.
    #[must_use]
    pub fn with_explanation(mut self, explanation: impl Into<String>) -> Self {
        self.explanation = Some(explanation.into());
        self
    }
}

/// Emits the event `gen_ai.evaluation.result` for the span of this context.
pub fn emit_evaluation<L: Logger>(logger: &L, context: &Context, evaluation: &Evaluation, redact: &Redactor) {
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
