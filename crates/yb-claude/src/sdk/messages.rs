//! A stream of messages that somebody reads, and what the last of them comes to.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use super::actor::{Command, is_failure};
use super::spool::Spool;
use super::{Error, Exit};
use crate::{Message, RawJson, ResultMessage};

/// A session, as those who speak to it hold it. When the last one is dropped, the CLI ends.
#[derive(Clone)]
pub(super) struct Handle {
    pub(super) commands: mpsc::UnboundedSender<Command>,
    /// How the CLI ended, once it has.
    pub(super) exit: Arc<OnceLock<Exit>>,
}

impl Handle {
    pub(super) fn send(&self, command: Command) -> Result<(), Error> {
        self.commands.send(command).map_err(|_| Error::Closed)
    }

    pub(super) async fn call(&self, body: Value, patience: std::time::Duration) -> Result<RawJson, Error> {
        let (answer, answered) = oneshot::channel();
        self.send(Command::Call { body, patience, answer })?;
        answered.await.unwrap_or(Err(Error::Closed))
    }
}

/// Messages on their way to whoever reads them. It keeps the session alive.
pub(super) struct Messages {
    spool: Spool,
    _handle: Handle,
}

impl Messages {
    pub(super) fn new(spool: Spool, handle: Handle) -> Self {
        Self { spool, _handle: handle }
    }

    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Message, Error>>> {
        self.spool.poll_next(cx)
    }
}

/// The end of a turn or query: its last result, if that is no error.
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

/// The structured output of a result. A success without it is an error: the CLI says `success` also then.
pub(super) fn structured<T: DeserializeOwned>(result: ResultMessage) -> Result<T, Error> {
    let Some(raw) = &result.structured_output else {
        return Err(Error::NoStructuredOutput(Box::new(result)));
    };
    raw.parse()
        .map_err(|error| Error::WrongStructuredOutput { reason: error.to_string(), raw: raw.detached() })
}
