//! The agents available on this machine, for `list` and `doctor`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use yb_engine::adapter::{Adapter, Adapters, AgentConfig, AvailabilityStatus, ClaudeCode};
use yb_engine::case::AgentSpec;
use yb_engine::trial::agent_host;

/// An agent and its availability.
pub(crate) struct AgentStatus {
    pub(crate) spec: &'static AgentSpec,
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
}

impl AgentState {
    /// Returns the name in JSON output.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::NotAuthenticated => "not_authenticated",
            Self::Missing => "missing",
            Self::AnyProgram => "any_program",
        }
    }
}

/// Checks every agent without calling a model.
pub(crate) async fn check_agents(adapters: &Adapters, env: &BTreeMap<String, String>) -> Vec<AgentStatus> {
    let mut agents = Vec::new();
    for adapter in adapters.iter() {
        agents.push(check_agent(adapter, env).await);
    }
    agents
}

async fn check_agent(adapter: &'static dyn Adapter, env: &BTreeMap<String, String>) -> AgentStatus {
    let spec = adapter.spec();
    if spec.runs_any_program() {
        let message = "runs any program named in the case".to_owned();
        return AgentStatus {
            spec,
            state: AgentState::AnyProgram,
            version: None,
            message,
            hints: Vec::new(),
        };
    }
    let found = adapter.check_availability(&AgentConfig::default(), &agent_host(spec, env)).await;
    let state = match found.status {
        AvailabilityStatus::Ready => AgentState::Ready,
        AvailabilityStatus::NotAuthenticated => AgentState::NotAuthenticated,
        _ => AgentState::Missing,
    };
    AgentStatus { spec, state, version: found.version, message: found.message, hints: found.hints }
}

/// Returns the Claude Code that `yb` installed, if the user has no other.
pub(crate) fn installed_claude() -> Option<PathBuf> {
    ClaudeCode::installed_by_yb(&agent_host(ClaudeCode.spec(), &environment()))
}

/// Returns the environment of this process. Adapters pass on only the variables that they name.
pub(crate) fn environment() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}
