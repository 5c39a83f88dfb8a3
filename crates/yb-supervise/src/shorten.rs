//! Shortens a JSON line that is too long to be parsed in bounded memory: long strings lose their ends, and the structure stays.

use std::io::{self, BufRead};

/// Limits of a line that is shortened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineLimits {
    /// The longest string, in bytes without escapes. The rest is replaced by a note with the length, see [`full_length`].
    pub string: usize,
    /// The most bytes outside of strings. Values take many times their text in memory.
    pub structure: usize,
    /// The longest shortened line.
    pub line: usize,
}

/// The note in place of the end of a string, before and after the numbers.
const NOTE: (&str, &str, &str) = ("\n[CONTENT TRUNCATED: ", " of ", " bytes kept]");

/// Returns the note in place of the end of a text.
#[must_use]
pub fn truncation_note(kept: usize, length: usize) -> String {
    format!("{}{kept}{}{length}{}", NOTE.0, NOTE.1, NOTE.2)
}

/// Returns the length of a text before it was shortened: by the note at its end, if it has one.
#[must_use]
pub fn full_length(text: &str) -> usize {
    let noted = || {
        let (_, numbers) = text.strip_suffix(NOTE.2)?.rsplit_once(NOTE.0)?;
        numbers.split_once(NOTE.1)?.1.parse().ok()
    };
    noted().unwrap_or(text.len())
}

/// Shortens one line, chunk by chunk.
#[derive(Debug)]
pub(crate) struct LineShortener {
    limits: LineLimits,
    out: Vec<u8>,
    state: State,
    structure: usize,
    /// Decoded bytes of the current string, and how many of them are kept.
    length: usize,
    kept: usize,
    is_cut: bool,
    /// The code unit of the current `\u` escape; the previous one if it was the first half of a character.
    unit: u32,
    half_open: bool,
    /// All bytes of the line.
    total: u64,
    is_too_long: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Outside,
    Text,
    /// After a backslash.
    Escape,
    /// In the digits of `\uXXXX`; how many are left.
    Unicode(u8),
}

impl LineShortener {
    pub(crate) fn new(limits: LineLimits) -> Self {
        Self {
            limits,
            out: Vec::new(),
            state: State::Outside,
            structure: 0,
            length: 0,
            kept: 0,
            is_cut: false,
            unit: 0,
            half_open: false,
            total: 0,
            is_too_long: false,
        }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let mut rest = bytes;
        while let Some((&byte, after)) = rest.split_first() {
            if self.is_too_long {
                return;
            }
            // Fast path: plain characters of a string that is cut already.
            if self.state == State::Text && self.is_cut {
                let plain = memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
                if plain > 0 {
                    self.length += plain;
                    rest = rest.get(plain..).unwrap_or_default();
                    continue;
                }
            }
            self.take(byte);
            rest = after;
        }
    }

    fn take(&mut self, byte: u8) {
        match self.state {
            State::Outside => {
                self.structure += 1;
                self.emit(byte);
                if byte == b'"' {
                    self.state = State::Text;
                    (self.length, self.kept, self.is_cut, self.half_open) = (0, 0, false, false);
                }
            }
            State::Text => match byte {
                b'"' => {
                    if self.is_cut {
                        let note = truncation_note(self.kept, self.length).replace('\n', "\\n");
                        note.bytes().for_each(|byte| self.emit(byte));
                    }
                    self.structure += 1;
                    self.emit(byte);
                    self.state = State::Outside;
                }
                b'\\' => {
                    self.cut_if_full();
                    self.state = State::Escape;
                    self.emit_text(byte);
                }
                _ => {
                    // Inside of a character nothing is cut.
                    if byte & 0b1100_0000 != 0b1000_0000 {
                        self.cut_if_full();
                        self.half_open = false;
                    }
                    self.count(1);
                    self.emit_text(byte);
                }
            },
            State::Escape => {
                self.emit_text(byte);
                if byte == b'u' {
                    (self.state, self.unit) = (State::Unicode(4), 0);
                } else {
                    self.half_open = false;
                    self.count(1);
                    self.state = State::Text;
                }
            }
            State::Unicode(left) => {
                self.emit_text(byte);
                self.unit = self.unit << 4 | char::from(byte).to_digit(16).unwrap_or_default();
                self.state = State::Unicode(left - 1);
                if left == 1 {
                    let is_second_half = self.half_open;
                    self.half_open = !is_second_half && (0xd800..0xdc00).contains(&self.unit);
                    self.count(match self.unit {
                        _ if self.half_open || is_second_half => 2,
                        0..0x80 => 1,
                        0x80..0x800 => 2,
                        _ => 3,
                    });
                    self.state = State::Text;
                }
            }
        }
        if self.structure > self.limits.structure || self.out.len() > self.limits.line {
            self.is_too_long = true;
            self.out = Vec::new();
        }
    }

    /// Ends the kept part of a string at its limit, between two characters.
    fn cut_if_full(&mut self) {
        self.is_cut |= self.length >= self.limits.string && !self.half_open;
    }

    fn count(&mut self, bytes: usize) {
        self.length += bytes;
        if !self.is_cut {
            self.kept = self.length;
        }
    }

    fn emit_text(&mut self, byte: u8) {
        if !self.is_cut {
            self.emit(byte);
        }
    }

