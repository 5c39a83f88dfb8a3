//! What knows an agent: one trait, one registry, and one file for each agent.
//!
//! An adapter builds one command, `yb-supervise` runs it, and the adapter makes a [`YouBenchaLog`] of what came out. That an agent
//! fails is a result; an error means that nothing was started.

mod acp;
mod artifacts;
mod claude_code;
mod cli;
mod codes;
mod codex;
mod command;
mod context;
mod copilot_cli;
mod drive;
mod error;
mod gemini;
mod guard;
mod meter;
mod normalize;
mod opencode;
mod prices;
mod prompt;
mod reader;
mod result;
mod secrets;
pub mod tape;
pub mod tools;
pub mod trace;
mod transcript;
mod verdict;
mod view;
mod watchdog;

use async_trait::async_trait;

pub use acp::{Acp, AcpSpec};
pub use claude_code::ClaudeCode;
pub use codes::ErrorCode;
pub use codex::Codex;
pub use command::Command;
pub use context::{
    AgentConfig, CommandSpec, DEFAULT_TIMEOUT, DeclaredOutput, Environment, ExecutionContext, Host, Intent,
    PromptVia,
};
pub use copilot_cli::CopilotCli;
pub use drive::MAX_OUTPUT_SIZE;
pub use error::AdapterError;
pub use gemini::Gemini;
pub use guard::{connect, limit};
pub use meter::{ApiRetry, Live, Observer};
pub use opencode::Opencode;
pub use result::{Availability, AvailabilityStatus, Executed, ExecutionResult, NotAuthenticated};
pub use transcript::Transcript;
pub use watchdog::DEFAULT_PATIENCE;

use crate::tools::Tool;
use yb_model::log::YouBenchaLog;

/// The contract of an adapter.
#[async_trait]
pub trait Adapter: Send + Sync {
    /// The name that a case calls it by.
    fn name(&self) -> &'static str;

    /// The adapter's own version, MAJOR.MINOR.PATCH.
    fn version(&self) -> &'static str;

    /// The host's variables that reach it, beside PATH.
    fn variables(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Whether a configuration can be, as far as that is known without a workspace: no process is started and nothing
    /// is written. What the workspace decides, such as a prompt file or an agent's definition in it, is for
    /// [`Adapter::execute`].
    ///
    /// # Errors
    /// The one that [`Adapter::execute`] would give.
    fn validate(&self, intent: &Intent<'_>) -> Result<(), AdapterError>;

    /// Whether the agent is there and can reach its model. No model is asked.
    async fn check_availability(&self, config: &AgentConfig, host: &Host) -> Availability;

    /// Runs the agent to its end. Whatever the agent does, it ends in a result.
    ///
    /// # Errors
    /// When nothing was started: a configuration that can't be, an agent that is not there, a place that can't be
    /// written.
    async fn execute(&self, context: &ExecutionContext) -> Result<ExecutionResult, AdapterError>;

    /// What happened, in the shape that all agents share.
    fn normalize_log(&self, result: &ExecutionResult, context: &ExecutionContext) -> YouBenchaLog;
}

/// Every adapter, in the order in which they are listed.
static ADAPTERS: [&dyn Adapter; 7] = [&ClaudeCode, &CopilotCli, &Codex, &Gemini, &Opencode, &Acp, &Command];

/// The adapter that a case calls by this name.
#[must_use]
pub fn adapter(name: &str) -> Option<&'static dyn Adapter> {
    ADAPTERS.into_iter().find(|adapter| adapter.name() == name)
}

/// The names of all adapters.
pub fn adapter_names() -> impl Iterator<Item = &'static str> {
    ADAPTERS.into_iter().map(Adapter::name)
}

/// The program that a case pins, if it is in the tool directory. Where it is not, the one that is found has to be of that version,
/// which is checked before anything starts.
pub(crate) fn pinned(name: &str, config: &AgentConfig, host: &Host) -> Option<Tool> {
    host.tools.as_ref()?.find(name, config.version.as_deref()?).ok()
}

pub use context::agent_host;
pub use view::{Places, base as base_view};
pub use yb_model::Isolation;
pub use yb_model::secrets::without_secrets;

/// What tokens that passed through a tape cost by our list of prices.
pub fn observed_cost(observed: &yb_tape::ObservedUsage) -> Option<f64> {
    (!observed.models.is_empty()).then(|| {
        let cost = |(model, seen): (&String, &yb_tape::TokenUsage)| {
            prices::of(model).cost(&prices::Used {
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
