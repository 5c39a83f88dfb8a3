//! The agents available on this machine, for `list` and `doctor`.

use std::collections::BTreeMap;

use yb_engine::adapter::{self, AgentConfig, AvailabilityStatus};
use yb_engine::case;
use yb_engine::trial::agent_host;

/// Adapters that run any program, so nothing can be missing.
const ANY_PROGRAM: [&str; 2] = ["acp", "command"];

/// An agent and its availability.
pub(crate) struct AgentStatus {
    pub(crate) name: &'static str,
    pub(crate) state: AgentState,
    pub(crate) version: Option<String>,
    /// Its location and authentication, or what is missing; never a credential.
    pub(crate) message: String,
    pub(crate) hints: Vec<String>,
}

/// The availability of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AgentState {
    Ready,
    NotAuthenticated,
    Missing,
    /// The case names the program.
    AnyProgram,
    /// Known to the file format, but without an adapter in this version.
    Unsupported,
}

impl AgentState {
    /// Returns the name in JSON output.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::NotAuthenticated => "not_authenticated",
            Self::Missing => "missing",
            Self::AnyProgram => "any_program",
            Self::Unsupported => "unsupported",
        }
    }
}

/// Checks every agent without calling a model.
pub(crate) async fn check_agents(env: &BTreeMap<String, String>) -> Vec<AgentStatus> {
    let mut agents = Vec::new();
    for name in case::agent_names().iter().copied() {
        agents.push(check_agent(name, env).await);
    }
    agents
}

async fn check_agent(name: &'static str, env: &BTreeMap<String, String>) -> AgentStatus {
    let without = |state, message: &str| AgentStatus {
        name,
        state,
        version: None,
        message: message.to_owned(),
        hints: Vec::new(),
    };
    let Some(adapter) = adapter::adapter(name) else {
        return without(AgentState::Unsupported, "not supported by this version");
    };
    if ANY_PROGRAM.contains(&name) {
        return without(AgentState::AnyProgram, "runs any program named in the case");
    }
    let found = adapter.check_availability(&AgentConfig::default(), &agent_host(name, env)).await;
    let state = match found.status {
        AvailabilityStatus::Ready => AgentState::Ready,
        AvailabilityStatus::NotAuthenticated => AgentState::NotAuthenticated,
        _ => AgentState::Missing,
    };
    AgentStatus { name, state, version: found.version, message: found.message, hints: found.hints }
}

/// Returns the environment of this process. Adapters pass on only the variables that they name.
pub(crate) fn environment() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}
