//! A message buffer in memory, then in a temporary file; only a full file causes backpressure on the CLI.
//!
//! Control requests arrive through the same pipe as messages. Without the file, a slow consumer would block hooks and
//! permission requests.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::sync::Notify;

use super::Error;
use crate::Message;

/// The maximum size of buffered messages in memory, as JSON; the typed messages take several times as much.
const MEMORY_LIMIT: usize = 4 << 20;
/// The maximum size of the overflow file.
const FILE_LIMIT: u64 = 4 << 30;

#[derive(Default)]
struct SpoolState {
    memory: VecDeque<Message>,
    bytes: usize,
    file: Option<OverflowFile>,
    /// Set at the end of the stream, with an optional error.
    ended: Option<Option<Error>>,
    waker: Option<Waker>,
    abandoned: bool,
}

struct SharedSpool {
    state: Mutex<SpoolState>,
    room: Notify,
    memory_limit: usize,
    file_limit: u64,
}

impl SharedSpool {
    fn state(&self) -> MutexGuard<'_, SpoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The writing end of a spool.
#[derive(Clone)]
pub(super) struct SpoolWriter(Arc<SharedSpool>);

/// The reading end of a spool.
pub(super) struct SpoolReader(Arc<SharedSpool>);

pub(super) fn spool() -> (SpoolWriter, SpoolReader) {
    spool_with(MEMORY_LIMIT, FILE_LIMIT)
}

fn spool_with(memory_limit: usize, file_limit: u64) -> (SpoolWriter, SpoolReader) {
    let shared = SharedSpool { state: Mutex::default(), room: Notify::new(), memory_limit, file_limit };
    let shared = Arc::new(shared);
    (SpoolWriter(Arc::clone(&shared)), SpoolReader(shared))
}

impl SpoolWriter {
    pub(super) fn push(&self, message: Message) {
        let mut state = self.0.state();
        if state.abandoned || state.ended.is_some() {
            return;
        }
        let size = message.raw().as_str().len();
        let in_file = state.file.as_ref().is_some_and(|file| !file.is_empty());
        let overflows = in_file || !state.memory.is_empty() && state.bytes + size > self.0.memory_limit;
        if !(overflows && state.overflow(message.raw().as_str())) {
            // Also if the file can't be written: messages are never lost.
            state.bytes += size;
            state.memory.push_back(message);
        }
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Ends the stream; only the first call has an effect.
    pub(super) fn end(&self, error: Option<Error>) {
        let mut state = self.0.state();
        if state.ended.is_none() {
            state.ended = Some(error);
        }
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(super) fn is_full(&self) -> bool {
        let state = self.0.state();
        let in_file = state.file.as_ref().map_or(0, OverflowFile::len);
        // A single message may exceed the limit.
        let in_memory = state.bytes > 2 * self.0.memory_limit && state.memory.len() > 1;
        !state.abandoned && (in_file >= self.0.file_limit || in_memory)
    }

    /// Whether the reader was dropped.
    pub(super) fn is_abandoned(&self) -> bool {
        self.0.state().abandoned
    }

    /// Waits until [`is_full`](Self::is_full) may have changed.
    pub(super) async fn room(&self) {
        self.0.room.notified().await;
    }
}

impl SpoolState {
    fn overflow(&mut self, text: &str) -> bool {
        if self.file.is_none() {
            self.file = tempfile::tempfile().ok().map(OverflowFile::new);
        }
        self.file.as_mut().is_some_and(|file| file.push(text).is_ok())
    }

    fn pop(&mut self) -> Option<Message> {
        if let Some(message) = self.memory.pop_front() {
            self.bytes = self.bytes.saturating_sub(message.raw().as_str().len());
            return Some(message);
        }
        loop {
            match self.file.as_mut()?.pop() {
                Ok(None) => return None,
                // Invalid data can only come from a disk error.
                Ok(Some(text)) => match Message::parse(&text) {
                    Ok(message) => return Some(message),
                    Err(_) => continue,
                },
                Err(error) => {
                    self.file = None;
                    let reason = format!("failed to read the overflow file: {error}");
                    self.ended = Some(Some(Error::Transcript { reason }));
                    return None;
                }
            }
        }
    }
}

impl SpoolReader {
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Message, Error>>> {
        let mut state = self.0.state();
        if let Some(message) = state.pop() {
            drop(state);
            self.0.room.notify_one();
            return Poll::Ready(Some(Ok(message)));
        }
        match &mut state.ended {
            Some(error) => Poll::Ready(error.take().map(Err)),
            None => {
                state.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for SpoolReader {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.abandoned = true;
        state.memory.clear();
        state.file = None;
        drop(state);
        self.0.room.notify_one();
    }
}

/// A FIFO queue of texts in an anonymous file.
struct OverflowFile {
    file: File,
    read: u64,
    written: u64,
}

impl OverflowFile {
    fn new(file: File) -> Self {
        Self { file, read: 0, written: 0 }
    }

    fn is_empty(&self) -> bool {
        self.read == self.written
    }

    fn len(&self) -> u64 {
        self.written - self.read
    }

    fn push(&mut self, text: &str) -> io::Result<()> {
        let mut record = Vec::with_capacity(text.len() + 8);
        record.extend_from_slice(&(text.len() as u64).to_le_bytes());
        record.extend_from_slice(text.as_bytes());
        self.file.seek(SeekFrom::Start(self.written))?;
        self.file.write_all(&record)?;
        self.written += record.len() as u64;
        Ok(())
    }

    fn pop(&mut self) -> io::Result<Option<Vec<u8>>> {
        if self.is_empty() {
            return Ok(None);
        }
        let mut length = [0; 8];
        self.file.seek(SeekFrom::Start(self.read))?;
        self.file.read_exact(&mut length)?;
        let length = u64::from_le_bytes(length);
        let mut text = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        self.file.read_exact(&mut text)?;
        self.read += 8 + length;
        if self.is_empty() {
            // The queue is empty: free the space.
            self.file.set_len(0)?;
            (self.read, self.written) = (0, 0);
        }
        Ok(Some(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(number: usize) -> Message {
        Message::parse(format!(r#"{{"type":"test","n":{number}}}"#).as_bytes()).unwrap()
    }

    async fn next(spool: &mut SpoolReader) -> Option<Result<Message, Error>> {
        std::future::poll_fn(|cx| spool.poll_next(cx)).await
    }

    #[tokio::test]
    async fn overflow_file_keeps_order() {
        let (writer, mut spool) = spool_with(100, 1 << 20);
        (0..500).for_each(|number| writer.push(message(number)));
        assert!(writer.0.state().memory.len() < 10);
        for number in 0..250 {
            assert_eq!(next(&mut spool).await.unwrap().unwrap(), message(number));
        }
        (500..600).for_each(|number| writer.push(message(number)));
        writer.end(Some(Error::Closed));
        for number in 250..600 {
            assert_eq!(next(&mut spool).await.unwrap().unwrap(), message(number));
        }
        assert!(matches!(next(&mut spool).await, Some(Err(Error::Closed))));
        assert!(next(&mut spool).await.is_none());
        assert_eq!(writer.0.state().file.as_ref().unwrap().len(), 0, "the space was freed");
    }

    #[tokio::test]
    async fn full_file_signals_backpressure() {
        let (writer, mut spool) = spool_with(100, 1000);
        let mut pushed = 0;
        while !writer.is_full() {
            writer.push(message(pushed));
            pushed += 1;
        }
        for _ in 0..pushed {
            next(&mut spool).await.unwrap().unwrap();
        }
        assert!(!writer.is_full());
        drop(spool);
        (0..1000).for_each(|number| writer.push(message(number)));
        assert!(!writer.is_full(), "the reader was dropped, so nothing is kept");
    }
}
