//! A message stream that records its messages as spans.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::SystemTime;

use futures_core::Stream;
use yb_claude::sdk::Error;
use yb_claude::{Message, ResultMessage};

use crate::agent_spans::{AgentOutcome, AgentSpans};

/// The messages of a query or a turn, recorded as spans while they are read.
#[derive(Debug)]
#[must_use = "streams do nothing unless polled"]
pub struct TracedMessages<S> {
    messages: S,
    spans: AgentSpans,
    since: SystemTime,
    /// The number of agent spans started before.
    roots_started: u64,
    ended: bool,
}

impl<S> TracedMessages<S> {
    pub(crate) fn new(messages: S, spans: AgentSpans) -> Self {
        let roots_started = spans.state().tree.roots_started();
        Self { messages, spans, since: SystemTime::now(), roots_started, ended: false }
    }

    /// Ends the session with an error. Starts its span first if it failed before its prompt was reported.
    fn failed(&mut self, error: &Error) {
        {
            let tree = &mut self.spans.state().tree;
            if tree.roots_started() == self.roots_started {
                tree.start_root(None, self.since);
            }
        }
        self.end(AgentOutcome::error(kind(error), error.to_string()));
    }

    fn end(&mut self, end: AgentOutcome) {
        if !std::mem::replace(&mut self.ended, true) {
            self.spans.end(end);
        }
    }
}

impl<S: Stream<Item = Result<Message, Error>> + Unpin> TracedMessages<S> {
    /// Returns the next message, or `None` at the end. Cancel-safe if the inner stream is.
    pub async fn next(&mut self) -> Option<Result<Message, Error>> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// Reads all messages and returns the last result.
    ///
    /// # Errors
    /// Fails with [`Error::Result`] if the result is an error, and with the stream's error if there is no result.
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

    /// Reads all messages and returns the text of the result.
    ///
    /// # Errors
    /// As [`result`](Self::result).
    pub async fn text(self) -> Result<String, Error> {
        Ok(self.result().await?.result.unwrap_or_default())
    }
}

impl<S: Stream<Item = Result<Message, Error>> + Unpin> Stream for TracedMessages<S> {
    type Item = Result<Message, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = Pin::new(&mut self.messages).poll_next(cx);
        match &next {
            Poll::Ready(Some(Ok(message))) => self.spans.observe(message, SystemTime::now()),
            Poll::Ready(Some(Err(error))) => {
                self.failed(error);
            }
            Poll::Ready(None) => self.end(AgentOutcome::Ok),
            Poll::Pending => {}
        }
        next
    }
}

impl<S> Drop for TracedMessages<S> {
    fn drop(&mut self) {
        // The reader may stop after the result.
        let finished = self.spans.has_outcome();
        self.end(if finished { AgentOutcome::Ok } else { AgentOutcome::Aborted });
    }
}

/// Returns the `error.type` of an error.
fn kind(error: &Error) -> &'static str {
    match error {
        Error::Exited(_) => "crashed",
        Error::Timeout { .. } => "timeout",
        Error::Protocol(_) => "protocol",
        Error::CliNotFound(_) | Error::Spawn { .. } => "not_started",
        _ => "error",
    }
}
