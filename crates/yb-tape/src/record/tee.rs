//! The body of an answer on its way to the agent: every piece goes on at once, and is remembered.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::HeaderMap;
use hyper::http::request::Parts;

use crate::format::record::Ending;
use crate::upstream::{Client, Sender};

/// An answer that is longer is passed on, but not kept.
const MAX_ANSWER_BYTES: usize = 256 * 1024 * 1024;

/// One exchange as it was heard.
#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) number: u64,
    pub(crate) at: Duration,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) status: Option<u16>,
    pub(crate) response_headers: HeaderMap,
    /// Each piece with the time since the one before.
    pub(crate) pieces: Vec<(Duration, Bytes)>,
    pub(crate) end: Ending,
}

impl Heard {
    pub(crate) fn new(number: u64, at: Duration, parts: &Parts, body: Bytes) -> Self {
        Self {
            number,
            at,
            method: parts.method.to_string(),
            path: parts.uri.path().to_owned(),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            headers: parts.headers.clone(),
            body,
            status: None,
            response_headers: HeaderMap::new(),
            pieces: Vec::new(),
            // Until it is known better: whoever drops the body has left.
            end: Ending::Left,
        }
    }

    pub(crate) fn answer(&self) -> Vec<u8> {
        self.pieces.iter().flat_map(|(_, piece)| piece.iter().copied()).collect()
    }
}

type Listener = Box<dyn FnOnce(Heard) + Send>;

/// Passes an answer on and tells what it was, once it is over in whatever way.
pub(crate) struct Tee {
    incoming: Incoming,
    open: Option<Open>,
    connection: Option<(Arc<Client>, Sender)>,
}

struct Open {
    heard: Heard,
    last: Instant,
    size: usize,
    listener: Listener,
}

impl Tee {
    pub(crate) fn new(
        incoming: Incoming,
        heard: Heard,
        asked: Instant,
        listener: impl FnOnce(Heard) + Send + 'static,
    ) -> Self {
        let open = Open { heard, last: asked, size: 0, listener: Box::new(listener) };
        Self { incoming, open: Some(open), connection: None }
    }

    /// Gives the connection back when the answer was read to its end.
    pub(crate) fn returning(mut self, client: Arc<Client>, sender: Sender) -> Self {
        self.connection = Some((client, sender));
        if self.incoming.is_end_stream() {
            self.end(Ending::Complete);
        }
        self
    }

    fn end(&mut self, end: Ending) {
        if let Some((client, sender)) = self.connection.take()
            && end == Ending::Complete
        {
            client.keep(sender);
        }
        let Some(Open { mut heard, listener, .. }) = self.open.take() else { return };
        if heard.end != Ending::TooLarge {
            heard.end = end;
        }
        listener(heard);
    }
}

impl Body for Tee {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.incoming).poll_frame(context);
        match &polled {
            Poll::Pending => {}
            Poll::Ready(None) => self.end(Ending::Complete),
            Poll::Ready(Some(Err(_))) => self.end(Ending::Cut),
            Poll::Ready(Some(Ok(frame))) => {
                if let (Some(data), Some(open)) = (frame.data_ref(), &mut self.open) {
                    let now = Instant::now();
                    open.size = open.size.saturating_add(data.len());
                    if open.size > MAX_ANSWER_BYTES {
                        open.heard.end = Ending::TooLarge;
                        open.heard.pieces.clear();
                    } else {
                        open.heard.pieces.push((now.saturating_duration_since(open.last), data.clone()));
                    }
                    open.last = now;
                }
                // Nobody asks again after the last byte of a known length.
                if self.incoming.is_end_stream() {
                    self.end(Ending::Complete);
                }
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

impl Drop for Tee {
    fn drop(&mut self) {
        self.end(Ending::Left);
    }
}
