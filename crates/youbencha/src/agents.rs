//! Which agents can be used on this machine, as `list` and `doctor` tell it.

use std::collections::BTreeMap;

use yb_engine::adapter::{Adapter, Adapters, AgentConfig, AvailabilityStatus};
use yb_engine::case::AgentSpec;
use yb_engine::trial::agent_host;

/// An agent that a case may name.
pub(crate) struct Seen {
    pub(crate) spec: &'static AgentSpec,
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
}

impl State {
    /// The word for scripts.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::NotAuthenticated => "not_authenticated",
            Self::Missing => "missing",
            Self::AnyProgram => "any_program",
        }
    }
}

/// Looks for every agent; no model is asked.
pub(crate) async fn look(adapters: &Adapters, env: &BTreeMap<String, String>) -> Vec<Seen> {
    let mut seen = Vec::new();
    for adapter in adapters.iter() {
        seen.push(one(adapter, env).await);
    }
    seen
}

async fn one(adapter: &'static dyn Adapter, env: &BTreeMap<String, String>) -> Seen {
    let spec = adapter.spec();
    if spec.runs_any_program() {
        let message = "any program that a case names".to_owned();
        return Seen { spec, state: State::AnyProgram, version: None, message, hints: Vec::new() };
    }
    let found = adapter.check_availability(&AgentConfig::default(), &agent_host(spec, env)).await;
    let state = match found.status {
        AvailabilityStatus::Ready => State::Ready,
        AvailabilityStatus::NotAuthenticated => State::NotAuthenticated,
        _ => State::Missing,
    };
    Seen { spec, state, version: found.version, message: found.message, hints: found.hints }
}

/// What this process was given; only names that an adapter asks for are passed on.
pub(crate) fn environment() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}
