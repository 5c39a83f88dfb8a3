//! JSON for a terminal: the same value, with characters that a terminal acts on as `\\u` escapes.

use std::fmt::Write as _;

use yb_figures::is_hidden;

/// Escapes hidden characters. In JSON these occur in strings only, where an escape is the same value; the line breaks of
/// indented JSON are outside of strings, in which they are always escaped.
pub(crate) fn escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if is_hidden(c) && c != '\n' {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::escaped;

    #[test]
    fn escaped_json_is_the_same_value_without_hidden_characters() {
        let text: String =
            (0..0x500).chain(0x2000..0x2100).chain(0xe0000..0xe0100).filter_map(char::from_u32).collect();
        let value = json!({ "text": text, "list": [1, "\u{1b}]52;c;x\u{7}"] });
        for rendered in [value.to_string(), format!("{value:#}")] {
            let shown = escaped(&rendered);
            assert!(!shown.contains(|c| yb_figures::is_hidden(c) && c != '\n'));
            assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), value);
        }
    }
}
