//! Splits a byte stream into lines, independent of chunk boundaries, and parses each line.

use super::message::Message;

/// The maximum length of an excerpt in an error.
const EXCERPT: usize = 200;

/// A buffer that grew beyond this for one long line is freed afterwards.
const KEPT_CAPACITY: usize = 1 << 20;

/// The result of parsing one line.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Frame {
    /// A message.
    Message(Message),
    /// A line that is not a message: debug output of the CLI, or an unfinished last line.
    Skipped(SkippedLine),
    /// A malformed message.
    Failed(FrameError),
}

impl Frame {
    /// Returns the message, if any.
    #[must_use]
    pub fn into_message(self) -> Option<Message> {
        match self {
            Self::Message(message) => Some(message),
            _ => None,
        }
    }
}

/// A line that is not a message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkippedLine {
    /// The line number, from 1.
    pub line: u64,
    /// The length in bytes.
    pub bytes: u64,
    /// The beginning of the line.
    pub excerpt: String,
    /// Why it was skipped.
    pub reason: SkipReason,
}

/// Why a line was skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SkipReason {
    /// It does not start with `{`.
    NotJson,
    /// The output ended before the line did.
    Truncated,
}

/// The error for a malformed message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The line starts with `{` and is not valid JSON.
    #[error("line {line} of the output is malformed ({reason}): `{excerpt}`")]
    Malformed {
        /// The line number, from 1.
        line: u64,
        /// The problem.
        reason: String,
        /// The beginning of the line.
        excerpt: String,
    },
    /// The line exceeds the limit and was discarded.
    #[error("line {line} of the output is longer than the limit of {limit} bytes: `{excerpt}`")]
    TooLong {
        /// The line number, from 1.
        line: u64,
        /// The limit.
        limit: usize,
        /// The beginning of the line.
        excerpt: String,
    },
}

/// Splits a byte stream into lines and parses each of them.
///
/// ```
/// use yb_claude::{Frame, Framer};
///
/// let mut framer = Framer::new();
/// framer.push(br#"{"type":"keep_"#);
/// assert!(framer.next().is_none());
/// framer.push(b"alive\"}\r\n[debug] hello\n");
/// assert!(matches!(framer.next(), Some(Frame::Message(message)) if message.kind() == "keep_alive"));
/// assert!(matches!(framer.next(), Some(Frame::Skipped(line)) if line.excerpt == "[debug] hello"));
/// framer.end();
/// assert!(framer.next().is_none());
/// ```
///
/// It buffers at most one unfinished line, up to the limit, and the chunks pushed since `next` last returned `None`.
#[derive(Debug)]
pub struct Framer {
    limit: usize,
    buffer: Vec<u8>,
    /// The start of the next line.
    start: usize,
    /// The end of the range that contains no newline.
    scanned: usize,
    /// The number of completed lines.
    lines: u64,
    oversized: OversizedLine,
    ended: bool,
}

/// The state of a line that exceeds the limit.
#[derive(Debug)]
enum OversizedLine {
    /// The current line is within the limit.
    No,
    /// The line was reported; the rest is dropped.
    Reported,
    /// The line is not a message; its bytes are counted, and it is reported at its end.
    Counting { bytes: u64, excerpt: String },
}

impl Framer {
    /// The default line limit: 64 MiB.
    pub const DEFAULT_LIMIT: usize = 64 << 20;

    /// Creates a framer with the default limit.
    #[must_use]
    pub fn new() -> Self {
        Self::with_limit(Self::DEFAULT_LIMIT)
    }

    /// Creates a framer that accepts lines of up to `limit` bytes.
    #[must_use]
    pub fn with_limit(limit: usize) -> Self {
        Self {
            limit,
            buffer: Vec::new(),
            start: 0,
            scanned: 0,
            lines: 0,
            oversized: OversizedLine::No,
            ended: false,
        }
    }

