//! Queries: one prompt and the stream of its messages.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::actor::SessionCommand;
use super::handlers::BoxFuture;
use super::messages::{self, Messages};
use super::schema::schema_of;
use super::spool::spool;
use super::turns::Sink;
use super::{Error, Host, initialize};
use crate::{Message, OptionsError, Prompt, ResultMessage};

/// Creates a query with one prompt. The CLI is started when the query is first polled.
///
/// `host` is [`Options`](crate::Options) or a [`Host`].
pub fn query(prompt: impl Into<Prompt>, host: impl Into<Host>) -> Query {
    Query { state: QueryState::New(Box::new((host.into(), prompt.into()))) }
}

/// A query: a stream of messages that ends when the CLI exits.
///
/// An error is the last item. A run with background agents has several results; the last one counts. Dropping a query
/// kills the CLI, and its descendants if the program calls [`shim_main`](crate::shim_main) first in `main`.
#[must_use = "a query does nothing until it is polled"]
pub struct Query {
    state: QueryState,
}

enum QueryState {
    New(Box<(Host, Prompt)>),
    Opening(BoxFuture<Result<Messages, Error>>),
    Open(Messages),
    Done,
}

impl Query {
    /// Returns the next message; `None` at the end. Cancel-safe.
    pub async fn next(&mut self) -> Option<Result<Message, Error>> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll(cx)).await
    }

    /// Reads all messages and returns the last result.
    ///
    /// # Errors
    /// [`Error::Result`] if the turn failed, or the error that ended the session.
    pub async fn result(mut self) -> Result<ResultMessage, Error> {
        messages::result(&mut self).await
    }

    /// Reads all messages and returns the final text.
    ///
    /// # Errors
    /// As [`result`](Self::result).
    pub async fn text(self) -> Result<String, Error> {
        Ok(self.result().await?.result.unwrap_or_default())
    }

    /// Reads all messages and returns the structured output. The schema of `T` is used, unless the options have one.
    ///
    /// # Errors
    /// [`Error::NoStructuredOutput`] if the turn succeeded without it, [`Error::WrongStructuredOutput`] if it does not
    /// match `T`, and as [`result`](Self::result).
    pub async fn structured<T: DeserializeOwned + JsonSchema>(mut self) -> Result<T, Error> {
        if let QueryState::New(start) = &mut self.state {
            start.0.options.json_schema.get_or_insert_with(schema_of::<T>);
        }
        messages::structured(self.result().await?)
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Message, Error>>> {
        loop {
            match std::mem::replace(&mut self.state, QueryState::Done) {
                QueryState::New(start) => self.state = QueryState::Opening(Box::pin(open(start.0, start.1))),
                QueryState::Opening(mut opening) => match opening.as_mut().poll(cx) {
                    Poll::Ready(Ok(messages)) => self.state = QueryState::Open(messages),
                    Poll::Ready(Err(error)) => return Poll::Ready(Some(Err(error))),
                    Poll::Pending => {
                        self.state = QueryState::Opening(opening);
                        return Poll::Pending;
                    }
                },
                QueryState::Open(mut messages) => {
                    let next = messages.poll_next(cx);
                    if !matches!(next, Poll::Ready(None | Some(Err(_)))) {
                        self.state = QueryState::Open(messages);
                    }
                    return next;
                }
                QueryState::Done => return Poll::Ready(None),
            }
        }
    }
}

async fn open(host: Host, prompt: Prompt) -> Result<Messages, Error> {
    if let Some(issue) = prompt.check() {
        return Err(OptionsError::Invalid(vec![issue]).into());
    }
    let (writer, spool) = spool();
    let (handle, _) = initialize::open(&host, Sink::Single(writer)).await?;
    let stays_open = !host.handlers.is_empty();
    handle.send(SessionCommand::Prompt { line: prompt.frame(), stays_open })?;
    Ok(Messages::new(spool, handle))
}

impl futures_core::Stream for Query {
    type Item = Result<Message, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll(cx)
    }
}

impl fmt::Debug for Query {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            QueryState::New(_) => "new",
            QueryState::Opening(_) => "opening",
            QueryState::Open(_) => "open",
            QueryState::Done => "done",
        };
        formatter.debug_struct("Query").field("state", &state).finish_non_exhaustive()
    }
}
