//! Short forms of long texts.

/// Returns the beginning of a text, with an ellipsis if characters were cut off.
pub(crate) fn shorten(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Joins the lines of a text with single spaces.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shorten_cuts_at_characters() {
        assert_eq!(shorten("äöü", 2), "äö…");
        assert_eq!(shorten("äöü", 3), "äöü");
        assert_eq!(one_line(" a\n  b "), "a b");
    }
}
