//! Body of a recorded response, with its chunk boundaries and optionally its pauses.

use std::collections::VecDeque;
use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::time::{Sleep, sleep};

use crate::paced_body::ConnectionDropped;

/// Pause before a connection is dropped, so that buffered bytes are sent first.
const DROP_DELAY: Duration = Duration::from_millis(20);

/// How a recorded body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyEnding {
    Complete,
    /// The connection is dropped.
    Dropped,
}

/// The body of a recorded response.
pub(super) struct RecordedBody {
    chunks: VecDeque<(Duration, Bytes)>,
    ending: BodyEnding,
    wait: Option<Pin<Box<Sleep>>>,
    /// Called with whether the body was sent completely.
    on_end: Option<Box<dyn FnOnce(bool) + Send>>,
    has_length: bool,
}

impl RecordedBody {
    pub(super) fn new(chunks: impl IntoIterator<Item = (Duration, Bytes)>, ending: BodyEnding) -> Self {
        let chunks: VecDeque<_> = chunks.into_iter().filter(|(_, chunk)| !chunk.is_empty()).collect();
        Self { chunks, ending, wait: None, on_end: None, has_length: false }
    }

    /// Sends a `content-length`, for a response that is not a stream.
    pub(super) fn with_length(mut self) -> Self {
        self.has_length = self.ending == BodyEnding::Complete;
        self
    }

    /// Sets a callback for the end of the body; its argument is whether everything was sent.
    pub(super) fn on_end(mut self, callback: impl FnOnce(bool) + Send + 'static) -> Self {
        self.on_end = Some(Box::new(callback));
        self
    }

    fn report_end(&mut self, is_complete: bool) {
        if let Some(callback) = self.on_end.take() {
            callback(is_complete);
        }
    }
}

impl Drop for RecordedBody {
    fn drop(&mut self) {
        self.report_end(false);
    }
}

impl Body for RecordedBody {
    type Data = Bytes;
    type Error = ConnectionDropped;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ConnectionDropped>>> {
        let this = &mut *self;
        let pause = match (this.chunks.front(), this.ending) {
            (Some((pause, _)), _) => *pause,
            (None, BodyEnding::Dropped) => DROP_DELAY,
            (None, BodyEnding::Complete) => {
                this.report_end(true);
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
        match this.chunks.pop_front() {
            Some((_, chunk)) => {
                // With a known length, the body is not polled again after its last byte.
                if this.chunks.is_empty() && this.ending == BodyEnding::Complete {
                    this.report_end(true);
                }
                Poll::Ready(Some(Ok(Frame::data(chunk))))
            }
            None => Poll::Ready(Some(Err(ConnectionDropped))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.chunks.is_empty() && self.ending == BodyEnding::Complete
    }

    fn size_hint(&self) -> SizeHint {
        let left: usize = self.chunks.iter().map(|(_, chunk)| chunk.len()).sum();
        match u64::try_from(left) {
            Ok(left) if self.has_length => SizeHint::with_exact(left),
            _ => SizeHint::default(),
        }
    }
}
