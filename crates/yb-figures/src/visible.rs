//! Foreign text made visible: control characters and invisible characters are written out, so that a terminal shows what a
//! text contains and never does what it says.
//!
//! The notation is that of Rust: `\u{1b}`, `\r`, and `\x9b` for a byte that is not UTF-8. Backslashes are not doubled, because
//! paths and patterns would become unreadable; an escape that a text spells out looks the same and does as little.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Writes out hidden characters; line breaks and tabs stay.
#[must_use]
pub fn visible(text: &str) -> Cow<'_, str> {
    escape(text, |c| matches!(c, '\n' | '\t'))
}

/// Writes out hidden characters of a text that must stay on its line: a line break becomes `\n`.
#[must_use]
pub fn visible_line(text: &str) -> Cow<'_, str> {
    escape(text, |c| c == '\t')
}

/// Writes out hidden characters and bytes that are not UTF-8; line breaks and tabs stay.
#[must_use]
pub fn visible_bytes(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        out.push_str(&visible(chunk.valid()));
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out
}

fn escape(text: &str, keep: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(|c| is_hidden(c) && !keep(c)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let (mut before, mut rest) = (None, text.chars());
    while let Some(c) = rest.next() {
        if !is_hidden(c) || keep(c) || is_joiner_in_use(before, c, rest.clone().next()) {
            out.push(c);
        } else {
            out.extend(c.escape_default());
        }
        before = Some(c);
    }
    Cow::Owned(out)
}

/// Returns whether a terminal acts on the character, hides it or reorders the text around it: C0, DEL and C1 controls, line
/// and paragraph separators, bidirectional controls, and characters without a width that change nothing visible.
#[must_use]
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}' | '\u{e0000}'..='\u{e0fff}')
}

/// Emoji sequences and several scripts need joiners; between ASCII characters they only hide.
fn is_joiner_in_use(before: Option<char>, c: char, after: Option<char>) -> bool {
    let joins = |c: Option<char>| c.is_some_and(|c| !c.is_ascii() && !is_hidden(c));
    matches!(c, '\u{200c}' | '\u{200d}') && joins(before) && joins(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_is_borrowed() {
        for text in ["", "plain", "ünïcödé 日本語 🎉", "a\tb\nc", "back\\slash"] {
            assert!(matches!(visible(text), Cow::Borrowed(same) if same == text));
        }
    }

    #[test]
    fn every_control_and_invisible_character_is_written_out() {
        let hidden =
            (0..0x20).chain(0x7f..0xa0).chain([0x2028, 0x2029, 0x200b, 0xfeff, 0x2060, 0xe0041, 0xfffe]);
        let bidi = (0x202a..=0x202e).chain(0x2066..=0x2069).chain([0x200e, 0x200f, 0x61c]);
        for code in hidden.chain(bidi) {
            let c = char::from_u32(code).unwrap();
            let shown = visible_line(&format!("a{c}b")).into_owned();
            if c == '\t' {
                assert_eq!(shown, "a\tb");
            } else {
                assert!(
                    shown.starts_with("a\\") && shown.is_ascii() && !shown.contains(c),
                    "{code:x}: {shown}"
                );
            }
        }
    }

    #[test]
    fn sequences_lose_their_effect_and_stay_readable() {
        for (text, expected) in [
            ("\u{1b}[2J\u{1b}]52;c;aGk=\u{7}", r"\u{1b}[2J\u{1b}]52;c;aGk=\u{7}"),
            ("failed\rpassed", r"failed\rpassed"),
            ("\u{9b}31m", r"\u{9b}31m"),
            ("two\nlines", "two\nlines"),
        ] {
            assert_eq!(visible(text), expected);
        }
        assert_eq!(visible_line("two\nlines"), r"two\nlines");
        assert_eq!(visible_bytes(b"a\x9b31m\xff\n\x1b"), "a\\x9b31m\\xff\n\\u{1b}");
    }

    #[test]
    fn joiners_stay_where_a_script_needs_them() {
        for text in ["👨\u{200d}👩\u{200d}👧", "می\u{200c}خواهم"] {
            assert_eq!(visible(text), text);
        }
        assert_eq!(visible("pass\u{200d}ed\u{200c}"), r"pass\u{200d}ed\u{200c}");
    }
}
