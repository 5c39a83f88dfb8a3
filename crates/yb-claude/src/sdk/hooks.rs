//! Hooks: functions of the host that the CLI calls at certain moments, typed by event.

pub mod event;
mod output;

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::handlers::{Boxed, CallContext};
use crate::RawJson;

pub use output::{Decision, HookOutput};

/// A moment at which hooks are called, and what they are told; all of them are in [`event`].
pub trait HookEvent: Sized + Send + 'static {
    /// The CLI's name for it.
    const NAME: &'static str;
    /// What a hook may answer.
    type Output: HookOutput;

    /// Reads what the hook is told; `None` when it is no object.
    fn read(input: &RawJson) -> Option<Self>;
}

/// What a hook may return: its output, or a `Result` of it. An error is told to the CLI, which goes on as if there were
/// no hook, unless the matcher says [`OnFailure::Block`].
pub trait HookAnswer<O> {
    /// The output, or the error in words.
    ///
    /// # Errors
    /// The error of the hook.
    fn into_answer(self) -> Result<O, String>;
}

impl<O: HookOutput> HookAnswer<O> for O {
    fn into_answer(self) -> Result<O, String> {
        Ok(self)
    }
}

impl<O: HookOutput, E: Display> HookAnswer<O> for Result<O, E> {
    fn into_answer(self) -> Result<O, String> {
        self.map_err(|error| error.to_string())
    }
}

/// What happens when a hook fails or takes too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnFailure {
    /// As if there were no hook.
    #[default]
    Continue,
    /// What it was asked about does not happen. A CLI that can't promise that is refused.
    Block,
}

/// For which of its event's moments a hook is called.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[must_use]
pub struct Matcher {
    pattern: Option<String>,
    timeout: Option<Duration>,
    on_failure: OnFailure,
}

impl Matcher {
    /// For all.
    pub fn any() -> Self {
        Self::default()
    }

    /// For tools (or sources, triggers, agents: it depends on the event) whose name matches: `Bash`, `Write|Edit`,
    /// `mcp__.*`.
    pub fn of(pattern: impl Into<String>) -> Self {
        Self { pattern: Some(pattern.into()), ..Self::default() }
    }

    /// How long the CLI waits, 60 s unless told; a fraction of a second is rounded up.
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// What happens when it fails.
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

impl From<&str> for Matcher {
    fn from(pattern: &str) -> Self {
        Self::of(pattern)
    }
}

type Run = Arc<dyn Fn(RawJson, CallContext) -> Boxed<Result<Value, String>> + Send + Sync>;

/// One hook, as the session knows it.
#[derive(Clone)]
pub(super) struct Callback {
    event: String,
    matcher: Matcher,
    pub(super) run: Run,
}

/// The hooks of a session. Those for one event are called side by side.
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
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// One more. The event follows from the type of what the hook is told.
    pub fn on<E, F, R>(self, matcher: impl Into<Matcher>, hook: F) -> Self
    where
        E: HookEvent,
        F: Fn(E, CallContext) -> R + Send + Sync + 'static,
        R: Future<Output: HookAnswer<E::Output>> + Send + 'static,
    {
        let run: Run = Arc::new(move |input, context| match E::read(&input) {
            Some(event) => {
                let answer = hook(event, context);
                Box::pin(async move { answer.await.into_answer().map(|output| output.into_json(E::NAME)) })
            }
            None => Box::pin(std::future::ready(Err("the hook's input is no object".to_owned()))),
        });
        self.add(E::NAME.to_owned(), matcher.into(), run)
    }

    /// One more, for an event that this version may not know: raw in, raw out.
    pub fn on_named<F, R>(self, event: impl Into<String>, matcher: impl Into<Matcher>, hook: F) -> Self
    where
        F: Fn(RawJson, CallContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Value, String>> + Send + 'static,
    {
        let run: Run = Arc::new(move |input, context| Box::pin(hook(input, context)));
        self.add(event.into(), matcher.into(), run)
    }

    fn add(mut self, event: String, matcher: Matcher, run: Run) -> Self {
        self.0.push(Callback { event, matcher, run });
        self
    }

    /// These and those, in this order.
    pub fn and(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn callbacks(&self) -> &[Callback] {
        &self.0
    }

    /// Whether one of them must be able to stop what it is asked about.
    pub(super) fn must_block(&self) -> bool {
        self.0.iter().any(|callback| callback.matcher.on_failure == OnFailure::Block)
    }

    /// The field `hooks` of `initialize`.
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
