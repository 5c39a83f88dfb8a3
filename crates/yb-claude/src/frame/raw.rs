//! JSON kept as its original text, so that untyped fields stay accessible.

use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::repair;

/// The maximum length that `Debug` shows.
const DEBUG_LIMIT: usize = 200;

/// Original JSON text: a whole message, or one value of it.
///
/// Values of one message share its text, so clones are cheap.
#[derive(Clone)]
pub struct RawJson {
    text: Arc<str>,
    start: usize,
    end: usize,
}

impl RawJson {
    /// Returns the JSON text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.text.get(self.start..self.end).unwrap_or("null")
    }

    /// Deserializes the JSON.
    ///
    /// A lone surrogate, which JSON allows and a Rust string does not, becomes U+FFFD.
    ///
    /// # Errors
    /// If the value does not match `T`, or nests deeper than 128 levels.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.as_str()).or_else(|error| match repair::lone_surrogates(self.as_str()) {
            Some(repaired) => serde_json::from_str(&repaired),
            None => Err(error),
        })
    }

    /// Parses the JSON into a [`Value`].
    ///
    /// # Errors
    /// If the value nests deeper than 128 levels.
    pub fn to_value(&self) -> Result<Value, serde_json::Error> {
        self.parse()
    }

    /// Copies the JSON, so that a small value does not keep a large message in memory.
    #[must_use]
    pub fn detached(&self) -> Self {
        Self::whole(Arc::from(self.as_str()))
    }

    pub(crate) fn whole(text: Arc<str>) -> Self {
        Self { start: 0, end: text.len(), text }
    }
}

impl Default for RawJson {
    /// Returns `null`.
    fn default() -> Self {
        Self::whole(Arc::from("null"))
    }
}

impl PartialEq for RawJson {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for RawJson {}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.as_str();
        let shown = head(text, DEBUG_LIMIT);
        f.write_str(shown)?;
        if shown.len() < text.len() { write!(f, "… ({} bytes)", text.len()) } else { Ok(()) }
    }
}

impl fmt::Display for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Truncates a text to at most `limit` bytes, at a character boundary.
pub(crate) fn head(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}

/// The text being decoded; values are slices of it.
pub(crate) struct SourceText {
    text: Arc<str>,
    whole: RawJson,
    depth: std::cell::Cell<usize>,
}

impl SourceText {
    pub(crate) fn new(text: &str) -> Self {
        let text: Arc<str> = Arc::from(text);
        Self { whole: RawJson::whole(Arc::clone(&text)), text, depth: std::cell::Cell::new(0) }
    }

    /// Creates a source for `text`, a repaired version of `original`; [`SourceText::whole`] returns the original.
    pub(crate) fn in_place_of(original: &Self, text: &str) -> Self {
        Self { text: Arc::from(text), whole: original.whole(), depth: std::cell::Cell::new(0) }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the whole message.
    pub(crate) fn whole(&self) -> RawJson {
        self.whole.clone()
    }

    /// Returns one value of the message; `part` should be borrowed from [`SourceText::text`].
    pub(crate) fn part(&self, part: &str) -> RawJson {
        let start = part.as_ptr().addr().wrapping_sub(self.text.as_ptr().addr());
        let end = start.wrapping_add(part.len());
        if self.text.get(start..end) == Some(part) {
            RawJson { text: Arc::clone(&self.text), start, end }
        } else {
            RawJson::whole(Arc::from(part))
        }
    }

    /// Runs `inner` one nesting level deeper; returns `None` beyond `limit` levels.
    pub(crate) fn deeper<T>(&self, limit: usize, inner: impl FnOnce() -> T) -> Option<T> {
        let depth = self.depth.get();
        if depth >= limit {
            return None;
        }
        self.depth.set(depth + 1);
        let value = inner();
        self.depth.set(depth);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_shares_text_of_its_message() {
        let source = SourceText::new(r#"{"a":[1,2]}"#);
        let part = source.part(&source.text()[5..10]);
        assert_eq!(part.as_str(), "[1,2]");
        assert!(Arc::ptr_eq(&part.text, &source.text));
        assert_eq!(part.detached(), part);
        assert!(!Arc::ptr_eq(&part.detached().text, &source.text));
    }

    #[test]
    fn part_of_other_text_is_copied() {
        let source = SourceText::new("{}");
        assert_eq!(source.part(&String::from("[3]")).as_str(), "[3]");
    }

    #[test]
    fn debug_is_truncated_at_character_boundary() {
        let long = RawJson::whole(Arc::from(format!("\"{}\"", "ü".repeat(500))));
        assert!(format!("{long:?}").len() < 230);
        assert_eq!(format!("{:?}", RawJson::default()), "null");
    }
}
