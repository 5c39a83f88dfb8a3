//! The line stream from a child's stdout to one consumer: lossless, with backpressure on the child.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::shorten::{LineLimits, LineShortener};
use crate::wake::Waker;

/// How many bytes of complete lines are buffered before backpressure starts.
const QUEUE_LIMIT: usize = 1 << 20;
/// What an item takes in memory beside its bytes, about: empty lines must not fill the queue without a limit either.
const ITEM_SIZE: usize = 64;

/// An item of a line stream.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamItem {
    /// A line, as bytes, without its newline.
    Line(Vec<u8>),
    /// The bytes after the last newline, at EOF.
    Unterminated(Vec<u8>),
    /// A line exceeded the limit. This is the last item; draining and logging continue.
    TooLong {
        /// The configured limit.
        limit: usize,
    },
    /// A line exceeded the limits and could not be shortened (see [`crate::Command::shorten_lines`]); the next item is the next line.
    Skipped {
        /// The length of the line.
        length: u64,
    },
}

impl StreamItem {
    fn size(&self) -> usize {
        match self {
            Self::Line(bytes) | Self::Unterminated(bytes) => ITEM_SIZE + bytes.len(),
            Self::TooLong { .. } | Self::Skipped { .. } => ITEM_SIZE,
        }
    }
}

#[derive(Debug, Default)]
struct QueueState {
    items: VecDeque<StreamItem>,
    bytes: usize,
    /// No more items will follow.
    ended: bool,
    /// The tree is dead: buffer the remaining output without waiting for the consumer.
    unbounded: bool,
    /// The consumer was dropped.
    abandoned: bool,
}

/// The state shared by producer and consumer.
#[derive(Debug)]
pub(crate) struct LineQueue {
    state: Mutex<QueueState>,
    consumer: Notify,
    producer: Waker,
}

impl LineQueue {
    pub(crate) fn new(producer: Waker) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), consumer: Notify::new(), producer })
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the producer should stop reading for now.
    pub(crate) fn is_full(&self) -> bool {
        let state = self.state();
        state.bytes >= QUEUE_LIMIT && !state.unbounded && !state.abandoned
    }

    pub(crate) fn push(&self, item: StreamItem) {
        let mut state = self.state();
        if !state.abandoned {
            state.bytes += item.size();
            state.items.push_back(item);
        }
        drop(state);
        self.consumer.notify_one();
    }

    pub(crate) fn end(&self) {
        self.state().ended = true;
        self.consumer.notify_one();
    }

    /// Disables backpressure.
    pub(crate) fn lift_limit(&self) {
        self.state().unbounded = true;
        self.producer.wake();
    }
}

/// The consumer end of a line stream. Dropping it does not affect the child: draining and logging continue.
#[derive(Debug)]
pub struct Lines {
    pub(crate) queue: Arc<LineQueue>,
}

impl Lines {
    /// Returns the next item, or `None` at the end of the output. Cancel-safe.
    pub async fn next(&mut self) -> Option<StreamItem> {
        loop {
            {
                let mut state = self.queue.state();
                if let Some(item) = state.items.pop_front() {
                    let was_full = state.bytes >= QUEUE_LIMIT;
                    state.bytes -= item.size();
                    if was_full && state.bytes < QUEUE_LIMIT {
                        self.queue.producer.wake();
                    }
                    return Some(item);
                }
                if state.ended {
                    return None;
                }
            }
            self.queue.consumer.notified().await;
        }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        let mut state = self.queue.state();
        state.abandoned = true;
        state.items.clear();
        drop(state);
        self.queue.producer.wake();
    }
}

/// Splits a byte stream into lines.
#[derive(Debug)]
pub(crate) struct LineSplitter {
    queue: Arc<LineQueue>,
    limit: usize,
    /// How a longer line is shortened; `None` if it ends the stream.
    limits: Option<LineLimits>,
    partial: Vec<u8>,
    /// The current line, if it is longer than the limit.
    shortener: Option<Box<LineShortener>>,
    over: bool,
}

impl LineSplitter {
    pub(crate) fn new(queue: Arc<LineQueue>, limit: usize, limits: Option<LineLimits>) -> Self {
        Self { queue, limit, limits, partial: Vec::new(), shortener: None, over: false }
    }

    pub(crate) fn push(&mut self, mut chunk: &[u8]) {
        while !self.over && !chunk.is_empty() {
            let newline = memchr::memchr(b'\n', chunk);
            self.extend(&chunk[..newline.unwrap_or(chunk.len())]);
            let Some(newline) = newline.filter(|_| !self.over) else { return };
            let line = self.take_line();
            self.queue.push(line.map_or_else(|item| item, StreamItem::Line));
            chunk = &chunk[newline + 1..];
        }
    }

