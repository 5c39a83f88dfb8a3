//! Sessions with many turns.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use super::actor::SessionCommand;
use super::messages::{self, Messages, SessionHandle};
use super::servers::{ServerMap, SessionMcpServer};
use super::spool::spool;
use super::turns::{Sink, TurnQueue};
use super::{Error, Exit, Host, InitializeResponse, McpServerInfo, initialize};
use crate::frame::lenient::{from_raw, lenient_struct};
use crate::{Message, OptionsError, PermissionMode, Prompt, RawJson, ResultMessage, SettingSource};

/// A session with many turns. Clones are handles of the same session. When the last handle and the last [`Turn`] are
/// dropped, the CLI is killed; [`close`](Self::close) ends it gracefully. See [`shim_main`](crate::shim_main) for the
/// CLI's descendants.
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
    handle: SessionHandle,
    initialize_response: Arc<InitializeResponse>,
    control_timeout: Duration,
}

lenient_struct! {
    /// The response to an interrupt request.
    pub struct InterruptResponse {
        raw,
        /// The IDs of prompts that are still queued.
        still_queued: Vec<String> = "still_queued",
    }
}

lenient_struct! {
    /// The result of [`Client::set_mcp_servers`].
    pub struct McpServerChanges {
        raw,
        /// The new servers.
        added: Vec<String> = "added",
        /// The removed servers.
        removed: Vec<String> = "removed",
        /// The servers that could not be connected, with the reason.
        errors: BTreeMap<String, String> = "errors",
    }
}

/// What [`Client::reload`] reads again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reload {
    /// Plugins, with their commands, agents and MCP servers.
    Plugins,
    /// Skills.
    Skills,
    /// Output styles.
    OutputStyles,
}

impl Reload {
    fn subtype(self) -> &'static str {
        match self {
            Self::Plugins => "reload_plugins",
            Self::Skills => "reload_skills",
            Self::OutputStyles => "reload_output_styles",
        }
    }
}

lenient_struct! {
    /// The usage of the model's context window.
    pub struct ContextUsage {
        raw,
        /// The used tokens.
        total_tokens: u64 = "totalTokens",
        /// The size of the context window in tokens.
        max_tokens: u64 = "maxTokens",
        /// The used percentage.
        percentage: Option<f64> = "percentage",
        /// The model.
        model: Option<String> = "model",
        /// The usage by category: objects with `name` and `tokens`.
        categories: Vec<RawJson> = "categories",
    }
}

lenient_struct! {
    /// The result of rewinding files.
    pub struct RewindFilesResult {
        raw,
        /// Whether the files can be rewound.
        can_rewind: bool = "canRewind",
        /// The reason if not.
        error: Option<String> = "error",
        /// The changed files.
        files_changed: Vec<String> = "filesChanged",
        /// The number of inserted lines.
        insertions: Option<u64> = "insertions",
        /// The number of deleted lines.
        deletions: Option<u64> = "deletions",
    }
}

impl Client {
    /// Opens a session. `host` is [`Options`](crate::Options) or a [`Host`].
    ///
    /// # Errors
    /// If the CLI can't be started, or rejects the `initialize` request.
    pub async fn connect(host: impl Into<Host>) -> Result<Self, Error> {
        let host = host.into();
        let (handle, initialize_response) =
            initialize::open(&host, Sink::Turns(TurnQueue::default())).await?;
        Ok(Self {
            handle,
            initialize_response: Arc::new(initialize_response),
            control_timeout: host.control_timeout,
        })
    }

    /// Returns the CLI's response to the `initialize` request.
    #[must_use]
    pub fn initialize_response(&self) -> &InitializeResponse {
        &self.initialize_response
    }

    /// Sends a prompt; the turn ends with its own result. Turns are queued, so several may be created at once. A turn that
    /// is dropped before it starts is never sent.
    pub fn turn(&self, prompt: impl Into<Prompt>) -> Turn {
        let prompt = prompt.into();
        let (writer, spool) = spool();
        if let Some(issue) = prompt.check() {
            writer.end(Some(OptionsError::Invalid(vec![issue]).into()));
        } else if let Err(error) =
            self.handle.send(SessionCommand::Turn { line: prompt.frame(), writer: writer.clone() })
        {
            writer.end(Some(error));
        }
        Turn { messages: Messages::new(spool, self.handle.clone()) }
    }

    /// Sends a message outside of turns, even while a turn is running. Resulting messages belong to the current turn, if
    /// any, else to [`unclaimed`](Self::unclaimed).
    ///
    /// # Errors
    /// If the session is closed.
    pub async fn send(&self, prompt: impl Into<Prompt>) -> Result<(), Error> {
        let prompt = prompt.into();
        if let Some(issue) = prompt.check() {
            return Err(OptionsError::Invalid(vec![issue]).into());
        }
        let (written, was_written) = oneshot::channel();
        self.handle.send(SessionCommand::Send { line: prompt.frame(), written })?;
        was_written.await.unwrap_or(Err(Error::Closed))
    }

