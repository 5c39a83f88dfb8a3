//! OpenSpan spans, model calls in progress, and failures.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use opentelemetry::trace::TraceContextExt as _;
use opentelemetry::{Context, KeyValue};
use serde_json::Value;
use yb_claude::Tokens;

/// The maximum length of a status message.
const MESSAGE: usize = 1024;

/// The failure of a span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SpanFailure {
    /// The `error.type`, of low cardinality.
    pub(crate) kind: Cow<'static, str>,
    /// The status message.
    pub(crate) message: String,
}

impl SpanFailure {
    pub(crate) fn new(kind: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        let mut message = message.into();
        if message.len() > MESSAGE {
            message.truncate(message.floor_char_boundary(MESSAGE));
            message.push('…');
        }
        Self { kind: kind.into(), message }
    }
}

/// A span that has not ended.
#[derive(Debug, Clone)]
pub(crate) struct OpenSpan {
    pub(crate) context: Context,
    pub(crate) started: SystemTime,
    /// The subject, such as the tool's name.
    pub(crate) label: String,
    /// Attributes set after the start. They are written at the end, because the SDK keeps both values of a repeated key.
    pub(crate) late_attributes: Vec<KeyValue>,
}

impl OpenSpan {
    /// Sets an attribute, replacing an earlier value.
    pub(crate) fn set(&mut self, attribute: KeyValue) {
        self.late_attributes.retain(|other| other.key != attribute.key);
        self.late_attributes.push(attribute);
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.late_attributes.iter().any(|attribute| attribute.key.as_str() == key)
    }

    /// Ends the span. A failure's message may contain tool output, so it is written only if `with_message` is set.
    pub(crate) fn end(&self, failure: Option<&SpanFailure>, with_message: bool, at: SystemTime) {
        let span = self.context.span();
        span.set_attributes(self.late_attributes.iter().cloned());
        if let Some(failure) = failure {
            span.set_attribute(super::error_type(failure));
        }
        span.set_status(super::status(failure, with_message));
        // The clock may go backwards, and receivers reject a span that ends before it starts.
        span.end_with_timestamp(at.max(self.started));
    }

    pub(crate) fn duration(&self, at: SystemTime) -> Duration {
        at.duration_since(self.started).unwrap_or_default()
    }
}

/// A model call in progress.
#[derive(Debug)]
pub(crate) struct ModelCall {
    pub(crate) id: String,
    pub(crate) model: Option<String>,
    pub(crate) stop_reason: Option<String>,
    /// As reported at the start of the response.
    pub(crate) input: Option<Tokens>,
    /// As reported at the end of the response.
    pub(crate) output: Option<u64>,
    pub(crate) input_messages: Vec<Value>,
    pub(crate) parts: Vec<Value>,
    pub(crate) failure: Option<SpanFailure>,
    pub(crate) started: SystemTime,
    pub(crate) last: SystemTime,
}

impl ModelCall {
    pub(crate) fn new(id: &str, input_messages: Vec<Value>, started: SystemTime, at: SystemTime) -> Self {
        Self {
            id: id.to_owned(),
            model: None,
            stop_reason: None,
            input: None,
            output: None,
            input_messages,
            parts: Vec::new(),
            failure: None,
            started,
            last: at,
        }
    }
}
