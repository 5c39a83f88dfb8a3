//! The body of a response: sends its frames at their pace, and breaks where a script says so.

use std::error::Error;
use std::fmt;
use std::future::Future as _;
use std::iter::Peekable;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::time::{Sleep, sleep};

use crate::script::Point;

/// Long enough for the bytes before a cut to leave: what is only buffered is lost with the connection.
const BEFORE_CUT: Duration = Duration::from_millis(20);

/// How a body breaks.
#[derive(Debug)]
pub(crate) enum Break {
    /// The connection is dropped.
    Cut,
    /// Nothing is sent for so long, or for ever.
    Stall(Option<Duration>),
    /// These are the last bytes.
    End(Bytes),
}

/// The connection is dropped on purpose.
#[derive(Debug)]
pub(crate) struct Cut;

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the script cuts the connection here")
    }
}

impl Error for Cut {}

type Frames = Box<dyn Iterator<Item = Bytes> + Send>;

/// A response's body.
pub(crate) struct Reel {
    frames: Peekable<Frames>,
    /// The rest of a frame that a break divides.
    rest: Option<Bytes>,
    between: Duration,
    fault: Option<(Point, Break)>,
    sent_frames: usize,
    sent_bytes: usize,
    state: State,
    exact: Option<u64>,
}

enum State {
    Next,
    Wait(Pin<Box<Sleep>>),
    Cut(Pin<Box<Sleep>>),
    Forever,
    Done,
}

impl Reel {
    /// One piece, sent at once, its length known in advance.
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        let exact = u64::try_from(bytes.len()).ok();
        let frames: Frames = Box::new(std::iter::once(bytes).filter(|bytes| !bytes.is_empty()));
        Self { exact, ..Self::stream(frames, Duration::ZERO) }
    }

    /// Many pieces, with a pause between two of them.
    pub(crate) fn stream(frames: Frames, between: Duration) -> Self {
        Self {
            frames: frames.peekable(),
            rest: None,
            between,
            fault: None,
            sent_frames: 0,
            sent_bytes: 0,
            state: State::Next,
            exact: None,
        }
    }

    /// Breaks at this point, and at the latest before the last frame (or within it, if it is the only one).
    pub(crate) fn breaking(mut self, point: Point, how: Break) -> Self {
        self.fault = Some((point, how));
        self
    }

    /// The next bytes to send, or that the break is due.
    fn step(&mut self) -> Step {
        let Some(frame) = self.rest.take().or_else(|| self.frames.next()) else { return Step::End };
        let Some((point, _)) = &self.fault else { return Step::Send(frame) };
        let is_last = self.frames.peek().is_none();
        let allowed = match *point {
            Point::Request => 0,
            Point::Events(count) if self.sent_frames >= count => 0,
            // A single frame is a body that is not a stream: half of it stands for "in the middle".
            Point::Events(_) if is_last => {
                if self.sent_frames == 0 {
                    frame.len() / 2
                } else {
                    0
                }
            }
            Point::Events(_) => frame.len(),
            Point::Bytes(count) => {
                let left = count.saturating_sub(self.sent_bytes);
                if is_last { left.min(frame.len().saturating_sub(1)) } else { left.min(frame.len()) }
            }
        };
        if allowed == frame.len() {
            return Step::Send(frame);
        }
        let mut head = frame;
        self.rest = Some(head.split_off(allowed));
        if head.is_empty() { Step::Break } else { Step::SendPart(head) }
    }
}

enum Step {
    Send(Bytes),
    /// The part of a frame before the break.
    SendPart(Bytes),
    Break,
    End,
}

impl Body for Reel {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        let this = &mut *self;
        loop {
            match &mut this.state {
                State::Done => return Poll::Ready(None),
                State::Forever => return Poll::Pending,
                State::Wait(sleep) => {
                    if sleep.as_mut().poll(context).is_pending() {
                        return Poll::Pending;
                    }
                    this.state = State::Next;
                }
                State::Cut(sleep) => {
                    if sleep.as_mut().poll(context).is_pending() {
                        return Poll::Pending;
                    }
                    this.state = State::Done;
                    return Poll::Ready(Some(Err(Cut)));
                }
                State::Next => match this.step() {
                    Step::End => this.state = State::Done,
                    Step::Send(bytes) => {
                        this.sent_frames += 1;
                        this.sent_bytes += bytes.len();
                        if !this.between.is_zero() {
                            this.state = State::Wait(Box::pin(sleep(this.between)));
                        }
                        return Poll::Ready(Some(Ok(Frame::data(bytes))));
                    }
                    Step::SendPart(bytes) => {
                        this.sent_bytes += bytes.len();
                        // What is left of this frame comes after the break, which is due now.
                        if let Some((point, _)) = &mut this.fault {
                            *point = Point::Request;
                        }
                        return Poll::Ready(Some(Ok(Frame::data(bytes))));
                    }
                    Step::Break => match this.fault.take() {
                        Some((_, Break::Cut)) => this.state = State::Cut(Box::pin(sleep(BEFORE_CUT))),
                        Some((_, Break::Stall(None))) => this.state = State::Forever,
                        Some((_, Break::Stall(Some(length)))) => {
                            this.state = State::Wait(Box::pin(sleep(length)));
                        }
                        Some((_, Break::End(bytes))) => {
                            this.state = State::Done;
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
