//! Message streams and the extraction of their result.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use super::actor::{SessionCommand, is_failure};
use super::servers::SessionServers;
use super::spool::SpoolReader;
use super::{Error, Exit};
use crate::{Message, RawJson, ResultMessage};

/// A handle of a session. When the last handle is dropped, the CLI is terminated.
#[derive(Clone)]
pub(super) struct SessionHandle {
    pub(super) commands: mpsc::UnboundedSender<SessionCommand>,
    /// The exit of the CLI, once it has exited.
    pub(super) exit: Arc<OnceLock<Exit>>,
    pub(super) servers: SessionServers,
}

impl SessionHandle {
    pub(super) fn send(&self, command: SessionCommand) -> Result<(), Error> {
        self.commands.send(command).map_err(|_| Error::Closed)
    }

    pub(super) async fn request(&self, body: Value, timeout: std::time::Duration) -> Result<RawJson, Error> {
        let (response, receiver) = oneshot::channel();
        self.send(SessionCommand::Request { body, timeout, response })?;
        receiver.await.unwrap_or(Err(Error::Closed))
    }
}

/// A message stream. Keeps the session alive.
pub(super) struct Messages {
    spool: SpoolReader,
    pub(super) handle: SessionHandle,
}

impl Messages {
    pub(super) fn new(spool: SpoolReader, handle: SessionHandle) -> Self {
        Self { spool, handle }
    }

    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Message, Error>>> {
        self.spool.poll_next(cx)
    }
}

/// Reads a stream and returns its last result, if it is not an error.
pub(super) async fn result<S>(stream: &mut S) -> Result<ResultMessage, Error>
where
    S: futures_core::Stream<Item = Result<Message, Error>> + Unpin,
{
    let mut last = None;
    while let Some(message) = std::future::poll_fn(|cx| Pin::new(&mut *stream).poll_next(cx)).await {
        if let Message::Result(result) = message? {
            last = Some(result);
        }
    }
    match last {
        Some(result) if is_failure(&result) => Err(Error::Result(result)),
        Some(result) => Ok(*result),
        None => Err(Error::Closed),
    }
}

/// Returns the structured output of a result. A success without it is an error.
pub(super) fn structured<T: DeserializeOwned>(result: ResultMessage) -> Result<T, Error> {
    let Some(raw) = &result.structured_output else {
        return Err(Error::NoStructuredOutput(Box::new(result)));
    };
    raw.parse()
        .map_err(|error| Error::WrongStructuredOutput { reason: error.to_string(), raw: raw.detached() })
}