    fn extend(&mut self, part: &[u8]) {
        if let Some(shortener) = &mut self.shortener {
            return shortener.push(part);
        }
        if self.partial.len() + part.len() <= self.limit {
            return self.partial.extend_from_slice(part);
        }
        let partial = std::mem::take(&mut self.partial);
        match self.limits {
            Some(limits) => {
                let shortener = self.shortener.insert(Box::new(LineShortener::new(limits)));
                shortener.push(&partial);
                shortener.push(part);
            }
            None => {
                self.over = true;
                self.queue.push(StreamItem::TooLong { limit: self.limit });
                self.queue.end();
            }
        }
    }

    /// Takes the current line, or the item in its place.
    fn take_line(&mut self) -> Result<Vec<u8>, StreamItem> {
        let Some(shortener) = self.shortener.take() else { return Ok(std::mem::take(&mut self.partial)) };
        let (line, length) = shortener.finish();
        line.ok_or(StreamItem::Skipped { length })
    }

    pub(crate) fn finish(&mut self) {
        if !self.over && (!self.partial.is_empty() || self.shortener.is_some()) {
            let line = self.take_line();
            self.queue.push(line.map_or_else(|item| item, StreamItem::Unterminated));
        }
        self.queue.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn items(chunks: &[&[u8]], limit: usize) -> Vec<StreamItem> {
        items_within(chunks, limit, None).await
    }

    async fn items_within(chunks: &[&[u8]], limit: usize, limits: Option<LineLimits>) -> Vec<StreamItem> {
        let (_, waker) = crate::wake::pair().unwrap();
        let queue = LineQueue::new(waker);
        let mut splitter = LineSplitter::new(queue.clone(), limit, limits);
        for chunk in chunks {
            splitter.push(chunk);
        }
        splitter.finish();
        let mut lines = Lines { queue };
        let mut result = Vec::new();
        while let Some(item) = lines.next().await {
            result.push(item);
        }
        result
    }

    fn line(text: &str) -> StreamItem {
        StreamItem::Line(text.as_bytes().to_vec())
    }

    #[tokio::test]
    async fn lines_are_split_at_newlines_only() {
        let got = items(&[b"a\r\nb", b"c\n\nrest"], 100).await;
        assert_eq!(got, [line("a\r"), line("bc"), line(""), StreamItem::Unterminated(b"rest".to_vec())]);
    }

    #[tokio::test]
    async fn line_over_limit_ends_stream() {
        assert_eq!(
            items(&[b"1234\n", b"12", b"34"], 4).await,
            [line("1234"), StreamItem::Unterminated(b"1234".to_vec())]
        );
        let got = items(&[b"ok\n123", b"45\nnever seen\n"], 4).await;
        assert_eq!(got, [line("ok"), StreamItem::TooLong { limit: 4 }]);
    }

    #[tokio::test]
    async fn long_line_is_shortened_or_skipped_and_the_next_one_read() {
        let limits = LineLimits { string: 3, structure: 20, line: 80 };
        let long = [&b"{\"a\":"[..], b"\"1234", b"5678\"}\nok\n", &[b'['; 30], b"\n[1,2,3,4,5,6]"];
        let got = items_within(&long, 10, Some(limits)).await;
        let short = r#"{"a":"123\n[CONTENT TRUNCATED: 3 of 8 bytes kept]"}"#;
        let end = StreamItem::Unterminated(b"[1,2,3,4,5,6]".to_vec());
        assert_eq!(got, [line(short), line("ok"), StreamItem::Skipped { length: 30 }, end]);
    }

    #[tokio::test]
    async fn empty_lines_fill_the_queue_too() {
        let (_, waker) = crate::wake::pair().unwrap();
        let queue = LineQueue::new(waker);
        let _lines = Lines { queue: queue.clone() };
        LineSplitter::new(queue.clone(), 9, None).push(&[b'\n'; QUEUE_LIMIT / ITEM_SIZE]);
        assert!(queue.is_full());
    }

    #[tokio::test]
    async fn queue_is_full_only_while_consumer_can_drain_it() {
        let (_, waker) = crate::wake::pair().unwrap();
        let queue = LineQueue::new(waker);
        let mut lines = Lines { queue: queue.clone() };
        queue.push(StreamItem::Line(vec![0; QUEUE_LIMIT]));
        assert!(queue.is_full());
        queue.lift_limit();
        assert!(!queue.is_full());
        assert!(lines.next().await.is_some());
        drop(lines);
        queue.push(StreamItem::Line(vec![0; QUEUE_LIMIT]));
        assert!(!queue.is_full());
    }
}
