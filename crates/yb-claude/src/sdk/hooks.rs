//! Hooks: callbacks of the host for CLI events, typed by event.

pub mod event;
mod event_macro;
mod output;

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::handlers::{BoxFuture, CallContext};
use crate::RawJson;

pub use output::{HookOutput, PermissionDecision};

/// A hook event with its input; all events are in [`event`].
pub trait HookEvent: Sized + Send + 'static {
    /// The event's name.
    const NAME: &'static str;
    /// The output of a hook for this event.
    type Output: HookOutput;

    /// Parses the hook's input; `None` if it is not an object.
    fn read(input: &RawJson) -> Option<Self>;
}

/// The return value of a hook: its output, or a `Result`. An error is reported to the CLI, which continues as if there
/// were no hook, unless the matcher has [`OnFailure::Block`].
pub trait IntoHookOutput<O> {
    /// Converts to the output or an error message.
    ///
    /// # Errors
    /// The hook's error.
    fn into_hook_output(self) -> Result<O, String>;
}

impl<O: HookOutput> IntoHookOutput<O> for O {
    fn into_hook_output(self) -> Result<O, String> {
        Ok(self)
    }
}

impl<O: HookOutput, E: Display> IntoHookOutput<O> for Result<O, E> {
    fn into_hook_output(self) -> Result<O, String> {
        self.map_err(|error| error.to_string())
    }
}

/// The effect of a hook that fails or times out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnFailure {
    /// The CLI continues as if there were no hook.
    #[default]
    Continue,
    /// The action is blocked. A CLI that does not support this is rejected.
    Block,
}

/// Selects the events for which a hook is called.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[must_use]
pub struct HookMatcher {
    pattern: Option<String>,
    timeout: Option<Duration>,
    on_failure: OnFailure,
}

impl HookMatcher {
    /// Matches all events.
    pub fn any() -> Self {
        Self::default()
    }

    /// Matches tools (or sources, triggers, agents, depending on the event) by name: `Bash`, `Write|Edit`, `mcp__.*`.
    pub fn new(pattern: impl Into<String>) -> Self {
        Self { pattern: Some(pattern.into()), ..Self::default() }
    }

    /// Sets how long the CLI waits for the hook, 60 s by default. Rounded up to seconds.
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets the effect of a failure.
    pub fn with_on_failure(mut self, on_failure: OnFailure) -> Self {
        self.on_failure = on_failure;
        self
    }

    fn to_json(&self, callback: usize) -> Value {
        let mut entry = json!({"matcher": self.pattern, "hookCallbackIds": [format!("hook_{callback}")]});
        if let Some(timeout) = self.timeout {
            entry["timeout"] = json!(timeout.as_secs_f64().ceil() as u64);
        }
        if self.on_failure == OnFailure::Block {
            entry["onFailure"] = json!("block");
        }
        entry
    }
}

impl From<&str> for HookMatcher {
    fn from(pattern: &str) -> Self {
        Self::new(pattern)
    }
}

type HookFn = Arc<dyn Fn(RawJson, CallContext) -> BoxFuture<Result<Value, String>> + Send + Sync>;

/// A registered hook.
#[derive(Clone)]
pub(super) struct Callback {
    event: String,
    matcher: HookMatcher,
    pub(super) run: HookFn,
}

/// The hooks of a session. Hooks for the same event run concurrently.
///
/// ```
/// use yb_claude::sdk::event::{PreToolUse, PreToolUseOutput};
/// use yb_claude::sdk::Hooks;
///
/// let hooks = Hooks::new().on("Bash", |call: PreToolUse, _cx| async move {
///     if call.tool_input.as_str().contains("rm -rf") {
///         return PreToolUseOutput::deny("not here");
///     }
///     PreToolUseOutput::new()
/// });
/// assert_eq!(hooks.len(), 1);
/// ```
#[derive(Clone, Default)]
#[must_use]
pub struct Hooks(Vec<Callback>);

impl Hooks {
    /// Creates an empty set of hooks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a hook. The event is inferred from the type of the hook's input.
    pub fn on<E, F, R>(self, matcher: impl Into<HookMatcher>, hook: F) -> Self
    where
        E: HookEvent,
        F: Fn(E, CallContext) -> R + Send + Sync + 'static,
        R: Future<Output: IntoHookOutput<E::Output>> + Send + 'static,
    {
        let run: HookFn = Arc::new(move |input, context| match E::read(&input) {
            Some(event) => {
                let output = hook(event, context);
                Box::pin(
                    async move { output.await.into_hook_output().map(|output| output.into_json(E::NAME)) },
                )
            }
            None => Box::pin(std::future::ready(Err("hook input is not an object".to_owned()))),
        });
        self.add(E::NAME.to_owned(), matcher.into(), run)
    }

    /// Adds a hook by event name, with raw input and output, for events that this version does not know.
    pub fn on_named<F, R>(self, event: impl Into<String>, matcher: impl Into<HookMatcher>, hook: F) -> Self
    where
        F: Fn(RawJson, CallContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Value, String>> + Send + 'static,
    {
        let run: HookFn = Arc::new(move |input, context| Box::pin(hook(input, context)));
        self.add(event.into(), matcher.into(), run)
    }

    fn add(mut self, event: String, matcher: HookMatcher, run: HookFn) -> Self {
        self.0.push(Callback { event, matcher, run });
        self
    }

    /// Appends other hooks.
    pub fn and(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }

    /// Returns the number of hooks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are no hooks.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn callbacks(&self) -> &[Callback] {
        &self.0
    }

    /// Whether any hook has [`OnFailure::Block`].
    pub(super) fn must_block(&self) -> bool {
        self.0.iter().any(|callback| callback.matcher.on_failure == OnFailure::Block)
    }

    /// Returns the `hooks` field of the `initialize` request.
    pub(super) fn to_json(&self) -> Value {
        let mut events: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
        for (number, callback) in self.0.iter().enumerate() {
            events.entry(&callback.event).or_default().push(callback.matcher.to_json(number));
        }
        let events: Map<String, Value> =
            events.into_iter().map(|(event, entries)| (event.to_owned(), Value::Array(entries))).collect();
        if events.is_empty() { Value::Null } else { Value::Object(events) }
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_list()
            .entries(self.0.iter().map(|callback| (&callback.event, &callback.matcher)))
            .finish()
    }
}
