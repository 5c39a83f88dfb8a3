//! One prompt, everything that happens, and its end.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::actor::Command;
use super::handlers::Boxed;
use super::messages::{self, Messages};
use super::schema::schema_of;
use super::spool::spool;
use super::turns::Sink;
use super::{Error, Host, initialize};
use crate::{Message, OptionsError, Prompt, ResultMessage};

/// Asks once: the CLI starts when the query is first read, and ends with it.
///
/// `host` is [`Options`](crate::Options) or a [`Host`].
pub fn query(prompt: impl Into<Prompt>, host: impl Into<Host>) -> Query {
    Query { state: State::New(Box::new((host.into(), prompt.into()))) }
}

/// One prompt and what comes of it: a stream of messages that ends when the CLI has.
///
/// After an error there is nothing more. A run with agents in the background has several results; the last one
/// counts. Dropping a query ends the CLI with everything that it started.
#[must_use = "a query does nothing until it is read"]
pub struct Query {
    state: State,
}

enum State {
    New(Box<(Host, Prompt)>),
    Opening(Boxed<Result<Messages, Error>>),
    Open(Messages),
    Done,
}

impl Query {
    /// The next message; `None` at the end. Cancel-safe.
    pub async fn next(&mut self) -> Option<Result<Message, Error>> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll(cx)).await
    }

    /// Reads it to its end: the last result.
    ///
    /// # Errors
    /// [`Error::Result`] when that is an error, and whatever kept the CLI from having one.
    pub async fn result(mut self) -> Result<ResultMessage, Error> {
        messages::result(&mut self).await
    }

    /// Reads it to its end: the answer's text.
    ///
    /// # Errors
    /// As [`result`](Self::result).
    pub async fn text(self) -> Result<String, Error> {
        Ok(self.result().await?.result.unwrap_or_default())
    }

    /// Reads it to its end: the answer in the shape of `T`, whose schema the model is given unless the options have one.
    ///
    /// # Errors
    /// [`Error::NoStructuredOutput`] when the turn succeeded without it, [`Error::WrongStructuredOutput`] when it
    /// has another shape, and as [`result`](Self::result).
    pub async fn structured<T: DeserializeOwned + JsonSchema>(mut self) -> Result<T, Error> {
        if let State::New(start) = &mut self.state {
            start.0.options.json_schema.get_or_insert_with(schema_of::<T>);
        }
        messages::structured(self.result().await?)
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Message, Error>>> {
        loop {
            match std::mem::replace(&mut self.state, State::Done) {
                State::New(start) => self.state = State::Opening(Box::pin(open(start.0, start.1))),
                State::Opening(mut opening) => match opening.as_mut().poll(cx) {
                    Poll::Ready(Ok(messages)) => self.state = State::Open(messages),
                    Poll::Ready(Err(error)) => return Poll::Ready(Some(Err(error))),
                    Poll::Pending => {
                        self.state = State::Opening(opening);
                        return Poll::Pending;
                    }
                },
                State::Open(mut messages) => {
                    let next = messages.poll_next(cx);
                    if !matches!(next, Poll::Ready(None | Some(Err(_)))) {
                        self.state = State::Open(messages);
                    }
                    return next;
                }
                State::Done => return Poll::Ready(None),
            }
        }
    }
}

async fn open(host: Host, prompt: Prompt) -> Result<Messages, Error> {
    if let Some(finding) = prompt.check() {
        return Err(OptionsError::Invalid(vec![finding]).into());
    }
    let (filler, spool) = spool();
    let (handle, _) = initialize::open(&host, Sink::Whole(filler)).await?;
    let stays_open = !host.handlers.is_empty();
    handle.send(Command::Prompt { line: prompt.frame(), stays_open })?;
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
            State::New(_) => "new",
            State::Opening(_) => "opening",
            State::Open(_) => "open",
            State::Done => "done",
        };
        formatter.debug_struct("Query").field("state", &state).finish_non_exhaustive()
    }
}
