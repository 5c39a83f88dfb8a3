//! Response body that sends its frames with pauses and can fail at a scripted position.

use std::error::Error;
use std::fmt;
use std::future::Future as _;
use std::iter::Peekable;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::time::{Sleep, sleep};

use crate::script::FaultPosition;

/// Pause before a connection is dropped, so that buffered bytes are sent first.
const DROP_DELAY: Duration = Duration::from_millis(20);

/// How a body fails.
#[derive(Debug)]
pub(crate) enum BodyFault {
    /// The connection is dropped.
    Drop,
    /// Nothing is sent for this long, or forever.
    Stall(Option<Duration>),
    /// The body ends with these bytes.
    EndWith(Bytes),
}

/// Error that makes hyper drop the connection on purpose.
#[derive(Debug)]
pub(crate) struct ConnectionDropped;

impl fmt::Display for ConnectionDropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("connection dropped on purpose")
    }
}

impl Error for ConnectionDropped {}

type Frames = Box<dyn Iterator<Item = Bytes> + Send>;

/// A response body with pauses between its frames and an optional fault.
pub(crate) struct PacedBody {
    frames: Peekable<Frames>,
    /// The rest of a frame that the fault splits.
    rest: Option<Bytes>,
    between: Duration,
    fault: Option<(FaultPosition, BodyFault)>,
    sent_frames: usize,
    sent_bytes: usize,
    state: BodyState,
    exact: Option<u64>,
}

enum BodyState {
    Next,
    Wait(Pin<Box<Sleep>>),
    Dropping(Pin<Box<Sleep>>),
    Forever,
    Done,
}

impl PacedBody {
    /// Creates a body that is sent at once, with a known length.
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        let exact = u64::try_from(bytes.len()).ok();
        let frames: Frames = Box::new(std::iter::once(bytes).filter(|bytes| !bytes.is_empty()));
        Self { exact, ..Self::stream(frames, Duration::ZERO) }
    }

    /// Creates a streamed body with a pause between two frames.
    pub(crate) fn stream(frames: Frames, between: Duration) -> Self {
        Self {
            frames: frames.peekable(),
            rest: None,
            between,
            fault: None,
            sent_frames: 0,
            sent_bytes: 0,
            state: BodyState::Next,
            exact: None,
        }
    }

    /// Fails at this position, but at the latest before the last frame (or within it, if it is the only one).
    pub(crate) fn with_fault(mut self, position: FaultPosition, fault: BodyFault) -> Self {
        self.fault = Some((position, fault));
        self
    }

    /// Returns the next bytes to send, or that the fault is due.
    fn step(&mut self) -> SendStep {
        let Some(frame) = self.rest.take().or_else(|| self.frames.next()) else { return SendStep::End };
        let Some((position, _)) = &self.fault else { return SendStep::Send(frame) };
        let is_last = self.frames.peek().is_none();
        let allowed = match *position {
            FaultPosition::Request => 0,
            FaultPosition::Events(count) if self.sent_frames >= count => 0,
            // A single frame is a body that is not a stream: fail in the middle of it.
            FaultPosition::Events(_) if is_last => {
                if self.sent_frames == 0 {
                    frame.len() / 2
                } else {
                    0
                }
            }
            FaultPosition::Events(_) => frame.len(),
            FaultPosition::Bytes(count) => {
                let left = count.saturating_sub(self.sent_bytes);
                if is_last { left.min(frame.len().saturating_sub(1)) } else { left.min(frame.len()) }
            }
        };
        if allowed == frame.len() {
            return SendStep::Send(frame);
        }
        let mut head = frame;
        self.rest = Some(head.split_off(allowed));
        if head.is_empty() { SendStep::Fault } else { SendStep::SendPart(head) }
    }
}

enum SendStep {
    Send(Bytes),
    /// The part of a frame before the fault.
    SendPart(Bytes),
    Fault,
    End,
}

impl Body for PacedBody {
    type Data = Bytes;
    type Error = ConnectionDropped;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ConnectionDropped>>> {
        let this = &mut *self;
        loop {
            match &mut this.state {
                BodyState::Done => return Poll::Ready(None),
                BodyState::Forever => return Poll::Pending,
                BodyState::Wait(sleep) => {
                    if sleep.as_mut().poll(context).is_pending() {
                        return Poll::Pending;
                    }
                    this.state = BodyState::Next;
                }
                BodyState::Dropping(sleep) => {
                    if sleep.as_mut().poll(context).is_pending() {
                        return Poll::Pending;
                    }
                    this.state = BodyState::Done;
                    return Poll::Ready(Some(Err(ConnectionDropped)));
                }
                BodyState::Next => match this.step() {
                    SendStep::End => this.state = BodyState::Done,
                    SendStep::Send(bytes) => {
                        this.sent_frames += 1;
                        this.sent_bytes += bytes.len();
                        if !this.between.is_zero() {
                            this.state = BodyState::Wait(Box::pin(sleep(this.between)));
                        }
                        return Poll::Ready(Some(Ok(Frame::data(bytes))));
                    }
                    SendStep::SendPart(bytes) => {
                        this.sent_bytes += bytes.len();
                        // The rest of this frame follows the fault, which is due now.
                        if let Some((position, _)) = &mut this.fault {
                            *position = FaultPosition::Request;
                        }
                        return Poll::Ready(Some(Ok(Frame::data(bytes))));
                    }
                    SendStep::Fault => match this.fault.take() {
                        Some((_, BodyFault::Drop)) => {
                            this.state = BodyState::Dropping(Box::pin(sleep(DROP_DELAY)));
                        }
                        Some((_, BodyFault::Stall(None))) => this.state = BodyState::Forever,
                        Some((_, BodyFault::Stall(Some(length)))) => {
                            this.state = BodyState::Wait(Box::pin(sleep(length)));
                        }
                        Some((_, BodyFault::EndWith(bytes))) => {
                            this.state = BodyState::Done;
                            return Poll::Ready(Some(Ok(Frame::data(bytes))));
                        }
                        None => {}
                    },
                },
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.exact.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
