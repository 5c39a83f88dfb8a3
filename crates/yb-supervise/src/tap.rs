//! A lossy live view of a child's output, for progress displays: it never slows the child.

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::capture::Pipe;

/// A chunk of output, as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TapItem {
    /// The source pipe.
    pub pipe: Pipe,
    /// The redacted bytes.
    pub bytes: Bytes,
    /// Bytes of both pipes that were dropped before this chunk, because the consumer was too slow.
    pub dropped_before: u64,
}

/// The consumer end of a tap.
#[derive(Debug)]
pub struct Tap(mpsc::Receiver<TapItem>);

impl Tap {
    /// Returns the next chunk, or `None` at the end of the output.
    pub async fn next(&mut self) -> Option<TapItem> {
        self.0.recv().await
    }
}

/// The producer end of a tap.
#[derive(Debug)]
pub(crate) struct TapSender {
    sender: mpsc::Sender<TapItem>,
    dropped: u64,
}

/// Number of buffered chunks before further ones are dropped.
const QUEUE_LENGTH: usize = 64;

pub(crate) fn tap() -> (TapSender, Tap) {
    let (sender, receiver) = mpsc::channel(QUEUE_LENGTH);
    (TapSender { sender, dropped: 0 }, Tap(receiver))
}

impl TapSender {
    pub(crate) fn offer(&mut self, pipe: Pipe, chunk: &[u8]) {
        match self.sender.try_reserve() {
            Ok(place) => {
                let dropped_before = std::mem::take(&mut self.dropped);
                place.send(TapItem { pipe, bytes: Bytes::copy_from_slice(chunk), dropped_before });
            }
            Err(_) => self.dropped += chunk.len() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn tap_counts_dropped_bytes() {
        let (mut sender, mut tap) = tap();
        for _ in 0..QUEUE_LENGTH + 3 {
            sender.offer(Pipe::Stdout, b"ab");
        }
        for _ in 0..QUEUE_LENGTH {
            assert_eq!(tap.next().await.unwrap().dropped_before, 0);
        }
        sender.offer(Pipe::Stderr, b"c");
        let item = tap.next().await.unwrap();
        assert_eq!((item.pipe, item.dropped_before), (Pipe::Stderr, 6));
    }
}
