//! Looks for texts in model requests: what an agent was given shows in what it sends to its model, whatever the agent itself reports.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde_json::Value;

/// Texts that are looked for in the strings of model requests. Clones share their findings.
#[derive(Debug, Clone, Default)]
pub struct RequestTexts {
    texts: Arc<[(String, AtomicBool)]>,
    requests: Arc<AtomicU64>,
}

impl RequestTexts {
    /// Looks for these texts.
    pub fn new(texts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let texts = texts.into_iter().map(|text| (text.into(), AtomicBool::new(false))).collect();
        Self { texts, requests: Arc::default() }
    }

    /// Returns the number of model requests that were read.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Acquire)
    }

    /// Returns whether a request contained a text.
    #[must_use]
    pub fn contained(&self, text: &str) -> bool {
        self.texts.iter().any(|(known, found)| known == text && found.load(Ordering::Acquire))
    }

    /// Reads a request.
    pub(crate) fn read(&self, body: &[u8]) {
        let open = || self.texts.iter().filter(|(_, found)| !found.load(Ordering::Acquire));
        if open().next().is_some()
            && let Ok(request) = serde_json::from_slice::<Value>(body)
        {
            for (text, found) in open() {
                if contains(&request, text) {
                    found.store(true, Ordering::Release);
                }
            }
        }
        self.requests.fetch_add(1, Ordering::AcqRel);
    }
}

/// Returns whether any string of a value contains a text.
fn contains(value: &Value, text: &str) -> bool {
    match value {
        Value::String(string) => string.contains(text),
        Value::Array(items) => items.iter().any(|item| contains(item, text)),
        Value::Object(map) => map.values().any(|item| contains(item, text)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_found_in_strings_whatever_their_encoding() {
        let texts = RequestTexts::new(["Say \"please\".", "never sent"]);
        assert_eq!(texts.requests(), 0);
        let seen = texts.clone();
        seen.read(br#"{"system":[{"text":"Say \u0022please\u0022. Always."}],"messages":[]}"#);
        seen.read(b"not JSON");
        assert!(texts.contained("Say \"please\".") && !texts.contained("never sent"));
        assert_eq!(texts.requests(), 2);
    }
}
