//! Replaces known texts by others: secrets by their names, the directories of one run by those of another.

use std::borrow::Cow;

use aho_corasick::{AhoCorasick, MatchKind};
use serde_json::Value;

/// Texts and what stands for them. The longest that fits wins.
#[derive(Debug, Clone, Default)]
pub(crate) struct Swap {
    finder: Option<AhoCorasick>,
    to: Vec<String>,
    ends: Ends,
}

/// Where a text may end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Ends {
    /// Anywhere.
    #[default]
    Anywhere,
    /// Where a file's name ends: `/a/b` is not in `/a/bc`.
    Names,
}

impl Swap {
    /// Each text also in the form that it has inside a JSON string. Empty texts are left out.
    pub(crate) fn new(pairs: impl IntoIterator<Item = (String, String)>, ends: Ends) -> Self {
        let mut from: Vec<String> = Vec::new();
        let mut to = Vec::new();
        for (text, stand_in) in pairs.into_iter().filter(|(text, _)| !text.is_empty()) {
            let escaped = escape(&text);
            if escaped != text {
                from.push(escaped);
                to.push(escape(&stand_in));
            }
            from.push(text);
            to.push(stand_in);
        }
        let finder = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&from);
        Self { finder: finder.ok().filter(|_| !from.is_empty()), to, ends }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.finder.is_none()
    }

    /// Where something is to be replaced: start, end and by what.
    fn found<'s>(&'s self, text: &'s str) -> impl Iterator<Item = (usize, usize, &'s str)> {
        let finds = self.finder.iter().flat_map(move |finder| finder.find_iter(text));
        finds
            .filter(move |found| {
                let next = text[found.end()..].chars().next();
                self.ends == Ends::Anywhere
                    || next.is_none_or(|next| !(next.is_alphanumeric() || next == '_' || next == '-'))
            })
            .map(|found| (found.start(), found.end(), self.to[found.pattern().as_usize()].as_str()))
    }

    pub(crate) fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut out = String::new();
        let mut copied = 0;
        for (start, end, stand_in) in self.found(text) {
            out.push_str(&text[copied..start]);
            out.push_str(stand_in);
            copied = end;
        }
        if copied == 0 {
            return Cow::Borrowed(text);
        }
        out.push_str(&text[copied..]);
        Cow::Owned(out)
    }

    /// In all strings and keys of a value; says whether there was anything.
    pub(crate) fn value(&self, value: &mut Value) -> bool {
        if self.is_empty() {
            return false;
        }
        match value {
            Value::String(text) => match self.text(text) {
                Cow::Borrowed(_) => false,
                Cow::Owned(changed) => {
                    *text = changed;
                    true
                }
            },
            // No short cut: every item has to be looked at.
            Value::Array(items) => items.iter_mut().fold(false, |any, item| self.value(item) | any),
            Value::Object(fields) => {
                let mut any = fields.iter_mut().fold(false, |any, (_, field)| self.value(field) | any);
                let keys: Vec<String> =
                    fields.keys().filter(|key| matches!(self.text(key), Cow::Owned(_))).cloned().collect();
                for key in keys {
                    if let Some(field) = fields.remove(&key) {
                        fields.insert(self.text(&key).into_owned(), field);
                        any = true;
                    }
                }
                any
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }

    /// In a text that is divided into pieces, also across their borders: the stand-in goes into the piece where the
    /// text began. Says whether there was anything.
    pub(crate) fn pieces(&self, pieces: &mut [String]) -> bool {
        let whole: String = pieces.concat();
        let found: Vec<_> = self.found(&whole).collect();
        if found.is_empty() {
            return false;
        }
        let mut found = found.into_iter().peekable();
        let mut from = 0;
        // Up to here the text is replaced already.
        let mut done = 0;
        for piece in pieces {
            let to = from + piece.len();
            let mut out = String::with_capacity(piece.len());
            let mut at = done.max(from);
            while let Some(&(start, end, stand_in)) = found.peek().filter(|(start, ..)| *start < to) {
                out.push_str(&whole[at..start]);
                out.push_str(stand_in);
                at = end;
                done = end;
                found.next();
            }
            if at < to {
                out.push_str(&whole[at..to]);
            }
            *piece = out;
            from = to;
        }
        true
    }
}

/// As it stands inside a JSON string, without the quotes.
fn escape(text: &str) -> String {
    let quoted = Value::String(text.to_owned()).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn swap(pairs: &[(&str, &str)], ends: Ends) -> Swap {
        Swap::new(pairs.iter().map(|(from, to)| ((*from).to_owned(), (*to).to_owned())), ends)
    }

    #[test]
    fn names_are_replaced_whole_and_the_longest_wins() {
        let swap = swap(&[("/a", "A"), ("/a/b", "B"), ("", "never")], Ends::Names);
        for (text, expected) in [
            ("/a/b/c /a/x /ab /a", "B/c A/x /ab A"),
            ("/a/b-c", "/a/b-c"),
            ("nothing", "nothing"),
            ("'/a/b'", "'B'"),
        ] {
            assert_eq!(swap.text(text), expected, "{text}");
        }
    }

    #[test]
    fn values_change_in_keys_and_in_escaped_strings() {
        let swap = swap(&[("a\"b", "[X]")], Ends::Anywhere);
        let mut value = json!({ "a\"b": ["x a\"b", 1, null], "in": "{\"k\":\"a\\\"b\"}" });
        assert!(swap.value(&mut value));
        assert_eq!(value, json!({ "[X]": ["x [X]", 1, null], "in": "{\"k\":\"[X]\"}" }));
        assert!(!swap.value(&mut value));
    }

    proptest! {
        #[test]
        fn pieces_change_like_the_whole(text in "[ab/ ]{0,30}", cuts in proptest::collection::vec(0_usize..31, 0..8)) {
            let swap = swap(&[("/a", "<one>"), ("/a/b", "<two>"), ("bb", "")], Ends::Anywhere);
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.sort_unstable();
            cuts.push(text.len());
            let mut from = 0;
            let mut pieces: Vec<String> = cuts
                .iter()
                .map(|&cut| {
                    let piece = text[from..cut].to_owned();
                    from = cut;
                    piece
                })
                .collect();
            let count = pieces.len();
            swap.pieces(&mut pieces);
            prop_assert_eq!(pieces.len(), count);
            prop_assert_eq!(pieces.concat(), swap.text(&text));
        }
    }
}
