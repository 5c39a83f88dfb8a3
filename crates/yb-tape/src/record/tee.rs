//! Response body that forwards each chunk immediately and captures a copy.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::HeaderMap;
use hyper::http::request::Parts;

use crate::format::record::ResponseEnding;
use crate::upstream::{Client, Sender};

/// Longer responses are forwarded, but not recorded.
const MAX_RESPONSE_BYTES: usize = 256 * 1024 * 1024;

/// A forwarded request and its response.
#[derive(Debug)]
pub(crate) struct CapturedExchange {
    pub(crate) number: u64,
    pub(crate) at: Duration,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) status: Option<u16>,
    pub(crate) response_headers: HeaderMap,
    /// Each chunk with the time since the previous one.
    pub(crate) chunks: Vec<(Duration, Bytes)>,
    pub(crate) end: ResponseEnding,
}

impl CapturedExchange {
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
            chunks: Vec::new(),
            // The default if the body is dropped before its end.
            end: ResponseEnding::ClientDisconnected,
        }
    }

    pub(crate) fn response_body(&self) -> Vec<u8> {
        self.chunks.iter().flat_map(|(_, chunk)| chunk.iter().copied()).collect()
    }
}

type CaptureCallback = Box<dyn FnOnce(CapturedExchange) + Send>;

/// Forwards a response and passes the captured exchange to a callback when it ends for any reason.
pub(crate) struct TeeBody {
    incoming: Incoming,
    capture: Option<Capture>,
    connection: Option<(Arc<Client>, Sender)>,
}

struct Capture {
    exchange: CapturedExchange,
    last_chunk: Instant,
    size: usize,
    on_end: CaptureCallback,
}

impl TeeBody {
    pub(crate) fn new(
        incoming: Incoming,
        exchange: CapturedExchange,
        requested: Instant,
        on_end: impl FnOnce(CapturedExchange) + Send + 'static,
    ) -> Self {
        let capture = Capture { exchange, last_chunk: requested, size: 0, on_end: Box::new(on_end) };
        Self { incoming, capture: Some(capture), connection: None }
    }

    /// Forwards a response without capturing it.
    pub(crate) fn forwarding(incoming: Incoming) -> Self {
        Self { incoming, capture: None, connection: None }
    }

    /// Returns the connection to the client's pool once the response is read completely.
    pub(crate) fn returning(mut self, client: Arc<Client>, sender: Sender) -> Self {
        self.connection = Some((client, sender));
        if self.incoming.is_end_stream() {
            self.end(ResponseEnding::Complete);
        }
        self
    }

    fn end(&mut self, end: ResponseEnding) {
        if let Some((client, sender)) = self.connection.take()
            && end == ResponseEnding::Complete
        {
            client.recycle(sender);
        }
        let Some(Capture { mut exchange, on_end, .. }) = self.capture.take() else { return };
        if exchange.end != ResponseEnding::TooLarge {
            exchange.end = end;
        }
        on_end(exchange);
    }
}

impl Body for TeeBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.incoming).poll_frame(context);
        match &polled {
            Poll::Pending => {}
            Poll::Ready(None) => self.end(ResponseEnding::Complete),
            Poll::Ready(Some(Err(_))) => self.end(ResponseEnding::UpstreamClosed),
            Poll::Ready(Some(Ok(frame))) => {
                if let (Some(data), Some(capture)) = (frame.data_ref(), &mut self.capture) {
                    let now = Instant::now();
                    capture.size = capture.size.saturating_add(data.len());
                    if capture.size > MAX_RESPONSE_BYTES {
                        capture.exchange.end = ResponseEnding::TooLarge;
                        capture.exchange.chunks.clear();
                    } else {
                        capture
                            .exchange
                            .chunks
                            .push((now.saturating_duration_since(capture.last_chunk), data.clone()));
                    }
                    capture.last_chunk = now;
                }
                // With a known length, the body is not polled again after its last byte.
                if self.incoming.is_end_stream() {
                    self.end(ResponseEnding::Complete);
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

impl Drop for TeeBody {
    fn drop(&mut self) {
        self.end(ResponseEnding::ClientDisconnected);
    }
}
