//! Options plus the callbacks and the transport of a session.

use std::fmt::{self, Display};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::handlers::{CallContext, DialogHandler, Handlers};
use super::permission::{
    DialogResponse, Elicitation, ElicitationResponse, PermissionResult, ToolRequest, UserDialog,
};
use super::servers::{McpService, SessionMcpServer};
use super::store::{SessionStore, StoreFlush};
use super::subprocess::Subprocess;
use super::transport::Transport;
use super::{Client, Error, Hooks, Query, Spare, ToolServer};
use crate::{EnvChange, Options, Prompt, env_vars};

/// The default timeout of control requests, including `initialize`.
const CONTROL_TIMEOUT: Duration = Duration::from_secs(60);
/// The default timeout of reading from a session store.
const STORE_TIMEOUT: Duration = Duration::from_secs(60);
/// The default wait for background agents after the last result.
const BACKGROUND_WAIT: Duration = Duration::from_secs(600);

/// How long the CLI may take to exit after a run is over.
const LINGER: Duration = Duration::from_secs(60);

/// Options plus the callbacks of this program: hooks, tools and permissions. [`query`](super::query) and
/// [`Client::connect`] also take plain [`Options`].
///
/// ```no_run
/// use yb_claude::Options;
/// use yb_claude::sdk::{Host, PermissionResult};
///
/// # async fn example() -> Result<(), yb_claude::sdk::Error> {
/// let host = Host::new(Options::default()).with_can_use_tool(|request, _cx| async move {
///     match request.tool_name.as_str() {
///         "Write" | "Edit" => PermissionResult::allow(),
///         other => PermissionResult::deny(format!("no {other} today")),
///     }
/// });
/// println!("{}", host.query("Tidy up README.md").text().await?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use]
pub struct Host {
    pub(super) options: Options,
    pub(super) hooks: Hooks,
    pub(super) handlers: Handlers,
    pub(super) transport: Arc<dyn Transport>,
    /// Other fields of the `initialize` request.
    pub(super) initialize: Map<String, Value>,
    pub(super) store: Option<Arc<dyn SessionStore>>,
    pub(super) store_flush: StoreFlush,
    pub(super) store_timeout: Duration,
    pub(super) control_timeout: Duration,
    background_wait: Duration,
}

/// The return value of a callback: the value itself or a `Result`.
pub trait IntoCallbackResult<T> {
    /// Converts to the value or an error message.
    ///
    /// # Errors
    /// The callback's error.
    fn into_result(self) -> Result<T, String>;
}

impl IntoCallbackResult<PermissionResult> for PermissionResult {
    fn into_result(self) -> Result<PermissionResult, String> {
        Ok(self)
    }
}

impl IntoCallbackResult<ElicitationResponse> for ElicitationResponse {
    fn into_result(self) -> Result<ElicitationResponse, String> {
        Ok(self)
    }
}

impl IntoCallbackResult<DialogResponse> for DialogResponse {
    fn into_result(self) -> Result<DialogResponse, String> {
        Ok(self)
    }
}

impl<T, E: Display> IntoCallbackResult<T> for Result<T, E> {
    fn into_result(self) -> Result<T, String> {
        self.map_err(|error| error.to_string())
    }
}

impl Host {
    /// Creates a host without callbacks.
    pub fn new(options: Options) -> Self {
        Self {
            options,
            hooks: Hooks::new(),
            handlers: Handlers::default(),
            transport: Arc::new(Subprocess::new()),
            initialize: Map::new(),
            store: None,
            store_flush: StoreFlush::default(),
            store_timeout: STORE_TIMEOUT,
            control_timeout: CONTROL_TIMEOUT,
            background_wait: BACKGROUND_WAIT,
        }
    }

    /// Adds hooks.
    pub fn with_hooks(mut self, hooks: Hooks) -> Self {
        self.hooks = self.hooks.and(hooks);
        self.handlers.hooks = self.hooks.callbacks().to_vec();
        self
    }

    /// Adds a tool server. Its tools need permission like others: see [`ToolServer::tool_names`].
    pub fn with_tools(mut self, server: ToolServer) -> Self {
        self.handlers.servers.insert(server.name().to_owned(), server.into());
        self
    }

    /// Adds an in-process MCP server under a name, for what a [`ToolServer`] does not support.
    pub fn with_mcp_service(mut self, name: impl Into<String>, service: impl McpService + 'static) -> Self {
        self.handlers.servers.insert(name.into(), SessionMcpServer::service(service));
        self
    }

    /// Sets the callback for permission requests, which is called when neither rules nor permission mode decide.
    pub fn with_can_use_tool<F, R>(mut self, decide: F) -> Self
    where
        F: Fn(ToolRequest, CallContext) -> R + Send + Sync + 'static,
        R: Future<Output: IntoCallbackResult<PermissionResult>> + Send + 'static,
    {
        self.handlers.can_use_tool = Some(Arc::new(move |request, context| {
            let decision = decide(request, context);
            Box::pin(async move { decision.await.into_result() })
        }));
        self
    }

    /// Sets the callback for MCP elicitations; without one they are declined.
    pub fn with_elicitation<F, R>(mut self, respond: F) -> Self
    where
        F: Fn(Elicitation, CallContext) -> R + Send + Sync + 'static,
        R: Future<Output: IntoCallbackResult<ElicitationResponse>> + Send + 'static,
    {
        self.handlers.elicitation = Some(Arc::new(move |request, context| {
            let response = respond(request, context);
            Box::pin(async move { response.await.into_result() })
        }));
        self
    }

