//! Queries: one or more prompts and the stream of their messages.

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
    Query { state: QueryState::New(Box::new((host.into(), QueryPrompts::Single(prompt.into())))) }
}

/// Creates a query with several prompts, which are sent as the stream yields them. The stream is polled with the query.
///
/// The query ends when the stream has ended and all prompts are answered. The CLI may answer prompts that arrive during a
/// turn together.
pub fn query_stream<S>(prompts: S, host: impl Into<Host>) -> Query
where
    S: futures_core::Stream<Item = Prompt> + Send + 'static,
{
    let prompts = QueryPrompts::Stream(Box::pin(prompts));
    Query { state: QueryState::New(Box::new((host.into(), prompts))) }
}

type PromptStream = Pin<Box<dyn futures_core::Stream<Item = Prompt> + Send>>;

enum QueryPrompts {
    Single(Prompt),
    Stream(PromptStream),
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
    New(Box<(Host, QueryPrompts)>),
    Opening(BoxFuture<Result<OpenQuery, Error>>),
    Open(OpenQuery),
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
                    Poll::Ready(Ok(open)) => self.state = QueryState::Open(open),
                    Poll::Ready(Err(error)) => return Poll::Ready(Some(Err(error))),
                    Poll::Pending => {
                        self.state = QueryState::Opening(opening);
                        return Poll::Pending;
                    }
                },
                QueryState::Open(mut open) => {
                    let next = open.poll_next(cx);
                    if !matches!(next, Poll::Ready(None | Some(Err(_)))) {
                        self.state = QueryState::Open(open);
                    }
                    return next;
                }
                QueryState::Done => return Poll::Ready(None),
            }
        }
    }
}

/// A query whose CLI is running.
struct OpenQuery {
    messages: Messages,
    /// The prompts to come.
    prompts: Option<PromptStream>,
    /// Whether stdin stays open until the end of the run, for responses of callbacks.
    waits_for_run: bool,
}

impl OpenQuery {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Message, Error>>> {
        while let Some(prompts) = &mut self.prompts {
            let Poll::Ready(prompt) = prompts.as_mut().poll_next(cx) else { break };
            let sent = match prompt {
                Some(prompt) => self.send(&prompt),
                None => self.end(),
            };
            if let Err(error) = sent {
                // The session's own error follows, unless the prompt is invalid.
                self.prompts = None;
                if matches!(error, Error::Invalid(_)) {
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
        self.messages.poll_next(cx)
    }

    fn send(&self, prompt: &Prompt) -> Result<(), Error> {
        check(prompt)?;
        self.messages.handle.send(SessionCommand::Prompt { line: prompt.frame() })
    }

    fn end(&mut self) -> Result<(), Error> {
        self.prompts = None;
        let waits_for_run = self.waits_for_run;
        self.messages.handle.send(SessionCommand::EndPrompts { waits_for_run })
    }
}

fn check(prompt: &Prompt) -> Result<(), Error> {
    prompt.check().map_or(Ok(()), |issue| Err(OptionsError::Invalid(vec![issue]).into()))
}

async fn open(host: Host, prompts: QueryPrompts) -> Result<OpenQuery, Error> {
    if let QueryPrompts::Single(prompt) = &prompts {
        check(prompt)?;
    }
    let (writer, spool) = spool();
    let (handle, _) = initialize::open(&host, Sink::Single(writer)).await?;
    let waits_for_run = !host.handlers.is_empty();
    let mut open = OpenQuery { messages: Messages::new(spool, handle), prompts: None, waits_for_run };
    match prompts {
        QueryPrompts::Single(prompt) => {
            open.send(&prompt)?;
            open.end()?;
        }
        QueryPrompts::Stream(prompts) => open.prompts = Some(prompts),
    }
    Ok(open)
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