    fn emit(&mut self, byte: u8) {
        self.out.push(byte);
    }

    /// Returns the shortened line, if it fits, and the length of the whole line.
    pub(crate) fn finish(self) -> (Option<Vec<u8>>, u64) {
        ((!self.is_too_long).then_some(self.out), self.total)
    }
}

/// Reads the lines of a recorded stream, as a running child's are read: longer ones than the limit are shortened, or skipped.
#[derive(Debug)]
pub struct LineReader {
    limit: usize,
    limits: LineLimits,
}

impl LineReader {
    /// Creates a reader with the limits that the stream was read with.
    #[must_use]
    pub fn new(limit: usize, limits: LineLimits) -> Self {
        Self { limit, limits }
    }

    /// Returns the next line that can be read, without its newline; `None` at the end.
    ///
    /// # Errors
    /// When reading fails.
    pub fn next(&mut self, input: &mut dyn BufRead) -> io::Result<Option<Vec<u8>>> {
        let (mut line, mut shortener) = (Vec::new(), None::<LineShortener>);
        loop {
            let chunk = match input.fill_buf() {
                Ok(chunk) => chunk,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let newline = memchr::memchr(b'\n', chunk);
            let part = chunk.get(..newline.unwrap_or(chunk.len())).unwrap_or_default();
            let is_end = chunk.is_empty();
            match &mut shortener {
                Some(shortener) => shortener.push(part),
                None if line.len() + part.len() <= self.limit => line.extend_from_slice(part),
                None => {
                    let shortener = shortener.insert(LineShortener::new(self.limits));
                    shortener.push(&std::mem::take(&mut line));
                    shortener.push(part);
                }
            }
            let used = part.len() + usize::from(newline.is_some());
            input.consume(used);
            if newline.is_none() && !is_end {
                continue;
            }
            match shortener.take().map(LineShortener::finish) {
                None if is_end && line.is_empty() => return Ok(None),
                None => return Ok(Some(line)),
                Some((Some(line), _)) => return Ok(Some(line)),
                Some((None, _)) if is_end => return Ok(None),
                Some((None, _)) => line.clear(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: LineLimits = LineLimits { string: 8, structure: 60, line: 400 };

    fn shortened(line: &str, chunk: usize) -> Option<String> {
        let mut shortener = LineShortener::new(LIMITS);
        line.as_bytes().chunks(chunk).for_each(|chunk| shortener.push(chunk));
        let (out, total) = shortener.finish();
        assert_eq!(total, line.len() as u64);
        out.map(|out| String::from_utf8(out).unwrap())
    }

    #[test]
    fn only_long_strings_lose_their_ends() {
        for (line, expected) in [
            (r#"{"a":"12345678","b":[1,{"c":"x\"y"}]}"#.to_owned(), None),
            (
                format!(r#"{{"a":"{}","n":1}}"#, "x".repeat(100)),
                Some((r#"{"a":"xxxxxxxx\n[CONTENT TRUNCATED: 8 of 100 bytes kept]","n":1}"#, "/a", 100)),
            ),
            // Characters stay whole, escaped or not; a quote in an escape ends nothing.
            (
                r#"{"a":"1234567é\\\"tail"}"#.to_owned(),
                Some((r#"{"a":"1234567é\n[CONTENT TRUNCATED: 9 of 15 bytes kept]"}"#, "/a", 15)),
            ),
            (
                r#"{"a":"1234567\ud83e\udd80rest"}"#.to_owned(),
                Some((r#"{"a":"1234567\ud83e\udd80\n[CONTENT TRUNCATED: 11 of 15 bytes kept]"}"#, "/a", 15)),
            ),
        ] {
            for chunk in [1, 3, 1000] {
                let got = shortened(&line, chunk).unwrap();
                assert_eq!(got, expected.map_or(line.as_str(), |(text, _, _)| text));
                let value: serde_json::Value = serde_json::from_str(&got).unwrap();
                if let Some((_, pointer, length)) = expected {
                    assert_eq!(full_length(value.pointer(pointer).unwrap().as_str().unwrap()), length);
                }
            }
        }
        assert_eq!(full_length("plain"), 5);
    }

    #[test]
    fn recorded_lines_are_read_like_those_of_a_child() {
        let stream = format!("a\n{{\"a\":\"{}\"}}\n{}\n\nlast", "x".repeat(50), "[".repeat(100));
        for capacity in [1, 7, 1000] {
            let mut input = io::BufReader::with_capacity(capacity, stream.as_bytes());
            let mut reader = LineReader::new(10, LIMITS);
            let mut lines = Vec::new();
            while let Some(line) = reader.next(&mut input).unwrap() {
                lines.push(String::from_utf8(line).unwrap());
            }
            let short = r#"{"a":"xxxxxxxx\n[CONTENT TRUNCATED: 8 of 50 bytes kept]"}"#;
            assert_eq!(lines, ["a", short, "", "last"]);
        }
    }

    #[test]
    fn too_much_structure_is_no_line() {
        assert_eq!(shortened(&format!("[{}0]", "0,".repeat(40)), 7), None);
        let strings = vec![r#""1234567""#; 50].join(",");
        assert_eq!(shortened(&format!("[{strings}]"), 7), None);
    }
}