    /// Appends bytes. [`Framer::next`] then returns the completed lines, until it returns `None`.
    pub fn push(&mut self, chunk: &[u8]) {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.scanned -= self.start;
            self.start = 0;
        }
        if self.buffer.is_empty() && self.buffer.capacity() > KEPT_CAPACITY {
            self.buffer = Vec::new();
        }
        self.buffer.extend_from_slice(chunk);
    }

    /// Marks the end of the stream, so that [`Framer::next`] also returns a last line without a newline.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// Returns the number of completed lines, including blank ones.
    #[must_use]
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Handles a complete line.
    fn complete(&mut self, end: usize, next: usize) -> Option<Frame> {
        let (start, number) = (self.start, self.lines + 1);
        self.start = next;
        self.scanned = next;
        self.lines = number;
        let line = &self.buffer[start..end];
        match std::mem::replace(&mut self.oversized, OversizedLine::No) {
            OversizedLine::Reported => None,
            OversizedLine::Counting { bytes, excerpt } => {
                let bytes = bytes + line.len() as u64;
                Some(Frame::Skipped(SkippedLine {
                    line: number,
                    bytes,
                    excerpt,
                    reason: SkipReason::NotJson,
                }))
            }
            OversizedLine::No if line.len() > self.limit => Some(
                too_long(line, self.limit, number)
                    .unwrap_or_else(|| skipped(line, self.limit, number, SkipReason::NotJson)),
            ),
            OversizedLine::No => parse_line(line, self.limit, number, next == end),
        }
    }

    /// Handles an unfinished line, which may exceed the limit already.
    fn check_length(&mut self) -> Option<Frame> {
        let (number, limit) = (self.lines + 1, self.limit);
        let line = &self.buffer[self.start..];
        let mut frame = None;
        match &mut self.oversized {
            OversizedLine::Reported => {}
            OversizedLine::Counting { bytes, .. } => *bytes += line.len() as u64,
            OversizedLine::No if line.len() <= limit => return None,
            OversizedLine::No => {
                frame = too_long(line, limit, number);
                self.oversized = match frame {
                    Some(_) => OversizedLine::Reported,
                    None => {
                        OversizedLine::Counting { bytes: line.len() as u64, excerpt: excerpt(line, limit) }
                    }
                };
            }
        }
        self.start = self.buffer.len();
        self.scanned = self.start;
        frame
    }
}

impl Default for Framer {
    fn default() -> Self {
        Self::new()
    }
}

impl Iterator for Framer {
    type Item = Frame;

    /// Returns the next frame; `None` until more bytes are pushed.
    fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some(found) = memchr::memchr(b'\n', &self.buffer[self.scanned..]) {
                let end = self.scanned + found;
                if let Some(frame) = self.complete(end, end + 1) {
                    return Some(frame);
                }
                continue;
            }
            self.scanned = self.buffer.len();
            if let Some(frame) = self.check_length() {
                return Some(frame);
            }
            let waiting = self.start < self.buffer.len() || !matches!(self.oversized, OversizedLine::No);
            if !self.ended || !waiting {
                return None;
            }
            let end = self.buffer.len();
            return self.complete(end, end);
        }
    }
}

fn parse_line(line: &[u8], limit: usize, number: u64, unfinished: bool) -> Option<Frame> {
    let line = line.trim_ascii();
    match line.first() {
        None => None,
        Some(b'{') => Some(match Message::parse(line) {
            Ok(message) => Frame::Message(message),
            Err(_) if unfinished => skipped(line, limit, number, SkipReason::Truncated),
            Err(error) => Frame::Failed(FrameError::Malformed {
                line: number,
                reason: error.reason,
                excerpt: excerpt(line, limit),
            }),
        }),
        Some(_) => Some(skipped(line, limit, number, SkipReason::NotJson)),
    }
}

fn skipped(line: &[u8], limit: usize, number: u64, reason: SkipReason) -> Frame {
    Frame::Skipped(SkippedLine {
        line: number,
        bytes: line.len() as u64,
        excerpt: excerpt(line, limit),
        reason,
    })
}

/// Returns the error for a line over the limit; `None` if it does not start with `{` within the limit.
fn too_long(line: &[u8], limit: usize, number: u64) -> Option<Frame> {
    let within = line.get(..limit)?.trim_ascii_start();
    (within.first() == Some(&b'{'))
        .then(|| Frame::Failed(FrameError::TooLong { line: number, limit, excerpt: excerpt(line, limit) }))
}

/// Returns the beginning of a line, never more than the limit, so that it does not depend on chunk boundaries.
pub(crate) fn excerpt(line: &[u8], limit: usize) -> String {
    let shown = &line[..line.len().min(limit).min(EXCERPT)];
    let text = String::from_utf8_lossy(shown);
    // Truncation may have split a character.
    let text =
        if shown.len() < line.len() { text.trim_end_matches(char::REPLACEMENT_CHARACTER) } else { &text };
    text.trim().to_owned()
}
