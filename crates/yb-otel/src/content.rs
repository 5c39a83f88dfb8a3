//! What was said, on its way into a span: only when asked for, without secrets, and never without end.

use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};

/// How much of one text goes into a span.
const LIMIT: usize = 32 * 1024;

type Replace = dyn Fn(&str) -> String + Send + Sync;

/// Takes secrets out of a text.
#[derive(Clone, Default)]
pub struct Redact(Option<Arc<Replace>>);

impl Redact {
    /// Texts go through this function.
    pub fn new(redact: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(redact)))
    }

    /// Each value becomes `[REDACTED:NAME]`. The longest value goes first, so that one within another leaves nothing.
    pub fn values<N: Into<String>, V: Into<String>>(secrets: impl IntoIterator<Item = (N, V)>) -> Self {
        let mut secrets: Vec<(String, String)> = secrets
            .into_iter()
            .map(|(name, value)| (value.into(), format!("[REDACTED:{}]", name.into())))
            .filter(|(value, _)| !value.is_empty())
            .collect();
        if secrets.is_empty() {
            return Self::default();
        }
        secrets.sort_by_key(|(value, _)| std::cmp::Reverse(value.len()));
        Self::new(move |text| {
            secrets.iter().fold(text.to_owned(), |text, (value, mark)| {
                if text.contains(value.as_str()) { text.replace(value.as_str(), mark) } else { text }
            })
        })
    }

    /// The text without secrets.
    #[must_use]
    pub fn apply(&self, text: String) -> String {
        match &self.0 {
            Some(redact) => redact(&text),
            None => text,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

impl fmt::Debug for Redact {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Redact").field(&self.0.is_some()).finish()
    }
}

/// Whether what was said is written, and what is taken out of it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Content {
    pub(crate) wanted: bool,
    pub(crate) redact: Redact,
}

impl Content {
    /// A text as it may be written. Secrets go before the end is cut off, or half of one would stay.
    pub(crate) fn text(&self, text: &str) -> String {
        let mut text = self.redact.apply(text.to_owned());
        if text.len() > LIMIT {
            let rest = text.len() - LIMIT;
            text.truncate(text.floor_char_boundary(LIMIT));
            text.push_str(&format!("… ({rest} more bytes)"));
        }
        text
    }

    /// The same, if content is wanted.
    pub(crate) fn wanted(&self, text: &str) -> Option<String> {
        self.wanted.then(|| self.text(text))
    }

    /// A value with its strings as they may be written.
    pub(crate) fn value(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(&text)),
            Value::Array(items) => items.into_iter().map(|item| self.value(item)).collect(),
            Value::Object(fields) => {
                fields.into_iter().map(|(key, value)| (key, self.value(value))).collect()
            }
            other => other,
        }
    }
}

/// One message in the conventions' form.
pub(crate) fn message(role: &str, parts: &[Value]) -> Value {
    json!({"role": role, "parts": parts})
}

/// What a model answered. The conventions want a reason for its end, in words of their own; Phoenix drops an answer without.
pub(crate) fn answer(parts: &[Value], reason: Option<&str>) -> Value {
    let reason = match reason {
        Some("end_turn" | "stop_sequence") => "stop",
        Some("max_tokens" | "model_context_window_exceeded") => "length",
        Some("tool_use") => "tool_call",
        Some("refusal") => "content_filter",
        Some(other) => other,
        // Nobody says it of a subagent's answers; that tools are called is an end all the same.
        None if parts.iter().any(|part| part["type"] == "tool_call") => "tool_call",
        None => "unknown",
    };
    json!({"role": "assistant", "parts": parts, "finish_reason": reason})
}

/// A part that is text.
pub(crate) fn text_part(text: &str) -> Value {
    json!({"type": "text", "content": text})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_go_before_the_end_is_cut_off() {
        let content =
            Content { wanted: true, redact: Redact::values([("KEY", "s3cret"), ("LONG", "s3cret-s3cret")]) };
        assert_eq!(content.text("a s3cret-s3cret and s3cret"), "a [REDACTED:LONG] and [REDACTED:KEY]");
        let long = format!("{}s3cret", "x".repeat(LIMIT - 3));
        assert!(!content.text(&long).contains("s3c"));
        assert!(content.text(&"ü".repeat(LIMIT)).ends_with("more bytes)"));
        assert_eq!(content.value(json!({"a": ["s3cret", 1]})), json!({"a": ["[REDACTED:KEY]", 1]}));
        assert_eq!(Content::default().wanted("x"), None);
        assert!(Redact::values([("EMPTY", "")]).is_empty());
    }

    #[test]
    fn an_answer_ends_for_a_reason() {
        let reason = |parts: &[Value], reason| answer(parts, reason)["finish_reason"].clone();
        assert_eq!(reason(&[], Some("end_turn")), "stop");
        assert_eq!(reason(&[], Some("pause_turn")), "pause_turn");
        assert_eq!(reason(&[json!({"type": "tool_call"})], None), "tool_call");
        assert_eq!(reason(&[text_part("x")], None), "unknown");
    }
}
