//! A session over many turns.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::actor::Command;
use super::messages::{self, Handle, Messages};
use super::spool::spool;
use super::turns::{Sink, Turns};
use super::{Error, Exit, Host, Initialized, ServerStatus, initialize};
use crate::frame::lax::{from_raw, lax_struct};
use crate::{Message, OptionsError, PermissionMode, Prompt, RawJson, ResultMessage};

/// A session over many turns. Clones are handles of the same session; when the last one and the last [`Turn`] are
/// dropped, the CLI ends with everything that it started. [`close`](Self::close) is the graceful way.
///
/// ```no_run
/// use yb_claude::Options;
/// use yb_claude::sdk::Client;
///
/// # async fn example() -> Result<(), yb_claude::sdk::Error> {
/// let client = Client::connect(Options::default()).await?;
/// println!("{}", client.turn("Read README.md").text().await?);
/// println!("{}", client.turn("And what is missing there?").text().await?);
/// client.close().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    handle: Handle,
    initialized: Arc<Initialized>,
    patience: Duration,
}

lax_struct! {
    /// What an interrupt came to.
    pub struct Interrupted {
        raw,
        /// Prompts that still wait, by id.
        still_queued: Vec<String> = "still_queued",
    }
}

lax_struct! {
    /// How much of the model's context is used, and by what.
    pub struct ContextUsage {
        raw,
        /// All of it.
        total_tokens: u64 = "totalTokens",
        /// How much there is.
        max_tokens: u64 = "maxTokens",
        /// How much that is, in percent.
        percentage: Option<f64> = "percentage",
        /// The model.
        model: Option<String> = "model",
        /// What uses it: objects with `name` and `tokens`.
        categories: Vec<RawJson> = "categories",
    }
}

lax_struct! {
    /// What rewinding files came to.
    pub struct Rewound {
        raw,
        /// Whether it can be done.
        can_rewind: bool = "canRewind",
        /// Why not.
        error: Option<String> = "error",
        /// The files that change.
        files_changed: Vec<String> = "filesChanged",
        /// Lines that come back.
        insertions: Option<u64> = "insertions",
        /// Lines that go.
        deletions: Option<u64> = "deletions",
    }
}

impl Client {
    /// Opens a session. `host` is [`Options`](crate::Options) or a [`Host`].
    ///
    /// # Errors
    /// When the CLI can't be started, or refuses what is asked of it.
    pub async fn connect(host: impl Into<Host>) -> Result<Self, Error> {
        let host = host.into();
        let (handle, initialized) = initialize::open(&host, Sink::Turns(Turns::default())).await?;
        Ok(Self { handle, initialized: Arc::new(initialized), patience: host.patience })
    }

    /// What the CLI said about itself at the beginning.
    #[must_use]
    pub fn initialized(&self) -> &Initialized {
        &self.initialized
    }

    /// Says something; the turn ends with its own result. Turns wait for each other, so several may be begun at
    /// once. One that is dropped before it began is never said.
    pub fn turn(&self, prompt: impl Into<Prompt>) -> Turn {
        let prompt = prompt.into();
        let (filler, spool) = spool();
        if let Some(finding) = prompt.check() {
            filler.end(Some(OptionsError::Invalid(vec![finding]).into()));
        } else if let Err(error) =
            self.handle.send(Command::Turn { line: prompt.frame(), filler: filler.clone() })
        {
            filler.end(Some(error));
        }
        Turn { messages: Messages::new(spool, self.handle.clone()) }
    }

    /// Says something beside the turns, while one goes on: the model hears it as soon as it can. What comes of it
    /// belongs to the turn that is on, or to nobody: see [`unclaimed`](Self::unclaimed).
    ///
    /// # Errors
    /// When the session is over.
    pub async fn send(&self, prompt: impl Into<Prompt>) -> Result<(), Error> {
        let prompt = prompt.into();
        if let Some(finding) = prompt.check() {
            return Err(OptionsError::Invalid(vec![finding]).into());
        }
        let (written, was_written) = oneshot::channel();
        self.handle.send(Command::Send { line: prompt.frame(), written })?;
        was_written.await.unwrap_or(Err(Error::Closed))
    }

    /// The messages that belong to no turn, from now on: of agents that report later, for example. Without this they
    /// are dropped. Only the last one who asked hears them.
    pub fn unclaimed(&self) -> Turn {
        let (filler, spool) = spool();
        if let Err(error) = self.handle.send(Command::Unclaimed(filler.clone())) {
            filler.end(Some(error));
        }
        Turn { messages: Messages::new(spool, self.handle.clone()) }
    }

    /// Stops the turn that is on. It ends with a result that says so, and the session can be used further.
    ///
    /// # Errors
    /// As [`control`](Self::control).
    pub async fn interrupt(&self) -> Result<Interrupted, Error> {
        self.ask(json!({"subtype": "interrupt"})).await
    }

    /// Changes the model, for all turns from now on; none is the default one.
    ///
    /// # Errors
    /// As [`control`](Self::control).
    pub async fn set_model(&self, model: Option<&str>) -> Result<(), Error> {
        self.control(json!({"subtype": "set_model", "model": model})).await.map(drop)
    }

    /// Changes the mode of permissions.
    ///
    /// # Errors
    /// As [`control`](Self::control).
    pub async fn set_permission_mode(&self, mode: PermissionMode) -> Result<(), Error> {
        self.control(json!({"subtype": "set_permission_mode", "mode": mode.as_str()})).await.map(drop)
    }

