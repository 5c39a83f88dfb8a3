//! Which agents can be used on this machine, as `list` and `doctor` tell it.

use std::collections::BTreeMap;

use yb_engine::adapter::{self, AgentConfig, AvailabilityStatus};
use yb_engine::case;
use yb_engine::trial::agent_host;

/// The adapters for any program: they have none of their own that could be missing.
const ANY_PROGRAM: [&str; 2] = ["acp", "command"];

/// An agent that a case may name.
pub(crate) struct Seen {
    pub(crate) name: &'static str,
    pub(crate) state: State,
    pub(crate) version: Option<String>,
    /// Where it is and how it is authenticated, or what is missing; never a credential.
    pub(crate) message: String,
    pub(crate) hints: Vec<String>,
}

/// Whether an agent can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Ready,
    NotAuthenticated,
    Missing,
    /// The case brings the program.
    AnyProgram,
    /// The format knows it, this version has no adapter for it.
    Unsupported,
}

impl State {
    /// The word for scripts.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::NotAuthenticated => "not_authenticated",
            Self::Missing => "missing",
            Self::AnyProgram => "any_program",
            Self::Unsupported => "unsupported",
        }
    }
}

/// Looks for every agent; no model is asked.
pub(crate) async fn look(env: &BTreeMap<String, String>) -> Vec<Seen> {
    let mut seen = Vec::new();
    for name in case::agent_names().iter().copied() {
        seen.push(one(name, env).await);
    }
    seen
}

async fn one(name: &'static str, env: &BTreeMap<String, String>) -> Seen {
    let without = |state, message: &str| Seen {
        name,
        state,
        version: None,
        message: message.to_owned(),
        hints: Vec::new(),
    };
    let Some(adapter) = adapter::adapter(name) else {
        return without(State::Unsupported, "this version can't run it");
    };
    if ANY_PROGRAM.contains(&name) {
        return without(State::AnyProgram, "any program that a case names");
    }
    let found = adapter.check_availability(&AgentConfig::default(), &agent_host(name, env)).await;
    let state = match found.status {
        AvailabilityStatus::Ready => State::Ready,
        AvailabilityStatus::NotAuthenticated => State::NotAuthenticated,
        _ => State::Missing,
    };
    Seen { name, state, version: found.version, message: found.message, hints: found.hints }
}

/// What this process was given; only names that an adapter asks for are passed on.
pub(crate) fn environment() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}