    /// Subscribes to messages that belong to no turn, such as reports of background agents. Without a subscriber they are
    /// dropped. Only the latest subscriber receives them.
    pub fn unclaimed(&self) -> Turn {
        let (writer, spool) = spool();
        if let Err(error) = self.handle.send(SessionCommand::Unclaimed(writer.clone())) {
            writer.end(Some(error));
        }
        Turn { messages: Messages::new(spool, self.handle.clone()) }
    }

    /// Interrupts the current turn, which ends with an error result. The session stays usable.
    ///
    /// # Errors
    /// As [`control`](Self::control).
    pub async fn interrupt(&self) -> Result<InterruptResponse, Error> {
        self.request(json!({"subtype": "interrupt"})).await
    }

    /// Sets the model for later turns; `None` selects the default.
    ///
    /// # Errors
    /// As [`control`](Self::control).
    pub async fn set_model(&self, model: Option<&str>) -> Result<(), Error> {
        self.control(json!({"subtype": "set_model", "model": model})).await.map(drop)
    }

    /// Sets the permission mode.
    ///
    /// # Errors
    /// As [`control`](Self::control).
    pub async fn set_permission_mode(&self, mode: PermissionMode) -> Result<(), Error> {
        self.control(json!({"subtype": "set_permission_mode", "mode": mode.as_str()})).await.map(drop)
    }

    /// Sets the maximum number of thinking tokens; `None` selects the default.
    ///
    /// # Errors
    /// As [`control`](Self::control).
    pub async fn set_max_thinking_tokens(&self, tokens: Option<u32>) -> Result<(), Error> {
        self.control(json!({"subtype": "set_max_thinking_tokens", "max_thinking_tokens": tokens}))
            .await
            .map(drop)
    }

    /// Returns the status of the MCP servers.
    ///
    /// # Errors
    /// As [`control`](Self::control).
    pub async fn mcp_status(&self) -> Result<Vec<McpServerInfo>, Error> {
        let response: McpStatusResponse = self.request(json!({"subtype": "mcp_status"})).await?;
        Ok(response.servers)
    }

    /// Reconnects an MCP server.
    ///
    /// # Errors
    /// As [`control`](Self::control).
    pub async fn mcp_reconnect(&self, server: &str) -> Result<(), Error> {
        self.control(json!({"subtype": "mcp_reconnect", "serverName": server})).await.map(drop)
    }

    /// Enables or disables an MCP server.
    ///
    /// # Errors
    /// As [`control`](Self::control).
    pub async fn mcp_toggle(&self, server: &str, enabled: bool) -> Result<(), Error> {
        let body = json!({"subtype": "mcp_toggle", "serverName": server, "enabled": enabled});
        self.control(body).await.map(drop)
    }

    /// Replaces the servers of earlier calls, and all in-process servers, also those of the [`Host`].
    ///
    /// # Errors
    /// As [`control`](Self::control). Servers that could not be connected are in [`McpServerChanges::errors`].
    pub async fn set_mcp_servers(
        &self,
        servers: impl IntoIterator<Item = (impl Into<String>, impl Into<SessionMcpServer>)>,
    ) -> Result<McpServerChanges, Error> {
        let servers: ServerMap =
            servers.into_iter().map(|(name, server)| (name.into(), server.into())).collect();
        let configuration: Map<String, Value> =
            servers.iter().map(|(name, server)| (name.clone(), server.to_json(name))).collect();
        let previous = self.handle.servers.extend(servers.clone());
        let changes = self.request(json!({"subtype": "mcp_set_servers", "servers": configuration})).await;
        self.handle.servers.replace(if changes.is_ok() { servers } else { previous });
        changes
    }

    /// Reads a user interface resource of an external MCP server. The CLI requires a `ui://` URI.
    ///
    /// # Errors
    /// As [`control`](Self::control).
    pub async fn read_mcp_resource(&self, server: &str, uri: &str) -> Result<Vec<RawJson>, Error> {
        let body = json!({"subtype": "mcp_read_resource", "serverName": server, "uri": uri});
        let response: McpResourceResponse = self.request(body).await?;
        Ok(response.contents)
    }

    /// Merges settings into those of the command line, for this session; `null` removes one.
    ///
    /// # Errors
    /// As [`control`](Self::control).
    pub async fn apply_flag_settings(&self, settings: Map<String, Value>) -> Result<(), Error> {
        self.control(json!({"subtype": "apply_flag_settings", "settings": settings})).await.map(drop)
    }

