//! Multi-pattern text replacement, used for secrets and for directories of a run.

use std::borrow::Cow;

use aho_corasick::{AhoCorasick, MatchKind};
use serde_json::Value;

/// Replaces texts by others; the longest match wins.
#[derive(Debug, Clone, Default)]
pub(crate) struct TextReplacer {
    finder: Option<AhoCorasick>,
    replacements: Vec<String>,
    boundary: MatchBoundary,
    secrets: yb_redact::Secrets,
}

/// Where a match may end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum MatchBoundary {
    /// Anywhere.
    #[default]
    Anywhere,
    /// Only at the end of a file name: `/a/b` does not match `/a/bc`.
    FileName,
}

impl TextReplacer {
    /// Creates a replacer for pairs of text and replacement. It also replaces the JSON-escaped form of each text and
    /// ignores empty texts.
    pub(crate) fn new(pairs: impl IntoIterator<Item = (String, String)>, boundary: MatchBoundary) -> Self {
        let mut from: Vec<String> = Vec::new();
        let mut replacements = Vec::new();
        for (text, replacement) in pairs.into_iter().filter(|(text, _)| !text.is_empty()) {
            let escaped = escape(&text);
            if escaped != text {
                from.push(escaped);
                replacements.push(escape(&replacement));
            }
            from.push(text);
            replacements.push(replacement);
        }
        let finder = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&from);
        let finder = finder.ok().filter(|_| !from.is_empty());
        Self { finder, replacements, boundary, secrets: yb_redact::Secrets::default() }
    }

    /// Creates a replacer for secrets, which it also finds folded, escaped and in their usual encodings.
    pub(crate) fn of_secrets(secrets: yb_redact::Secrets) -> Self {
        Self { secrets, ..Self::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.finder.is_none() && self.secrets.is_empty()
    }

    /// Finds the matches: start, end and replacement.
    fn matches<'s>(&'s self, text: &'s str) -> impl Iterator<Item = (usize, usize, Cow<'s, str>)> {
        let secrets = self.secrets.find(text.as_bytes()).into_iter();
        // A secret that is no UTF-8 could begin or end within a character.
        let secrets = secrets.map(|found| {
            let (start, end) =
                (text.floor_char_boundary(found.range.start), text.ceil_char_boundary(found.range.end));
            (start, end, Cow::Owned(found.replacement))
        });
        let finds = self.finder.iter().flat_map(move |finder| finder.find_iter(text));
        let texts = finds
            .filter(move |found| {
                let next = text[found.end()..].chars().next();
                self.boundary == MatchBoundary::Anywhere
                    || next.is_none_or(|next| !(next.is_alphanumeric() || next == '_' || next == '-'))
            })
            .map(|found| {
                let replacement = self.replacements[found.pattern().as_usize()].as_str();
                (found.start(), found.end(), Cow::Borrowed(replacement))
            });
        texts.chain(secrets)
    }

    pub(crate) fn replace<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut out = String::new();
        let mut copied = 0;
        for (start, end, replacement) in self.matches(text) {
            out.push_str(&text[copied..start]);
            out.push_str(&replacement);
            copied = end;
        }
        if copied == 0 {
            return Cow::Borrowed(text);
        }
        out.push_str(&text[copied..]);
        Cow::Owned(out)
    }

    /// Replaces in all strings and keys of a value; returns whether anything changed.
    pub(crate) fn replace_in_value(&self, value: &mut Value) -> bool {
        if self.is_empty() {
            return false;
        }
        match value {
            Value::String(text) => match self.replace(text) {
                Cow::Borrowed(_) => false,
                Cow::Owned(changed) => {
                    *text = changed;
                    true
                }
            },
            // Not `any`, which would stop at the first change.
            Value::Array(items) => {
                items.iter_mut().fold(false, |any, item| self.replace_in_value(item) | any)
            }
            Value::Object(fields) => {
                let mut any =
                    fields.iter_mut().fold(false, |any, (_, field)| self.replace_in_value(field) | any);
                let keys: Vec<String> =
                    fields.keys().filter(|key| matches!(self.replace(key), Cow::Owned(_))).cloned().collect();
                for key in keys {
                    if let Some(field) = fields.remove(&key) {
                        fields.insert(self.replace(&key).into_owned(), field);
                        any = true;
                    }
                }
                any
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }

    /// Replaces in a text that is split into chunks, also across chunk boundaries: the replacement goes into the chunk
    /// where the match starts. Returns whether anything changed.
    pub(crate) fn replace_in_chunks(&self, chunks: &mut [String]) -> bool {
        let whole: String = chunks.concat();
        let found: Vec<_> = self.matches(&whole).collect();
        if found.is_empty() {
            return false;
        }
        let mut found = found.into_iter().peekable();
        let mut from = 0;
        // End of the last replaced match.
        let mut done = 0;
        for chunk in chunks {
            let to = from + chunk.len();
            let mut out = String::with_capacity(chunk.len());
            let mut at = done.max(from);
            while let Some((start, end, replacement)) = found.next_if(|(start, ..)| *start < to) {
                out.push_str(&whole[at..start]);
                out.push_str(&replacement);
                at = end;
                done = end;
            }
            if at < to {
                out.push_str(&whole[at..to]);
            }
            *chunk = out;
            from = to;
        }
        true
    }
}

/// Escapes a text as in a JSON string, without the quotes.
fn escape(text: &str) -> String {
    let quoted = Value::String(text.to_owned()).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn replacer(pairs: &[(&str, &str)], boundary: MatchBoundary) -> TextReplacer {
        TextReplacer::new(pairs.iter().map(|(from, to)| ((*from).to_owned(), (*to).to_owned())), boundary)
    }

    #[test]
    fn file_names_match_as_a_whole_and_the_longest_match_wins() {
        let replacer = replacer(&[("/a", "A"), ("/a/b", "B"), ("", "never")], MatchBoundary::FileName);
        for (text, expected) in [
            ("/a/b/c /a/x /ab /a", "B/c A/x /ab A"),
            ("/a/b-c", "/a/b-c"),
            ("nothing", "nothing"),
            ("'/a/b'", "'B'"),
        ] {
            assert_eq!(replacer.replace(text), expected, "{text}");
        }
    }

    #[test]
    fn replace_in_value_covers_keys_and_escaped_strings() {
        let replacer = replacer(&[("a\"b", "[X]")], MatchBoundary::Anywhere);
        let mut value = json!({ "a\"b": ["x a\"b", 1, null], "in": "{\"k\":\"a\\\"b\"}" });
        assert!(replacer.replace_in_value(&mut value));
        assert_eq!(value, json!({ "[X]": ["x [X]", 1, null], "in": "{\"k\":\"[X]\"}" }));
        assert!(!replacer.replace_in_value(&mut value));
    }

    proptest! {
        #[test]
        fn replace_in_chunks_equals_replace(text in "[ab/ ]{0,30}", cuts in proptest::collection::vec(0_usize..31, 0..8)) {
            let replacer = replacer(&[("/a", "<one>"), ("/a/b", "<two>"), ("bb", "")], MatchBoundary::Anywhere);
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.sort_unstable();
            cuts.push(text.len());
            let mut from = 0;
            let mut chunks: Vec<String> = cuts
                .iter()
                .map(|&cut| {
                    let chunk = text[from..cut].to_owned();
                    from = cut;
                    chunk
                })
                .collect();
            let count = chunks.len();
            replacer.replace_in_chunks(&mut chunks);
            prop_assert_eq!(chunks.len(), count);
            prop_assert_eq!(chunks.concat(), replacer.replace(&text));
        }
    }
}
