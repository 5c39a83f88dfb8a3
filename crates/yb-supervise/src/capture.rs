//! What a child printed, kept in memory: both pipes in the order of arrival, up to a limit.

use std::borrow::Cow;

use crate::utf8;

/// Which of the two output pipes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pipe {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// The beginning of what a child printed.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Captured {
    bytes: Vec<u8>,
    /// Lengths of alternating runs of stdout and stderr in `bytes`, beginning with stdout.
    runs: Vec<u32>,
    limit: usize,
    dropped: u64,
}

impl Captured {
    pub(crate) fn with_limit(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    pub(crate) fn push(&mut self, pipe: Pipe, piece: &[u8]) {
        let room = if self.dropped > 0 { 0 } else { self.limit - self.bytes.len() };
        let kept = utf8::cut(piece, room);
        self.dropped += (piece.len() - kept.len()) as u64;
        if kept.is_empty() {
            return;
        }
        // An even number of runs ends with stderr.
        let ends_with = if self.runs.len().is_multiple_of(2) { Pipe::Stderr } else { Pipe::Stdout };
        match self.runs.last_mut() {
            Some(last) if ends_with == pipe => *last = last.saturating_add(kept.len() as u32),
            Some(_) => self.runs.push(kept.len() as u32),
            None if pipe == Pipe::Stdout => self.runs.push(kept.len() as u32),
            None => self.runs.extend([0, kept.len() as u32]),
        }
        self.bytes.extend_from_slice(kept);
    }

    /// Both pipes as they arrived, without any marker.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What came from stdout alone.
    pub fn stdout(&self) -> Vec<u8> {
        self.of(Pipe::Stdout)
    }

    /// What came from stderr alone.
    pub fn stderr(&self) -> Vec<u8> {
        self.of(Pipe::Stderr)
    }

    fn of(&self, pipe: Pipe) -> Vec<u8> {
        let mut result = Vec::new();
        let mut position = 0;
        for (index, run) in self.runs.iter().enumerate() {
            let end = position + *run as usize;
            if (index % 2 == 0) == (pipe == Pipe::Stdout) {
                result.extend_from_slice(&self.bytes[position..end]);
            }
            position = end;
        }
        result
    }

    /// How many bytes were read and not kept.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The marker that stands for the dropped bytes, if there were any.
    pub fn marker(&self) -> Option<String> {
        let total = self.bytes.len() as u64 + self.dropped;
        (self.dropped > 0).then(|| format!("[OUTPUT TRUNCATED: {} of {total} bytes kept]", self.bytes.len()))
    }

    /// Both pipes as text, the marker on a line of its own at the end if bytes were dropped.
    pub fn text(&self) -> Text<'_> {
        let mut text = Text::new(&self.bytes);
        if let Some(marker) = self.marker() {
            let separator = if text.text.is_empty() || text.text.ends_with('\n') { "" } else { "\n" };
            let whole = text.text.to_mut();
            whole.push_str(separator);
            whole.push_str(&marker);
        }
        text
    }
}

/// Bytes seen as text, and how much of it is not what was printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text<'a> {
    /// The text, with U+FFFD for every sequence that was not UTF-8.
    pub text: Cow<'a, str>,
    /// How many bytes were replaced.
    pub replaced_bytes: usize,
}

impl<'a> Text<'a> {
    /// Any bytes as text.
    pub fn new(bytes: &'a [u8]) -> Self {
        let replaced_bytes = bytes.utf8_chunks().map(|chunk| chunk.invalid().len()).sum();
        Self { text: String::from_utf8_lossy(bytes), replaced_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pipes_can_be_told_apart_again() {
        let mut captured = Captured::with_limit(100);
        for (pipe, piece) in [
            (Pipe::Stderr, "e1"),
            (Pipe::Stdout, "o1"),
            (Pipe::Stdout, "o2"),
            (Pipe::Stderr, "e2"),
            (Pipe::Stdout, "o3"),
        ] {
            captured.push(pipe, piece.as_bytes());
        }
        assert_eq!(captured.bytes(), b"e1o1o2e2o3");
        assert_eq!(captured.stdout(), b"o1o2o3");
        assert_eq!(captured.stderr(), b"e1e2");
        assert_eq!(captured.marker(), None);
    }

    #[test]
    fn the_limit_counts_both_pipes_and_spares_characters() {
        let mut captured = Captured::with_limit(6);
        captured.push(Pipe::Stdout, b"abc");
        captured.push(Pipe::Stderr, "xy€".as_bytes());
        // The cut at a character left a byte of room; nothing later may slip into it.
        captured.push(Pipe::Stdout, b"z");
        assert_eq!(captured.bytes(), b"abcxy");
        assert_eq!(captured.dropped(), 4);
        assert_eq!(captured.text().text, "abcxy\n[OUTPUT TRUNCATED: 5 of 9 bytes kept]");
    }

    #[test]
    fn text_says_what_it_replaced() {
        let text = Text::new(b"a\xff\xfeb");
        assert_eq!((text.text.as_ref(), text.replaced_bytes), ("a\u{fffd}\u{fffd}b", 2));
        assert_eq!(Text::new("€".as_bytes()).replaced_bytes, 0);
    }
}
