//! What a session may ask of this program, and how it is carried.

use std::fmt::{self, Display};
use std::sync::Arc;
use std::time::Duration;

use super::handlers::{CallContext, Handlers};
use super::permission::{Elicitation, ElicitationAnswer, Permission, ToolRequest};
use super::subprocess::Subprocess;
use super::transport::Transport;
use super::{Client, Error, Hooks, Query, ToolServer};
use crate::{EnvChange, Options, Prompt, env_vars};

/// How long the CLI has for `initialize` and for every other request.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long background agents are waited for after the last result.
const BACKGROUND_WAIT: Duration = Duration::from_secs(600);

/// How long the CLI may take to leave after a run is over.
const LINGER: Duration = Duration::from_secs(60);

/// Options, and what a session with them may ask of this program: hooks, tools, permissions. `query` and
/// [`Client::connect`] take plain [`Options`] as well.
///
/// ```no_run
/// use yb_claude::Options;
/// use yb_claude::sdk::{Host, Permission};
///
/// # async fn example() -> Result<(), yb_claude::sdk::Error> {
/// let host = Host::new(Options::default()).with_can_use_tool(|request, _cx| async move {
///     match request.tool_name.as_str() {
///         "Write" | "Edit" => Permission::allow(),
///         other => Permission::deny(format!("no {other} today")),
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
    pub(super) patience: Duration,
    background_wait: Duration,
}

/// What a callback may answer with: the value itself or a `Result` of it.
pub trait Fallible<T> {
    /// The value, or the error in words.
    ///
    /// # Errors
    /// The callback's own.
    fn into_result(self) -> Result<T, String>;
}

impl Fallible<Permission> for Permission {
    fn into_result(self) -> Result<Permission, String> {
        Ok(self)
    }
}

impl Fallible<ElicitationAnswer> for ElicitationAnswer {
    fn into_result(self) -> Result<ElicitationAnswer, String> {
        Ok(self)
    }
}

impl<T, E: Display> Fallible<T> for Result<T, E> {
    fn into_result(self) -> Result<T, String> {
        self.map_err(|error| error.to_string())
    }
}

impl Host {
    /// A host that can be asked nothing.
    pub fn new(options: Options) -> Self {
        Self {
            options,
            hooks: Hooks::new(),
            handlers: Handlers::default(),
            transport: Arc::new(Subprocess::new()),
            patience: PATIENCE,
            background_wait: BACKGROUND_WAIT,
        }
    }

    /// The same with these hooks beside those it has.
    pub fn with_hooks(mut self, hooks: Hooks) -> Self {
        self.hooks = self.hooks.and(hooks);
        self.handlers.hooks = self.hooks.callbacks().to_vec();
        self
    }

    /// The same with these tools. They need permission like any other: see [`ToolServer::tool_names`].
    pub fn with_tools(mut self, server: ToolServer) -> Self {
        self.handlers.servers.insert(server.name().to_owned(), server);
        self
    }

    /// The same with a callback that decides where the rules and the mode of permissions would ask the user.
    pub fn with_can_use_tool<F, R>(mut self, decide: F) -> Self
    where
        F: Fn(ToolRequest, CallContext) -> R + Send + Sync + 'static,
        R: Future<Output: Fallible<Permission>> + Send + 'static,
    {
        self.handlers.can_use_tool = Some(Arc::new(move |request, context| {
            let decision = decide(request, context);
            Box::pin(async move { decision.await.into_result() })
        }));
        self
    }

    /// The same with a callback that answers questions of MCP servers to the user; without one they are declined.
    pub fn with_elicitation<F, R>(mut self, answer: F) -> Self
    where
        F: Fn(Elicitation, CallContext) -> R + Send + Sync + 'static,
        R: Future<Output: Fallible<ElicitationAnswer>> + Send + 'static,
    {
        self.handlers.elicitation = Some(Arc::new(move |question, context| {
            let answer = answer(question, context);
            Box::pin(async move { answer.await.into_result() })
        }));
        self
    }

    /// The same, carried by something else than the installed CLI with this process's environment.
    pub fn with_transport(mut self, transport: impl Transport + 'static) -> Self {
        self.transport = Arc::new(transport);
        self
    }

    /// The same with another patience than 60 s for `initialize` and every other request to the CLI.
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The same with another time than 600 s for agents that still run in the background after the last result; zero
    /// waits for ever. `CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS` in the options wins.
    pub fn with_background_wait(mut self, wait: Duration) -> Self {
        self.background_wait = wait;
        self
    }

    /// Its options.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Asks once.
    pub fn query(&self, prompt: impl Into<Prompt>) -> Query {
        super::query(prompt, self)
    }

    /// Opens a session for many turns.
    ///
    /// # Errors
    /// When the CLI can't be started, or refuses what is asked of it.
    pub async fn connect(&self) -> Result<Client, Error> {
        Client::connect(self).await
    }

    /// How long the CLI may take to leave after a run is over; hooks of the session's end may still run then, and
    /// shells in the background keep it alive.
    pub(super) fn linger(&self) -> Option<Duration> {
        if self.options.background_tasks { self.ceiling().map(|wait| wait + LINGER) } else { Some(LINGER) }
    }

    /// How long background agents are waited for; none is for ever.
    pub(super) fn ceiling(&self) -> Option<Duration> {
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
