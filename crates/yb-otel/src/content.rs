//! Recording of content (prompts, responses, tool arguments and results): opt-in, redacted and limited in size.

use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};
use yb_redact::Secrets;

/// The maximum number of bytes of one text in a span.
const LIMIT: usize = 32 * 1024;

type Replace = dyn Fn(&str) -> String + Send + Sync;

/// Replaces secrets in a text.
#[derive(Clone, Default)]
pub struct Redactor(Option<Arc<Replace>>);

impl Redactor {
    /// Creates a redactor from a function.
    pub fn new(redact: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(redact)))
    }

    /// Creates a redactor that replaces each value with `[REDACTED:NAME]`, also in its usual encodings.
    pub fn from_values<N: Into<String>, V: Into<String>>(secrets: impl IntoIterator<Item = (N, V)>) -> Self {
        let secrets = Secrets::new(secrets.into_iter().map(|(name, value)| (name, value.into())));
        if secrets.is_empty() {
            return Self::default();
        }
        Self::new(move |text| secrets.redact(text).into_owned())
    }

    /// Returns the text with secrets replaced.
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

impl fmt::Debug for Redactor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Redactor").field(&self.0.is_some()).finish()
    }
}

/// Whether content is recorded, and how it is redacted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Content {
    pub(crate) enabled: bool,
    pub(crate) redact: Redactor,
}

impl Content {
    /// Redacts and truncates a text. Redaction comes first, because truncation could leave a part of a secret.
    pub(crate) fn text(&self, text: &str) -> String {
        let mut text = self.redact.apply(text.to_owned());
        if text.len() > LIMIT {
            let rest = text.len() - LIMIT;
            text.truncate(text.floor_char_boundary(LIMIT));
            text.push_str(&format!("… ({rest} more bytes)"));
        }
        text
    }

    /// Returns the redacted text if content is recorded.
    pub(crate) fn text_if_enabled(&self, text: &str) -> Option<String> {
        self.enabled.then(|| self.text(text))
    }

    /// Redacts and truncates all strings of a value.
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

/// Returns a message as the conventions define it.
pub(crate) fn message(role: &str, parts: &[Value]) -> Value {
    json!({"role": role, "parts": parts})
}

/// Returns an output message. The conventions require a finish reason from their own list; Phoenix drops messages without.
pub(crate) fn output_message(parts: &[Value], reason: Option<&str>) -> Value {
    let reason = match reason {
        Some("end_turn" | "stop_sequence") => "stop",
        Some("max_tokens" | "model_context_window_exceeded") => "length",
        Some("tool_use") => "tool_call",
        Some("refusal") => "content_filter",
        Some(other) => other,
        // Responses of subagents have no reason. A response with tool calls ended because of these.
        None if parts.iter().any(|part| part["type"] == "tool_call") => "tool_call",
        None => "unknown",
    };
    json!({"role": "assistant", "parts": parts, "finish_reason": reason})
}

/// Returns a text part.
pub(crate) fn text_part(text: &str) -> Value {
    json!({"type": "text", "content": text})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_redacted_before_truncation() {
        let content = Content {
            enabled: true,
            redact: Redactor::from_values([("KEY", "s3cret"), ("LONG", "s3cret-s3cret")]),
        };
        assert_eq!(content.text("a s3cret-s3cret and s3cret"), "a [REDACTED:LONG] and [REDACTED:KEY]");
        let long = format!("{}s3cret", "x".repeat(LIMIT - 3));
        assert!(!content.text(&long).contains("s3c"));
        assert!(content.text(&"ü".repeat(LIMIT)).ends_with("more bytes)"));
        assert_eq!(content.value(json!({"a": ["s3cret", 1]})), json!({"a": ["[REDACTED:KEY]", 1]}));
        assert_eq!(Content::default().text_if_enabled("x"), None);
        assert!(Redactor::from_values([("EMPTY", "")]).is_empty());
    }

    #[test]
    fn output_message_has_a_finish_reason() {
        let reason = |parts: &[Value], reason| output_message(parts, reason)["finish_reason"].clone();
        assert_eq!(reason(&[], Some("end_turn")), "stop");
        assert_eq!(reason(&[], Some("pause_turn")), "pause_turn");
        assert_eq!(reason(&[json!({"type": "tool_call"})], None), "tool_call");
        assert_eq!(reason(&[text_part("x")], None), "unknown");
    }
}
