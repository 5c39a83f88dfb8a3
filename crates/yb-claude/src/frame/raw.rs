//! JSON kept as the text it was, so that what nobody typed is still there to read.

use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::repair;

/// How much of a raw text is shown by `Debug`.
const SHOWN: usize = 200;

/// A piece of JSON as the CLI wrote it: a whole message, or one value within it.
///
/// Pieces of one message share its text, so a clone costs nothing.
#[derive(Clone)]
pub struct RawJson {
    text: Arc<str>,
    start: usize,
    end: usize,
}

impl RawJson {
    /// The JSON text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.text.get(self.start..self.end).unwrap_or("null")
    }

    /// The text as any type that knows how to be read from JSON.
    ///
    /// Half of a surrogate pair, which JSON allows and a Rust string does not, is read as U+FFFD.
    ///
    /// # Errors
    /// When the value does not have the shape of `T`, or nests deeper than 128 levels.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.as_str()).or_else(|error| match repair::lone_surrogates(self.as_str()) {
            Some(repaired) => serde_json::from_str(&repaired),
            None => Err(error),
        })
    }

    /// The text as a JSON value.
    ///
    /// # Errors
    /// When the value nests deeper than 128 levels.
    pub fn to_value(&self) -> Result<Value, serde_json::Error> {
        self.parse()
    }

    /// The same JSON in a text of its own, so that a small piece does not keep a large message in memory.
    #[must_use]
    pub fn detached(&self) -> Self {
        Self::whole(Arc::from(self.as_str()))
    }

    pub(crate) fn whole(text: Arc<str>) -> Self {
        Self { start: 0, end: text.len(), text }
    }
}

impl Default for RawJson {
    /// `null`.
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
        let shown = head(text, SHOWN);
        f.write_str(shown)?;
        if shown.len() < text.len() { write!(f, "… ({} bytes)", text.len()) } else { Ok(()) }
    }
}

impl fmt::Display for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The first part of a text, at most `limit` bytes of it, never half a character.
pub(crate) fn head(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}

/// The text that is being decoded, from which values are cut without copying them.
pub(crate) struct Source {
    text: Arc<str>,
    whole: RawJson,
    depth: std::cell::Cell<usize>,
}

impl Source {
    pub(crate) fn new(text: &str) -> Self {
        let text: Arc<str> = Arc::from(text);
        Self { whole: RawJson::whole(Arc::clone(&text)), text, depth: std::cell::Cell::new(0) }
    }

    /// Decodes `text` in place of what `original` holds; [`Source::whole`] stays the original.
    pub(crate) fn in_place_of(original: &Self, text: &str) -> Self {
        Self { text: Arc::from(text), whole: original.whole(), depth: std::cell::Cell::new(0) }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The whole message.
    pub(crate) fn whole(&self) -> RawJson {
        self.whole.clone()
    }

    /// One value of the message; `part` should be borrowed from [`Source::text`].
    pub(crate) fn part(&self, part: &str) -> RawJson {
        let start = part.as_ptr().addr().wrapping_sub(self.text.as_ptr().addr());
        let end = start.wrapping_add(part.len());
        if self.text.get(start..end) == Some(part) {
            RawJson { text: Arc::clone(&self.text), start, end }
        } else {
            RawJson::whole(Arc::from(part))
        }
    }

    /// Runs `inner` one level deeper, or not at all below `limit` levels.
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
    fn a_part_shares_the_text_of_its_message() {
        let source = Source::new(r#"{"a":[1,2]}"#);
        let part = source.part(&source.text()[5..10]);
        assert_eq!(part.as_str(), "[1,2]");
        assert!(Arc::ptr_eq(&part.text, &source.text));
        assert_eq!(part.detached(), part);
        assert!(!Arc::ptr_eq(&part.detached().text, &source.text));
    }

    #[test]
    fn a_part_from_elsewhere_is_copied() {
        let source = Source::new("{}");
        assert_eq!(source.part(&String::from("[3]")).as_str(), "[3]");
    }

    #[test]
    fn debug_is_short_and_never_cuts_a_character() {
        let long = RawJson::whole(Arc::from(format!("\"{}\"", "ü".repeat(500))));
        assert!(format!("{long:?}").len() < 230);
        assert_eq!(format!("{:?}", RawJson::default()), "null");
    }
}
