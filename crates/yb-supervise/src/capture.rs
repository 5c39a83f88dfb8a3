//! Captured output in memory: both pipes in order of arrival, up to a limit.

use std::borrow::Cow;

use crate::utf8;

/// One of the two output pipes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pipe {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// The captured beginning of a child's output.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct CapturedOutput {
    bytes: Vec<u8>,
    /// Lengths of alternating runs of stdout and stderr in `bytes`, starting with stdout.
    runs: Vec<u32>,
    limit: usize,
    dropped: u64,
}

impl CapturedOutput {
    pub(crate) fn with_limit(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    pub(crate) fn push(&mut self, pipe: Pipe, chunk: &[u8]) {
        let room = if self.dropped > 0 { 0 } else { self.limit - self.bytes.len() };
        let kept = utf8::cut(chunk, room);
        self.dropped += (chunk.len() - kept.len()) as u64;
        if kept.is_empty() {
            return;
        }
        // With an even number of runs, the last one is stderr.
        let ends_with = if self.runs.len().is_multiple_of(2) { Pipe::Stderr } else { Pipe::Stdout };
        match self.runs.last_mut() {
            Some(last) if ends_with == pipe => *last = last.saturating_add(kept.len() as u32),
            Some(_) => self.runs.push(kept.len() as u32),
            None if pipe == Pipe::Stdout => self.runs.push(kept.len() as u32),
            None => self.runs.extend([0, kept.len() as u32]),
        }
        self.bytes.extend_from_slice(kept);
    }

    /// Returns both pipes in order of arrival, without a truncation marker.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns both pipes in order of arrival, without a copy.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Returns the bytes of stdout.
    pub fn stdout(&self) -> Vec<u8> {
        self.bytes_from(Pipe::Stdout)
    }

    /// Returns the bytes of stderr.
    pub fn stderr(&self) -> Vec<u8> {
        self.bytes_from(Pipe::Stderr)
    }

    fn bytes_from(&self, pipe: Pipe) -> Vec<u8> {
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

    /// Returns how many bytes were read but not kept.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns the truncation marker, if bytes were dropped.
    pub fn marker(&self) -> Option<String> {
        let total = self.bytes.len() as u64 + self.dropped;
        (self.dropped > 0).then(|| format!("[OUTPUT TRUNCATED: {} of {total} bytes kept]", self.bytes.len()))
    }

    /// Returns both pipes as text, with the truncation marker on the last line if bytes were dropped.
    pub fn text(&self) -> LossyText<'_> {
        let mut text = LossyText::new(&self.bytes);
        if let Some(marker) = self.marker() {
            let separator = if text.text.is_empty() || text.text.ends_with('\n') { "" } else { "\n" };
            let whole = text.text.to_mut();
            whole.push_str(separator);
            whole.push_str(&marker);
        }
        text
    }
}

/// Bytes decoded as UTF-8, lossily.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LossyText<'a> {
    /// The text, with U+FFFD for every invalid sequence.
    pub text: Cow<'a, str>,
    /// Number of invalid bytes that were replaced.
    pub replaced_bytes: usize,
}

impl<'a> LossyText<'a> {
    /// Decodes bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        let replaced_bytes = bytes.utf8_chunks().map(|chunk| chunk.invalid().len()).sum();
        Self { text: String::from_utf8_lossy(bytes), replaced_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipes_are_separable_after_capture() {
        let mut captured = CapturedOutput::with_limit(100);
        for (pipe, chunk) in [
            (Pipe::Stderr, "e1"),
            (Pipe::Stdout, "o1"),
            (Pipe::Stdout, "o2"),
            (Pipe::Stderr, "e2"),
            (Pipe::Stdout, "o3"),
        ] {
            captured.push(pipe, chunk.as_bytes());
        }
        assert_eq!(captured.bytes(), b"e1o1o2e2o3");
        assert_eq!(captured.stdout(), b"o1o2o3");
        assert_eq!(captured.stderr(), b"e1e2");
        assert_eq!(captured.marker(), None);
    }

    #[test]
    fn limit_covers_both_pipes_and_keeps_characters_whole() {
        let mut captured = CapturedOutput::with_limit(6);
        captured.push(Pipe::Stdout, b"abc");
        captured.push(Pipe::Stderr, "xy€".as_bytes());
        // Cutting at a character boundary left one byte of room; later output must not fill it.
        captured.push(Pipe::Stdout, b"z");
        assert_eq!(captured.bytes(), b"abcxy");
        assert_eq!(captured.dropped(), 4);
        assert_eq!(captured.text().text, "abcxy\n[OUTPUT TRUNCATED: 5 of 9 bytes kept]");
    }

    #[test]
    fn lossy_text_counts_replaced_bytes() {
        let text = LossyText::new(b"a\xff\xfeb");
        assert_eq!((text.text.as_ref(), text.replaced_bytes), ("a\u{fffd}\u{fffd}b", 2));
        assert_eq!(LossyText::new("€".as_bytes()).replaced_bytes, 0);
    }
}
