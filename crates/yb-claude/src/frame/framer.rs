//! Bytes to messages: lines are cut on bytes, wherever the chunks end, and every line becomes one item or none.

use super::message::Message;

/// How much of a line is shown when it could not be read.
const EXCERPT: usize = 200;

/// A buffer that grew beyond this for one long line is given back afterwards.
const KEPT_CAPACITY: usize = 1 << 20;

/// What came out of one line.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Frame {
    /// A message.
    Message(Message),
    /// A line that is no message and harms nothing: debug output of the CLI, or a line that was never finished.
    Skipped(SkippedLine),
    /// A line that should have been a message.
    Failed(FrameError),
}

impl Frame {
    /// The message, if it is one.
    #[must_use]
    pub fn into_message(self) -> Option<Message> {
        match self {
            Self::Message(message) => Some(message),
            _ => None,
        }
    }
}

/// A line that is no message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkippedLine {
    /// Its number, from 1.
    pub line: u64,
    /// Its length.
    pub bytes: u64,
    /// Its beginning.
    pub excerpt: String,
    /// Why it was skipped.
    pub why: Skip,
}

/// Why a line was skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Skip {
    /// It does not begin like a message.
    NotJson,
    /// The output ended in the middle of it.
    Truncated,
}

/// A line that should have been a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// It begins like JSON and is not.
    #[error("line {line} of the output is malformed ({reason}): `{excerpt}`")]
    Malformed {
        /// Its number, from 1.
        line: u64,
        /// What is wrong.
        reason: String,
        /// Its beginning.
        excerpt: String,
    },
    /// It is longer than the limit, and what followed the limit was thrown away.
    #[error("line {line} of the output is longer than the limit of {limit} bytes: `{excerpt}`")]
    TooLong {
        /// Its number, from 1.
        line: u64,
        /// The limit.
        limit: usize,
        /// Its beginning.
        excerpt: String,
    },
}

/// Cuts a stream of bytes into lines and reads each of them.
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
/// What waits in it is never more than one unfinished line, at most the limit, and the chunks that were pushed since
/// `next` last gave `None`.
#[derive(Debug)]
pub struct Framer {
    limit: usize,
    buffer: Vec<u8>,
    /// Where the line begins that comes next.
    start: usize,
    /// Up to where no end of it was found.
    scanned: usize,
    /// The lines that are done.
    lines: u64,
    over: Over,
    ended: bool,
}

/// What happens to the rest of a line that is longer than the limit.
#[derive(Debug)]
enum Over {
    /// There is none.
    No,
    /// It was reported; the rest is dropped.
    Reported,
    /// It is no message; it is counted, and reported at its end.
    Counting { bytes: u64, excerpt: String },
}

impl Framer {
    /// The longest line that is accepted, unless another limit is given: 64 MiB.
    pub const DEFAULT_LIMIT: usize = 64 << 20;

    /// A framer with the usual limit.
    #[must_use]
    pub fn new() -> Self {
        Self::with_limit(Self::DEFAULT_LIMIT)
    }

    /// A framer that accepts lines of up to `limit` bytes.
    #[must_use]
    pub fn with_limit(limit: usize) -> Self {
        Self { limit, buffer: Vec::new(), start: 0, scanned: 0, lines: 0, over: Over::No, ended: false }
    }

    /// Takes the next bytes. What they complete is then given by [`Framer::next`], until it gives `None`.
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

    /// Says that no more bytes come, so that [`Framer::next`] also gives a last line without a line end.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// How many lines were completed so far, blank ones included.
    #[must_use]
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// A line of which all is there.
    fn complete(&mut self, end: usize, next: usize) -> Option<Frame> {
        let (start, number) = (self.start, self.lines + 1);
        self.start = next;
        self.scanned = next;
        self.lines = number;
        let line = &self.buffer[start..end];
        match std::mem::replace(&mut self.over, Over::No) {
            Over::Reported => None,
            Over::Counting { bytes, excerpt } => {
                let bytes = bytes + line.len() as u64;
                Some(Frame::Skipped(SkippedLine { line: number, bytes, excerpt, why: Skip::NotJson }))
            }
            Over::No if line.len() > self.limit => Some(
                too_long(line, self.limit, number)
                    .unwrap_or_else(|| skipped(line, self.limit, number, Skip::NotJson)),
            ),
            Over::No => read(line, self.limit, number, next == end),
        }
    }

    /// Part of a line that is too long already.
    fn cut(&mut self) -> Option<Frame> {
        let (number, limit) = (self.lines + 1, self.limit);
        let line = &self.buffer[self.start..];
        let mut frame = None;
        match &mut self.over {
            Over::Reported => {}
            Over::Counting { bytes, .. } => *bytes += line.len() as u64,
            Over::No if line.len() <= limit => return None,
            Over::No => {
                frame = too_long(line, limit, number);
                self.over = match frame {
                    Some(_) => Over::Reported,
                    None => Over::Counting { bytes: line.len() as u64, excerpt: excerpt(line, limit) },
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

    /// The next item; `None` until more bytes are pushed.
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
            if let Some(frame) = self.cut() {
                return Some(frame);
            }
            let waiting = self.start < self.buffer.len() || !matches!(self.over, Over::No);
            if !self.ended || !waiting {
                return None;
            }
            let end = self.buffer.len();
            return self.complete(end, end);
        }
    }
}

fn read(line: &[u8], limit: usize, number: u64, unfinished: bool) -> Option<Frame> {
    let line = line.trim_ascii();
    match line.first() {
        None => None,
        Some(b'{') => Some(match Message::parse(line) {
            Ok(message) => Frame::Message(message),
            Err(_) if unfinished => skipped(line, limit, number, Skip::Truncated),
            Err(error) => Frame::Failed(FrameError::Malformed {
                line: number,
                reason: error.reason,
                excerpt: excerpt(line, limit),
            }),
        }),
        Some(_) => Some(skipped(line, limit, number, Skip::NotJson)),
    }
}

fn skipped(line: &[u8], limit: usize, number: u64, why: Skip) -> Frame {
    Frame::Skipped(SkippedLine { line: number, bytes: line.len() as u64, excerpt: excerpt(line, limit), why })
}

/// The error for a line over the limit; none when it does not begin like a message within the limit.
fn too_long(line: &[u8], limit: usize, number: u64) -> Option<Frame> {
    let within = line.get(..limit)?.trim_ascii_start();
    (within.first() == Some(&b'{'))
        .then(|| Frame::Failed(FrameError::TooLong { line: number, limit, excerpt: excerpt(line, limit) }))
}

/// The beginning of a line; never more than the limit, so that it does not depend on how the bytes arrived.
pub(crate) fn excerpt(line: &[u8], limit: usize) -> String {
    let shown = &line[..line.len().min(limit).min(EXCERPT)];
    let text = String::from_utf8_lossy(shown);
    // A cut may have gone through a character.
    let text =
        if shown.len() < line.len() { text.trim_end_matches(char::REPLACEMENT_CHARACTER) } else { &text };
    text.trim().to_owned()
}