    /// Sets the callback for dialogs of these kinds, such as `refusal_fallback_prompt`. Without it, the CLI shows no dialogs.
    pub fn with_user_dialog<F, R>(
        mut self,
        kinds: impl IntoIterator<Item = impl Into<String>>,
        show: F,
    ) -> Self
    where
        F: Fn(UserDialog, CallContext) -> R + Send + Sync + 'static,
        R: Future<Output: IntoCallbackResult<DialogResponse>> + Send + 'static,
    {
        let kinds: Vec<String> = kinds.into_iter().map(Into::into).collect();
        self.initialize.insert("supportedDialogKinds".to_owned(), json!(kinds));
        let show = Arc::new(move |dialog, context| {
            let response = show(dialog, context);
            Box::pin(async move { response.await.into_result() }) as _
        });
        self.handlers.dialog = Some(DialogHandler { kinds, show });
        self
    }

    /// Adds a field to the `initialize` request, under the CLI's name. Takes precedence over options.
    pub fn with_initialize_field(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.initialize.insert(name.into(), value.into());
        self
    }

    /// Redirects calls of one tool to another, such as `Bash` to `mcp__sandbox__bash`.
    pub fn with_tool_alias(mut self, tool: impl Into<String>, target: impl Into<String>) -> Self {
        let aliases = self.initialize.entry("toolAliases").or_insert_with(|| json!({}));
        if let Value::Object(aliases) = aliases {
            aliases.insert(tool.into(), Value::String(target.into()));
        }
        self
    }

    /// Sets the title of a new session.
    pub fn with_title(self, title: impl Into<String>) -> Self {
        self.with_initialize_field("title", title.into())
    }

    /// Replaces the instructions of plan mode.
    pub fn with_plan_mode_instructions(self, instructions: impl Into<String>) -> Self {
        self.with_initialize_field("planModeInstructions", instructions.into())
    }

    /// Requests suggestions for the next prompt, in `prompt_suggestion` messages.
    pub fn with_prompt_suggestions(self, suggest: bool) -> Self {
        self.with_initialize_field("promptSuggestions", suggest)
    }

    /// Requests summaries of the progress of subagents, in `task_progress` messages.
    pub fn with_agent_progress_summaries(self, summarize: bool) -> Self {
        self.with_initialize_field("agentProgressSummaries", summarize)
    }

    /// Copies transcripts to a store, and resumes sessions from it.
    pub fn with_session_store(mut self, store: impl SessionStore + 'static) -> Self {
        self.store = Some(Arc::new(store));
        self
    }

    /// Sets when transcripts are copied to the store; by default [`StoreFlush::Batched`].
    pub fn with_session_store_flush(mut self, flush: StoreFlush) -> Self {
        self.store_flush = flush;
        self
    }

    /// Sets the timeout of each call that reads from the store when a session is resumed; 60 s by default.
    pub fn with_session_store_timeout(mut self, timeout: Duration) -> Self {
        self.store_timeout = timeout;
        self
    }

    /// Sets the transport; by default a [`Subprocess`] with the installed CLI.
    pub fn with_transport(mut self, transport: impl Transport + 'static) -> Self {
        self.transport = Arc::new(transport);
        self
    }

    /// Sets the timeout of control requests, including `initialize`; 60 s by default.
    pub fn with_control_timeout(mut self, timeout: Duration) -> Self {
        self.control_timeout = timeout;
        self
    }

    /// Sets the maximum wait for background agents after the last result; 600 s by default, 0 means no limit.
    /// `CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS` in the options takes precedence.
    pub fn with_background_wait(mut self, wait: Duration) -> Self {
        self.background_wait = wait;
        self
    }

    /// Returns the options.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Creates a query with one prompt.
    pub fn query(&self, prompt: impl Into<Prompt>) -> Query {
        super::query(prompt, self)
    }

    /// Creates a query with several prompts, which are sent as the stream yields them.
    pub fn query_stream<S>(&self, prompts: S) -> Query
    where
        S: futures_core::Stream<Item = Prompt> + Send + 'static,
    {
        super::query_stream(prompts, self)
    }

    /// Starts a CLI in advance, before the working directory is known.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub async fn prewarm(&self) -> Result<Spare, Error> {
        Spare::start(self).await
    }

    /// Opens a session with many turns.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub async fn connect(&self) -> Result<Client, Error> {
        Client::connect(self).await
    }

    /// How long the CLI may take to exit after a run is over: `SessionEnd` hooks may still run, and background shells keep
    /// it alive.
    pub(super) fn linger(&self) -> Option<Duration> {
        if self.options.background_tasks {
            self.background_wait().map(|wait| wait + LINGER)
        } else {
            Some(LINGER)
        }
    }

    /// The maximum wait for background agents; `None` means no limit.
    pub(super) fn background_wait(&self) -> Option<Duration> {
        let set = self.options.env.get(std::ffi::OsStr::new(env_vars::CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS));
        let wait = match set {
            Some(EnvChange::Set(value)) => value.to_str().and_then(|text| text.parse().ok()),
            _ => None,
        };
        Some(wait.map_or(self.background_wait, Duration::from_millis)).filter(|wait| !wait.is_zero())
    }
}

impl From<Options> for Host {
    fn from(options: Options) -> Self {
        Self::new(options)
    }
}

impl From<&Options> for Host {
    fn from(options: &Options) -> Self {
        Self::new(options.clone())
    }
}

impl From<&Host> for Host {
    fn from(host: &Host) -> Self {
        host.clone()
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Host")
            .field("options", &self.options)
            .field("hooks", &self.hooks)
            .field("tools", &self.handlers.servers.keys().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
