//! A span that is open, a call of a model that is not over, and what a failure is.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use opentelemetry::trace::TraceContextExt as _;
use opentelemetry::{Context, KeyValue};
use serde_json::Value;
use yb_claude::Tokens;

/// How much of a failure's words becomes a status.
const MESSAGE: usize = 1024;

/// How something failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// One of few words, for counting.
    pub(crate) kind: Cow<'static, str>,
    /// In words.
    pub(crate) message: String,
}

impl Failure {
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
pub(crate) struct Open {
    pub(crate) context: Context,
    pub(crate) started: SystemTime,
    /// What it is about.
    pub(crate) label: String,
    /// What was told of it since it began. Written at its end, because a span keeps both values of a key.
    pub(crate) later: Vec<KeyValue>,
}

impl Open {
    /// The last value of a key counts.
    pub(crate) fn set(&mut self, attribute: KeyValue) {
        self.later.retain(|other| other.key != attribute.key);
        self.later.push(attribute);
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.later.iter().any(|attribute| attribute.key.as_str() == key)
    }

    /// Ends it. The words of a failure may be what a tool printed: they are written only when content is wanted.
    pub(crate) fn end(&self, failure: Option<&Failure>, in_words: bool, at: SystemTime) {
        let span = self.context.span();
        span.set_attributes(self.later.iter().cloned());
        if let Some(failure) = failure {
            span.set_attribute(super::error_type(failure));
        }
        span.set_status(super::status(failure, in_words));
        // Clocks may go back; a span that ends before it began is refused by receivers.
        span.end_with_timestamp(at.max(self.started));
    }

    pub(crate) fn took(&self, at: SystemTime) -> Duration {
        at.duration_since(self.started).unwrap_or_default()
    }
}

/// A call of a model.
#[derive(Debug)]
pub(crate) struct Chat {
    pub(crate) id: String,
    pub(crate) model: Option<String>,
    pub(crate) stop_reason: Option<String>,
    /// As of the beginning of the answer.
    pub(crate) input: Option<Tokens>,
    /// Only what the API counted at the end of the answer.
    pub(crate) output: Option<u64>,
    pub(crate) told: Vec<Value>,
    pub(crate) parts: Vec<Value>,
    pub(crate) failure: Option<Failure>,
    pub(crate) started: SystemTime,
    pub(crate) last: SystemTime,
}

impl Chat {
    pub(crate) fn new(id: &str, told: Vec<Value>, started: SystemTime, at: SystemTime) -> Self {
        Self {
            id: id.to_owned(),
            model: None,
            stop_reason: None,
            input: None,
            output: None,
            told,
            parts: Vec::new(),
            failure: None,
            started,
            last: at,
        }
    }
}
