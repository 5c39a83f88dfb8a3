//! Secrets to redact on a tape.

use std::fmt;

use crate::replace::TextReplacer;
use crate::rewrite::rewrite;

/// Secrets by name. `Debug` shows only the names.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secrets(Vec<(String, String)>);

impl Secrets {
    /// Creates an empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a secret; an empty value is ignored.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let value = value.into();
        if !value.is_empty() {
            self.0.push((name.into(), value));
        }
        self
    }

    /// Returns the names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// Replaces each secret in a response body by `[REDACTED:NAME]`, as in a recording: also where a secret spans stream
    /// events.
    #[must_use]
    pub fn redact_response(&self, body: &[u8]) -> Vec<u8> {
        rewrite(body, &Vec::new(), &self.replacer()).map_or_else(|| body.to_vec(), |(body, _)| body)
    }

    pub(crate) fn replacer(&self) -> TextReplacer {
        TextReplacer::of_secrets(yb_redact::Secrets::new(self.0.iter().cloned()))
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redact_response_finds_secrets_in_json_events_and_text() {
        let secrets = Secrets::new().with("KEY", "sk-0123456789");
        for (body, expected) in [
            (r#"{"a":"sk-0123456789"}"#, r#"{"a":"[REDACTED:KEY]"}"#),
            ("invalid key: sk-0123456789", "invalid key: [REDACTED:KEY]"),
            ("nothing", "nothing"),
        ] {
            assert_eq!(String::from_utf8_lossy(&secrets.redact_response(body.as_bytes())), expected);
        }
        let delta = |text: &str| {
            format!(r#"data: {{"delta":{{"text":"{text}"}},"index":0,"type":"content_block_delta"}}"#)
                + "\n\n"
        };
        let split = secrets.redact_response((delta("sk-0123") + &delta("456789.")).as_bytes());
        assert_eq!(String::from_utf8_lossy(&split), delta("[REDACTED:KEY]") + &delta("."));
    }
}