    /// Changes how many tokens the model may think; none is the default.
    ///
    /// # Errors
    /// As [`control`](Self::control).
    pub async fn set_max_thinking_tokens(&self, tokens: Option<u32>) -> Result<(), Error> {
        self.control(json!({"subtype": "set_max_thinking_tokens", "max_thinking_tokens": tokens}))
            .await
            .map(drop)
    }

    /// The MCP servers and how they are.
    ///
    /// # Errors
    /// As [`control`](Self::control).
    pub async fn mcp_status(&self) -> Result<Vec<ServerStatus>, Error> {
        let answer: Servers = self.ask(json!({"subtype": "mcp_status"})).await?;
        Ok(answer.servers)
    }

    /// Connects to an MCP server again.
    ///
    /// # Errors
    /// As [`control`](Self::control).
    pub async fn mcp_reconnect(&self, server: &str) -> Result<(), Error> {
        self.control(json!({"subtype": "mcp_reconnect", "serverName": server})).await.map(drop)
    }

    /// Switches an MCP server on or off.
    ///
    /// # Errors
    /// As [`control`](Self::control).
    pub async fn mcp_toggle(&self, server: &str, enabled: bool) -> Result<(), Error> {
        let body = json!({"subtype": "mcp_toggle", "serverName": server, "enabled": enabled});
        self.control(body).await.map(drop)
    }

    /// How much of the model's context is used.
    ///
    /// # Errors
    /// As [`control`](Self::control).
    pub async fn context_usage(&self) -> Result<ContextUsage, Error> {
        self.ask(json!({"subtype": "get_context_usage"})).await
    }

    /// What [`rewind_files`](Self::rewind_files) would do.
    ///
    /// # Errors
    /// As [`control`](Self::control).
    pub async fn can_rewind_files(&self, user_message: &str) -> Result<Rewound, Error> {
        let body = json!({"subtype": "rewind_files", "user_message_id": user_message, "dry_run": true});
        self.ask(body).await
    }

    /// Brings files back to what they were at a message of the user, by its `uuid`; needs
    /// [`file_checkpointing`](crate::Options::file_checkpointing), and
    /// [`replay_user_messages`](crate::Options::replay_user_messages) to learn the id.
    ///
    /// # Errors
    /// As [`control`](Self::control).
    pub async fn rewind_files(&self, user_message: &str) -> Result<Rewound, Error> {
        self.ask(json!({"subtype": "rewind_files", "user_message_id": user_message})).await
    }

    /// Stops a task that runs in the background.
    ///
    /// # Errors
    /// As [`control`](Self::control).
    pub async fn stop_task(&self, task: &str) -> Result<(), Error> {
        self.control(json!({"subtype": "stop_task", "task_id": task})).await.map(drop)
    }

    /// Any request of the control protocol, an object with its `subtype`.
    ///
    /// # Errors
    /// [`Error::Control`] when the CLI refuses, [`Error::Timeout`] when it does not answer, and what ended the session
    /// as soon as it is over.
    pub async fn control(&self, body: Value) -> Result<RawJson, Error> {
        self.handle.call(body, self.patience).await
    }

    async fn ask<T: crate::frame::lax::Lax + Default>(&self, body: Value) -> Result<T, Error> {
        Ok(from_raw(&self.control(body).await?).unwrap_or_default())
    }

    /// Ends the session: the CLI's input ends, and it has 5 s to leave; then it is told to, and 5 s later it is made to.
    /// Closing what is over already only tells how it ended.
    ///
    /// # Errors
    /// When the runtime in which the session ran is gone.
    pub async fn close(&self) -> Result<Exit, Error> {
        let (sender, exit) = oneshot::channel();
        let asked = self.handle.send(Command::Close(sender));
        if asked.is_ok()
            && let Ok(exit) = exit.await
        {
            return Ok(exit);
        }
        self.handle.exit.get().cloned().ok_or(Error::Closed)
    }
}

lax_struct! {
    /// The answer to `mcp_status`.
    struct Servers {
        /// All of them.
        servers: Vec<ServerStatus> = "mcpServers",
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Client").finish_non_exhaustive()
    }
}

/// What comes of one prompt: a stream of messages that ends with its result.
#[must_use = "a turn that is dropped before it began is never said"]
pub struct Turn {
    messages: Messages,
}

impl Turn {
    /// The next message; `None` after the result. Cancel-safe.
    pub async fn next(&mut self) -> Option<Result<Message, Error>> {
        std::future::poll_fn(|cx| self.messages.poll_next(cx)).await
    }

    /// Reads it to its end: the result.
    ///
    /// # Errors
    /// [`Error::Result`] when that is an error, and whatever ended the session before.
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

    /// Reads it to its end: the answer in the shape of `T`. The schema is the session's.
    ///
    /// # Errors
    /// [`Error::NoStructuredOutput`], [`Error::WrongStructuredOutput`], and as [`result`](Self::result).
    pub async fn structured<T: DeserializeOwned>(self) -> Result<T, Error> {
        messages::structured(self.result().await?)
    }
}

impl futures_core::Stream for Turn {
    type Item = Result<Message, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.messages.poll_next(cx)
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Turn").finish_non_exhaustive()
    }
}
