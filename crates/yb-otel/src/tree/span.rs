//! Open spans, model calls in progress, and failures.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use opentelemetry::trace::{Status, TraceContextExt as _};
use opentelemetry::{Context, KeyValue};
use serde_json::Value;
use yb_claude::Tokens;
use yb_claude::frame::Usage;

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

    /// Ends the span with this status.
    pub(super) fn end(&self, failure: Option<&SpanFailure>, status: Status, at: SystemTime) {
        let span = self.context.span();
        span.set_attributes(self.late_attributes.iter().cloned());
        if let Some(failure) = failure {
            span.set_attribute(super::error_type(failure));
        }
        span.set_status(status);
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
    /// As reported at the start of the response, without output tokens.
    pub(crate) usage: Option<Usage>,
    /// As reported at the end of the response.
    pub(crate) output: Option<u64>,
    pub(crate) input_messages: Vec<Value>,
    pub(crate) parts: Vec<Value>,
    /// The size of input and parts that waits for the span.
    pub(super) content_size: usize,
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
            usage: None,
            output: None,
            input_messages,
            parts: Vec::new(),
            content_size: 0,
            failure: None,
            started,
            last: at,
        }
    }

    /// Raises the input tokens to these: the end of a response need not repeat them.
    pub(crate) fn raise(&mut self, usage: &Usage) {
        let known = self.usage.get_or_insert_default();
        known.input_tokens = known.input_tokens.max(usage.input_tokens);
        known.cache_read_input_tokens = known.cache_read_input_tokens.max(usage.cache_read_input_tokens);
        let written = usage.cache_creation_input_tokens;
        known.cache_creation_input_tokens = known.cache_creation_input_tokens.max(written);
        if usage.cache_creation.is_some() {
            known.cache_creation.clone_from(&usage.cache_creation);
        }
    }

    /// Returns the usage with the output tokens, which are zero if unknown.
    pub(crate) fn final_usage(&self) -> Option<Usage> {
        let mut usage = self.usage.clone()?;
        usage.output_tokens = self.output.unwrap_or_default();
        Some(usage)
    }

    /// Returns the token counts, with zero output tokens if they are unknown.
    pub(crate) fn tokens(&self) -> Option<Tokens> {
        self.final_usage().as_ref().map(Tokens::from)
    }

    /// Returns whether the input tokens are the same.
    pub(crate) fn has_input_of(&self, usage: &Usage) -> bool {
        self.usage.as_ref().is_some_and(|own| {
            own.input_tokens == usage.input_tokens
                && own.cache_read_input_tokens == usage.cache_read_input_tokens
                && own.cache_creation_input_tokens == usage.cache_creation_input_tokens
        })
    }

    /// Returns whether the response ended, so that a later failure does not concern it.
    pub(crate) fn is_complete(&self) -> bool {
        self.output.is_some() && self.stop_reason.is_some()
    }
}
