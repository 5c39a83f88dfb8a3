//! JSON for a terminal: the same value, with characters that a terminal acts on as `\\u` escapes.

use std::fmt::Write as _;
use std::io;

use yb_figures::is_hidden;

/// Escapes hidden characters. In JSON these occur in strings only, where an escape is the same value; the line breaks of
/// indented JSON are outside of strings, in which they are always escaped.
pub(crate) fn escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    escape_into(json, &mut out);
    out
}

fn escape_into(json: &str, out: &mut String) {
    for c in json.chars() {
        if is_hidden(c) && c != '\n' {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
}

/// Escapes JSON like [`escaped`] while it is written.
pub(crate) struct EscapedJson<W> {
    out: W,
    /// The beginning of a character.
    rest: Vec<u8>,
}

impl<W: io::Write> EscapedJson<W> {
    pub(crate) fn new(out: W) -> Self {
        Self { out, rest: Vec::new() }
    }

    /// Flushes the output.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl<W: io::Write> io::Write for EscapedJson<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.rest.extend_from_slice(bytes);
        let valid = match std::str::from_utf8(&self.rest) {
            Ok(text) => text.len(),
            // Only whole characters; the next call completes the last one.
            Err(error) => error.valid_up_to(),
        };
        let text = std::str::from_utf8(self.rest.get(..valid).unwrap_or_default()).unwrap_or_default();
        let mut escaped = String::with_capacity(text.len());
        escape_into(text, &mut escaped);
        self.out.write_all(escaped.as_bytes())?;
        self.rest.drain(..valid);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use std::io::Write as _;

    use super::{EscapedJson, escaped};

    #[test]
    fn escaped_json_is_the_same_value_without_hidden_characters() {
        let text: String =
            (0..0x500).chain(0x2000..0x2100).chain(0xe0000..0xe0100).filter_map(char::from_u32).collect();
        let value = json!({ "text": text, "list": [1, "\u{1b}]52;c;x\u{7}"] });
        for rendered in [value.to_string(), format!("{value:#}")] {
            let shown = escaped(&rendered);
            let mut written = Vec::new();
            let mut escaping = EscapedJson::new(&mut written);
            rendered.as_bytes().chunks(3).for_each(|chunk| escaping.write_all(chunk).unwrap());
            escaping.finish().unwrap();
            assert_eq!(written, shown.as_bytes());
            assert!(!shown.contains(|c| yb_figures::is_hidden(c) && c != '\n'));
            assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), value);
        }
    }
}
