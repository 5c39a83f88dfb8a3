//! The stream of lines from a child's stdout to one consumer: lossless, and the child waits when the consumer does.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::wake::Waker;

/// How many bytes of whole lines may wait for the consumer before the child has to.
const QUEUE_LIMIT: usize = 1 << 20;

/// What a stream yields.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamItem {
    /// One line, as bytes, without its newline.
    Line(Vec<u8>),
    /// What stood after the last newline when the output ended.
    Unterminated(Vec<u8>),
    /// A line grew past the limit. This is the last item: draining and logging go on, the stream does not.
    TooLong {
        /// The limit that was set.
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
struct State {
    items: VecDeque<StreamItem>,
    bytes: usize,
    /// No more items will come.
    ended: bool,
    /// The tree is dead: take the little that is left without waiting for the consumer.
    unbounded: bool,
    /// Nobody will read any more.
    abandoned: bool,
}

/// Both ends' common ground.
#[derive(Debug)]
pub(crate) struct Queue {
    state: Mutex<State>,
    consumer: Notify,
    producer: Waker,
}

impl Queue {
    pub(crate) fn new(producer: Waker) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), consumer: Notify::new(), producer })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the producer should stop reading for now.
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

    /// From now on the producer never waits.
    pub(crate) fn lift_limit(&self) {
        self.state().unbounded = true;
        self.producer.wake();
    }
}

/// The consumer's end of a stream. Dropping it does not disturb the child: draining and logging go on.
#[derive(Debug)]
pub struct Lines {
    pub(crate) queue: Arc<Queue>,
}

impl Lines {
    /// The next item; `None` when the output has ended. Cancel-safe.
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

/// Cuts a stream of bytes into lines.
#[derive(Debug)]
pub(crate) struct Splitter {
    queue: Arc<Queue>,
    limit: usize,
    partial: Vec<u8>,
    over: bool,
}

impl Splitter {
    pub(crate) fn new(queue: Arc<Queue>, limit: usize) -> Self {
        Self { queue, limit, partial: Vec::new(), over: false }
    }

    pub(crate) fn push(&mut self, mut piece: &[u8]) {
        while !self.over && !piece.is_empty() {
            let newline = memchr::memchr(b'\n', piece);
            let part = &piece[..newline.unwrap_or(piece.len())];
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
            piece = &piece[newline + 1..];
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
        let queue = Queue::new(waker);
        let mut splitter = Splitter::new(queue.clone(), limit);
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
    async fn lines_are_cut_at_newlines_only() {
        let got = items(&[b"a\r\nb", b"c\n\nrest"], 100).await;
        assert_eq!(got, [line("a\r"), line("bc"), line(""), StreamItem::Unterminated(b"rest".to_vec())]);
    }

    #[tokio::test]
    async fn a_line_at_the_limit_passes_and_a_longer_one_ends_the_stream() {
        assert_eq!(
            items(&[b"1234\n", b"12", b"34"], 4).await,
            [line("1234"), StreamItem::Unterminated(b"1234".to_vec())]
        );
        let got = items(&[b"ok\n123", b"45\nnever seen\n"], 4).await;
        assert_eq!(got, [line("ok"), StreamItem::TooLong { limit: 4 }]);
    }

    #[tokio::test]
    async fn the_producer_waits_only_while_somebody_will_read() {
        let (_, waker) = crate::wake::pair().unwrap();
        let queue = Queue::new(waker);
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
