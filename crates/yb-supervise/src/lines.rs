//! The line stream from a child's stdout to one consumer: lossless, with backpressure on the child.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::wake::Waker;

/// How many bytes of complete lines are buffered before backpressure starts.
const QUEUE_LIMIT: usize = 1 << 20;

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
}

impl StreamItem {
    fn size(&self) -> usize {
        match self {
            Self::Line(bytes) | Self::Unterminated(bytes) => bytes.len(),
            Self::TooLong { .. } => 0,
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
    partial: Vec<u8>,
    over: bool,
}

impl LineSplitter {
    pub(crate) fn new(queue: Arc<LineQueue>, limit: usize) -> Self {
        Self { queue, limit, partial: Vec::new(), over: false }
    }

    pub(crate) fn push(&mut self, mut chunk: &[u8]) {
        while !self.over && !chunk.is_empty() {
            let newline = memchr::memchr(b'\n', chunk);
            let part = &chunk[..newline.unwrap_or(chunk.len())];
            if self.partial.len() + part.len() > self.limit {
                self.over = true;
                self.partial = Vec::new();
                self.queue.push(StreamItem::TooLong { limit: self.limit });
                self.queue.end();
                return;
            }
            self.partial.extend_from_slice(part);
            let Some(newline) = newline else { return };
            self.queue.push(StreamItem::Line(std::mem::take(&mut self.partial)));
            chunk = &chunk[newline + 1..];
        }
    }

    pub(crate) fn finish(&mut self) {
        if !self.over && !self.partial.is_empty() {
            self.queue.push(StreamItem::Unterminated(std::mem::take(&mut self.partial)));
        }
        self.queue.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn items(chunks: &[&[u8]], limit: usize) -> Vec<StreamItem> {
        let (_, waker) = crate::wake::pair().unwrap();
        let queue = LineQueue::new(waker);
        let mut splitter = LineSplitter::new(queue.clone(), limit);
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