    /// Merges settings into a settings file: `outputStyle` into [`SettingSource::Local`], `effortLevel` into
    /// [`SettingSource::User`]. The CLI rejects others.
    ///
    /// # Errors
    /// As [`control`](Self::control).
    pub async fn update_settings(
        &self,
        source: SettingSource,
        settings: Map<String, Value>,
    ) -> Result<(), Error> {
        let source = format!("{}Settings", source.as_str());
        let body = json!({"subtype": "update_settings", "source": source, "settings": settings});
        self.control(body).await.map(drop)
    }

    /// Returns the settings: `effective`, `sources` and `applied`.
    ///
    /// # Errors
    /// As [`control`](Self::control).
    pub async fn settings(&self) -> Result<RawJson, Error> {
        self.control(json!({"subtype": "get_settings"})).await
    }

    /// Reloads plugins, skills or output styles, and returns what was found.
    ///
    /// # Errors
    /// As [`control`](Self::control).
    pub async fn reload(&self, what: Reload) -> Result<RawJson, Error> {
        self.control(json!({"subtype": what.subtype()})).await
    }

    /// Sets the title of the session.
    ///
    /// # Errors
    /// As [`control`](Self::control).
    pub async fn rename(&self, title: &str) -> Result<(), Error> {
        self.control(json!({"subtype": "rename_session", "title": title, "source": "host"})).await.map(drop)
    }

    /// Returns the usage of the context window.
    ///
    /// # Errors
    /// As [`control`](Self::control).
    pub async fn context_usage(&self) -> Result<ContextUsage, Error> {
        self.request(json!({"subtype": "get_context_usage"})).await
    }

    /// Returns what [`rewind_files`](Self::rewind_files) would do.
    ///
    /// # Errors
    /// As [`control`](Self::control).
    pub async fn can_rewind_files(&self, user_message: &str) -> Result<RewindFilesResult, Error> {
        let body = json!({"subtype": "rewind_files", "user_message_id": user_message, "dry_run": true});
        self.request(body).await
    }

    /// Restores files to their state at a user message, given by its `uuid`. Requires
    /// [`file_checkpointing`](crate::Options::file_checkpointing), and
    /// [`replay_user_messages`](crate::Options::replay_user_messages) to obtain the ID.
    ///
    /// # Errors
    /// As [`control`](Self::control).
    pub async fn rewind_files(&self, user_message: &str) -> Result<RewindFilesResult, Error> {
        self.request(json!({"subtype": "rewind_files", "user_message_id": user_message})).await
    }

    /// Stops a background task.
    ///
    /// # Errors
    /// As [`control`](Self::control).
    pub async fn stop_task(&self, task: &str) -> Result<(), Error> {
        self.control(json!({"subtype": "stop_task", "task_id": task})).await.map(drop)
    }

    /// Sends a control request, an object with a `subtype`.
    ///
    /// # Errors
    /// [`Error::Control`] if the CLI rejects it, [`Error::Timeout`] if it does not respond, and the session's error when
    /// the session ends.
    pub async fn control(&self, body: Value) -> Result<RawJson, Error> {
        self.handle.request(body, self.control_timeout).await
    }

    async fn request<T: crate::frame::lenient::LenientDeserialize + Default>(
        &self,
        body: Value,
    ) -> Result<T, Error> {
        Ok(from_raw(&self.control(body).await?).unwrap_or_default())
    }

    /// Closes the session: closes stdin, sends SIGTERM after 5 s and SIGKILL after another 5 s. For a session that has
    /// ended, only returns its exit.
    ///
    /// # Errors
    /// If the runtime of the session was shut down.
    pub async fn close(&self) -> Result<Exit, Error> {
        let (sender, exit) = oneshot::channel();
        let sent = self.handle.send(SessionCommand::Close(sender));
        if sent.is_ok()
            && let Ok(exit) = exit.await
        {
            return Ok(exit);
        }
        self.handle.exit.get().cloned().ok_or(Error::Closed)
    }
}

lenient_struct! {
    /// The response to `mcp_read_resource`.
    struct McpResourceResponse {
        /// The contents, as sent by the server.
        contents: Vec<RawJson> = "contents",
    }
}

lenient_struct! {
    /// The response to `mcp_status`.
    struct McpStatusResponse {
        /// The servers.
        servers: Vec<McpServerInfo> = "mcpServers",
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Client").finish_non_exhaustive()
    }
}

/// The messages of one prompt, a stream that ends with the result.
#[must_use = "a turn that is dropped before it starts is never sent"]
pub struct Turn {
    messages: Messages,
}

impl Turn {
    /// Returns the next message; `None` after the result. Cancel-safe.
    pub async fn next(&mut self) -> Option<Result<Message, Error>> {
        std::future::poll_fn(|cx| self.messages.poll_next(cx)).await
    }

    /// Reads all messages and returns the result.
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

    /// Reads all messages and returns the structured output, with the session's schema.
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
