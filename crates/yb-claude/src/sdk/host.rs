//! Options plus the callbacks and the transport of a session.

use std::fmt::{self, Display};
use std::sync::Arc;
use std::time::Duration;

use super::handlers::{CallContext, Handlers};
use super::permission::{Elicitation, ElicitationResponse, PermissionResult, ToolRequest};
use super::subprocess::Subprocess;
use super::transport::Transport;
use super::{Client, Error, Hooks, Query, ToolServer};
use crate::{EnvChange, Options, Prompt, env_vars};

/// The default timeout of control requests, including `initialize`.
const CONTROL_TIMEOUT: Duration = Duration::from_secs(60);
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
        self.handlers.servers.insert(server.name().to_owned(), server);
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
