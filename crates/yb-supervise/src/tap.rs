//! A live view of a child's output for progress displays: never slows the child, so it may miss some.

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::capture::Pipe;

/// A piece of output as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TapItem {
    /// Where it came from.
    pub pipe: Pipe,
    /// What was printed.
    pub bytes: Bytes,
    /// How many bytes (of both pipes) were missed since the item before, because nobody took them in time.
    pub dropped_before: u64,
}

/// The receiving end of a tap.
#[derive(Debug)]
pub struct Tap(mpsc::Receiver<TapItem>);

impl Tap {
    /// The next piece; `None` when the output has ended.
    pub async fn next(&mut self) -> Option<TapItem> {
        self.0.recv().await
    }
}

/// The sending end.
#[derive(Debug)]
pub(crate) struct TapSender {
    sender: mpsc::Sender<TapItem>,
    dropped: u64,
}

/// Pieces that may wait before further ones are dropped.
const WAITING: usize = 64;

pub(crate) fn tap() -> (TapSender, Tap) {
    let (sender, receiver) = mpsc::channel(WAITING);
    (TapSender { sender, dropped: 0 }, Tap(receiver))
}

impl TapSender {
    pub(crate) fn offer(&mut self, pipe: Pipe, piece: &[u8]) {
        match self.sender.try_reserve() {
            Ok(place) => {
                let dropped_before = std::mem::take(&mut self.dropped);
                place.send(TapItem { pipe, bytes: Bytes::copy_from_slice(piece), dropped_before });
            }
            Err(_) => self.dropped += piece.len() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_missed_is_counted() {
        let (mut sender, mut tap) = tap();
        for _ in 0..WAITING + 3 {
            sender.offer(Pipe::Stdout, b"ab");
        }
        for _ in 0..WAITING {
            assert_eq!(tap.next().await.unwrap().dropped_before, 0);
        }
        sender.offer(Pipe::Stderr, b"c");
        let item = tap.next().await.unwrap();
        assert_eq!((item.pipe, item.dropped_before), (Pipe::Stderr, 6));
    }
}
