//! Messages on their way to whoever reads them, told to the spans as they pass.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::SystemTime;

use futures_core::Stream;
use yb_claude::sdk::Error;
use yb_claude::{Message, ResultMessage};

use crate::agent_spans::{AgentSpans, End};

/// A query or a turn whose messages are told to its spans.
#[derive(Debug)]
#[must_use = "nothing happens until it is read"]
pub struct Watched<S> {
    messages: S,
    spans: AgentSpans,
    since: SystemTime,
    /// How many sessions had begun before.
    begun: u64,
    ended: bool,
}

impl<S> Watched<S> {
    pub(crate) fn new(messages: S, spans: AgentSpans) -> Self {
        let begun = spans.state().tree.begun();
        Self { messages, spans, since: SystemTime::now(), begun, ended: false }
    }

    /// A session that failed before its prompt was heard has a span as well.
    fn failed(&mut self, error: &Error) {
        {
            let tree = &mut self.spans.state().tree;
            if tree.begun() == self.begun {
                tree.begin(None, self.since);
            }
        }
        self.end(End::error(kind(error), error.to_string()));
    }

    fn end(&mut self, end: End) {
        if !std::mem::replace(&mut self.ended, true) {
            self.spans.end(end);
        }
    }
}

impl<S: Stream<Item = Result<Message, Error>> + Unpin> Watched<S> {
    /// The next message; `None` at the end. Cancel-safe if the messages are.
    pub async fn next(&mut self) -> Option<Result<Message, Error>> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// Reads to the end: the last result.
    ///
    /// # Errors
    /// [`Error::Result`] when that is an error, and whatever kept the CLI from having one.
    pub async fn result(mut self) -> Result<ResultMessage, Error> {
        let mut last = None;
        while let Some(message) = self.next().await {
            if let Message::Result(result) = message? {
                last = Some(result);
            }
        }
        match last {
            Some(result) if result.is_error || result.subtype != yb_claude::ResultSubtype::Success => {
                Err(Error::Result(result))
            }
            Some(result) => Ok(*result),
            None => Err(Error::Closed),
        }
    }

    /// Reads to the end: the answer's text.
    ///
    /// # Errors
    /// As [`result`](Self::result).
    pub async fn text(self) -> Result<String, Error> {
        Ok(self.result().await?.result.unwrap_or_default())
    }
}

impl<S: Stream<Item = Result<Message, Error>> + Unpin> Stream for Watched<S> {
    type Item = Result<Message, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = Pin::new(&mut self.messages).poll_next(cx);
        match &next {
            Poll::Ready(Some(Ok(message))) => self.spans.frame(message, SystemTime::now()),
            Poll::Ready(Some(Err(error))) => {
                self.failed(error);
            }
            Poll::Ready(None) => self.end(End::Ok),
            Poll::Pending => {}
        }
        next
    }
}

impl<S> Drop for Watched<S> {
    fn drop(&mut self) {
        self.end(End::Aborted);
    }
}

/// A failure in one word.
fn kind(error: &Error) -> &'static str {
    match error {
        Error::Exited(_) => "crashed",
        Error::Timeout { .. } => "timeout",
        Error::Protocol(_) => "protocol",
        Error::CliNotFound(_) | Error::Spawn { .. } => "not_started",
        _ => "error",
    }
}
