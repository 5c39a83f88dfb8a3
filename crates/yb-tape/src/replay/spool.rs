//! The body of a recorded answer: its pieces with their borders and, if wanted, their pauses.

use std::collections::VecDeque;
use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::time::{Sleep, sleep};

use crate::reel::Cut;

/// Long enough for the bytes before a cut to leave: what is only buffered is lost with the connection.
const BEFORE_CUT: Duration = Duration::from_millis(20);

/// How a recorded answer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tail {
    End,
    /// The connection is dropped.
    Cut,
}

pub(super) struct Spool {
    pieces: VecDeque<(Duration, Bytes)>,
    tail: Tail,
    wait: Option<Pin<Box<Sleep>>>,
    /// Told whether all was sent.
    sent: Option<Box<dyn FnOnce(bool) + Send>>,
    exact: bool,
}

impl Spool {
    pub(super) fn new(pieces: impl IntoIterator<Item = (Duration, Bytes)>, tail: Tail) -> Self {
        let pieces: VecDeque<_> = pieces.into_iter().filter(|(_, piece)| !piece.is_empty()).collect();
        Self { pieces, tail, wait: None, sent: None, exact: false }
    }

    /// Says its length beforehand, as an answer that is no stream does.
    pub(super) fn whole(mut self) -> Self {
        self.exact = self.tail == Tail::End;
        self
    }

    /// Calls this when everything was sent, or no more can be.
    pub(super) fn when_over(mut self, sent: impl FnOnce(bool) + Send + 'static) -> Self {
        self.sent = Some(Box::new(sent));
        self
    }

    fn tell(&mut self, is_whole: bool) {
        if let Some(sent) = self.sent.take() {
            sent(is_whole);
        }
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        self.tell(false);
    }
}

impl Body for Spool {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        let this = &mut *self;
        let pause = match (this.pieces.front(), this.tail) {
            (Some((pause, _)), _) => *pause,
            (None, Tail::Cut) => BEFORE_CUT,
            (None, Tail::End) => {
                this.tell(true);
                return Poll::Ready(None);
            }
        };
        if !pause.is_zero() {
            let wait = this.wait.get_or_insert_with(|| Box::pin(sleep(pause)));
            if wait.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            this.wait = None;
        }
        match this.pieces.pop_front() {
            Some((_, piece)) => {
                // Nobody asks again after the last byte of a known length.
                if this.pieces.is_empty() && this.tail == Tail::End {
                    this.tell(true);
                }
                Poll::Ready(Some(Ok(Frame::data(piece))))
            }
            None => Poll::Ready(Some(Err(Cut))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_empty() && self.tail == Tail::End
    }

    fn size_hint(&self) -> SizeHint {
        let left: usize = self.pieces.iter().map(|(_, piece)| piece.len()).sum();
        match u64::try_from(left) {
            Ok(left) if self.exact => SizeHint::with_exact(left),
            _ => SizeHint::default(),
        }
    }
}
