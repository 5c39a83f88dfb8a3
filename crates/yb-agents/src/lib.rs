//! Adapters: one trait, one list, and one file for each agent with its description ([`AgentSpec`]) and its adapter.
//!
//! An adapter builds one command, `yb-supervise` runs it, and the adapter turns its output into a [`YouBenchaLog`]. A failure of the
//! agent is a result; an error means that nothing was started.

mod acp;
mod answers;
mod artifacts;
mod bounds;
mod case_texts;
mod claude_code;
mod cli;
mod codes;
mod codex;
mod command;
mod context;
mod copilot_cli;
mod definition;
mod drive;
mod error;
#[cfg(test)]
mod flood_tests;
mod gemini;
mod guard;
mod meter;
mod normalize;
mod opencode;
mod prices;
pub mod programs;
mod prompt;
mod reader;
mod recorded;
mod result;
mod secrets;
mod start_recorder;
pub mod tape;
pub mod trace;
mod transcript;
mod verdict;
mod view;
mod watchdog;
mod wiring;

use std::fmt;

use async_trait::async_trait;

pub use acp::{Acp, AcpConfig};
pub use answers::{AnswerUsage, answer_usage};
pub use bounds::Bounds;
pub use case_texts::case_texts;
pub use claude_code::{ClaudeCode, SubagentCall, subagent_calls};
pub use codes::ErrorCode;
pub use codex::Codex;
pub use command::{Command, prints_messages};
pub use context::{
    AddOnDir, AgentConfig, CommandConfig, DEFAULT_TIMEOUT, DeclaredOutput, Environment, ExecutionContext,
    Host, InstructionFile, Intent, OtherRoot, PromptVia,
};
pub use copilot_cli::CopilotCli;
pub use drive::MAX_OUTPUT_SIZE;
pub use error::AdapterError;
pub use gemini::Gemini;
pub use guard::{connect, limit};
pub use meter::{ApiRetry, Live, Observer, call_cost};
pub use opencode::Opencode;
pub use recorded::{OmittedItem, for_each_omitted, read_output};
pub use result::{ApiReport, Availability, AvailabilityStatus, Executed, ExecutionResult, NotAuthenticated};
pub use start_recorder::{ProcessRole, StartRecorded, StartRecorder};
pub use transcript::Transcript;
pub use watchdog::DEFAULT_PATIENCE;
pub use wiring::{SessionFacts, count_uses};

use crate::programs::InstalledProgram;
use yb_case::{AgentSpec, AgentSpecs};
use yb_model::log::YouBenchaLog;

/// Runs one agent.
#[async_trait]
pub trait Adapter: Send + Sync {
    /// The static description of the agent.
    fn spec(&self) -> &'static AgentSpec;

    /// Validates a configuration without a workspace: no process is started and nothing is written. What depends on the workspace,
    /// such as a prompt file or an agent's definition in it, is checked by [`Adapter::execute`].
    ///
    /// # Errors
    /// The error that [`Adapter::execute`] would return.
    fn validate(&self, intent: &Intent<'_>) -> Result<(), AdapterError>;

    /// Checks whether the agent is installed and authenticated, without a model call.
    async fn check_availability(&self, config: &AgentConfig, host: &Host) -> Availability;

    /// Runs the agent to its end. Whatever the agent does is a result.
    ///
    /// # Errors
    /// If nothing was started: the configuration is invalid, the agent is not installed, or a directory is not writable.
    async fn execute(&self, context: &ExecutionContext) -> Result<ExecutionResult, AdapterError>;

    /// Converts a result to the log format that all agents share.
    fn normalize_log(&self, result: &ExecutionResult, context: &ExecutionContext) -> YouBenchaLog;
}

/// The adapters that a program knows, in the order in which they are listed. There is no global list: the value is passed down from
/// `main`.
#[derive(Clone)]
pub struct Adapters(Vec<&'static dyn Adapter>);

impl Adapters {
    /// The adapters of this crate.
    #[must_use]
    pub fn builtin() -> Self {
        Self(vec![&ClaudeCode, &CopilotCli, &Codex, &Gemini, &Opencode, &Acp, &Command])
    }

    /// Adds an adapter, or replaces the one with its name.
    #[must_use]
    pub fn with(mut self, adapter: &'static dyn Adapter) -> Self {
        match self.0.iter_mut().find(|known| known.spec().name == adapter.spec().name) {
            Some(known) => *known = adapter,
            None => self.0.push(adapter),
        }
        self
    }

    /// The adapter of the agent with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'static dyn Adapter> {
        self.iter().find(|adapter| adapter.spec().name == name)
    }

    /// All adapters.
    pub fn iter(&self) -> impl Iterator<Item = &'static dyn Adapter> {
        self.0.iter().copied()
    }

    /// The names of all agents.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.iter().map(|adapter| adapter.spec().name)
    }

    /// The descriptions of all agents.
    #[must_use]
    pub fn specs(&self) -> AgentSpecs {
        AgentSpecs::new(self.iter().map(|adapter| adapter.spec()))
    }
}

impl fmt::Debug for Adapters {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.names()).finish()
    }
}

/// The program that a case pins, if it is in the store. If it is not, the version of the program that is found is checked before
/// anything starts.
pub(crate) fn pinned_program(
    agent: &'static AgentSpec,
    config: &AgentConfig,
    host: &Host,
) -> Option<InstalledProgram> {
    host.programs.as_ref()?.find(agent, config.version.as_deref()?).ok()
}

pub use context::agent_host;
pub use view::{Places, base as base_view};
pub use yb_model::Isolation;
pub use yb_model::secrets::without_secrets;

/// What tokens that passed through a tape cost by our list of prices.
pub fn observed_cost(observed: &yb_tape::ObservedUsage) -> Option<f64> {
    (!observed.models.is_empty()).then(|| {
        let cost = |(model, seen): (&String, &yb_tape::TokenUsage)| {
            prices::of(model).cost(&prices::TokenCounts {
                input: seen.input,
                output: seen.output,
                cache_write: seen.cache_write.saturating_sub(seen.cache_write_1h),
                cache_write_1h: seen.cache_write_1h,
                cache_read: seen.cache_read,
            })
        };
        observed.models.iter().map(cost).sum()
    })
}

/// The secrets among the variables that an agent is given, by name.
#[must_use]
pub fn secrets_of(host: &Host) -> Vec<(String, Vec<u8>)> {
    secrets::secrets(&host.env).collect()
}

/// The secrets among the variables or headers of an object, by name.
pub fn secrets_in_object(object: &serde_json::Map<String, serde_json::Value>) -> Vec<(String, Vec<u8>)> {
    secrets::secrets_of_json(object)
}
