//! The log of one execution, `youbencha-log.json`: a versioned format that is a superset of two older ones.
//!
//! One calls the agent `agent_info`, the model `model_info` and its tokens `input_tokens`; the other calls them `agent`,
//! `model` and `prompt_tokens`. A log always has both, with equal values: [`YouBenchaLog::new`] is the only constructor.

mod file;
mod parts;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use file::{FILE_NAME, LogFileError};
pub use parts::{
    AgentInfo, Environment, ErrorRecord, Execution, ExecutionStatus, FunctionCall, LogMessage,
    MessageToolCall, ModelInfo, ModelSource, ModelUsage, OutputFiles, RefusedConnection, Role, StdinContent,
    ToolCallRecord, Usage, UsageSource,
};

use crate::outcome::Outcome;

/// The version that readers of the original implementation expect.
const VERSION: &str = "1.0.0";
/// The version of the superset. Logs with a newer major version are rejected.
const SCHEMA_VERSION: &str = "1.0.0";

/// One execution of an agent, whichever agent it was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct YouBenchaLog {
    /// The version of the fields that the original has; always `1.0.0`.
    #[schemars(extend("const" = "1.0.0"))]
    pub version: String,
    /// The version of this shape, of which those fields are a part.
    #[schemars(regex(pattern = r"^1\.[0-9]+\.[0-9]+$"))]
    pub schema_version: String,
    /// The agent.
    pub agent_info: AgentInfo,
    /// The same as `agent_info`.
    pub agent: AgentInfo,
    /// The model.
    pub model_info: ModelInfo,
    /// The same as `model_info`.
    pub model: ModelInfo,
    /// When it ran, how, and how it ended.
    pub execution: Execution,
    /// What was said, in order.
    pub messages: Vec<LogMessage>,
    /// The tools that were called, in order.
    pub tool_calls: Vec<ToolCallRecord>,
    /// What it used.
    pub usage: Usage,
    /// What went wrong.
    pub errors: Vec<ErrorRecord>,
    /// What went otherwise than asked, without being an error.
    pub warnings: Vec<String>,
    /// Where it ran.
    pub environment: Environment,
    /// Where its output is.
    pub output: OutputFiles,
    /// What the execution came to, if that decides the trial; absent when the evaluators decide.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
}

/// The data of a log, without duplicate fields.
#[derive(Debug, Clone)]
pub struct Draft {
    /// The agent.
    pub agent: AgentInfo,
    /// The model.
    pub model: ModelInfo,
    /// The execution.
    pub execution: Execution,
    /// The conversation, in order.
    pub messages: Vec<LogMessage>,
    /// The tool calls, in order.
    pub tool_calls: Vec<ToolCallRecord>,
    /// Tokens and cost.
    pub usage: Usage,
    /// Errors of the execution.
    pub errors: Vec<ErrorRecord>,
    /// Deviations from the case that are not errors.
    pub warnings: Vec<String>,
    /// The machine.
    pub environment: Environment,
    /// The files with the output.
    pub output: OutputFiles,
    /// The outcome of the execution, if it decides the trial.
    pub outcome: Option<Outcome>,
}

impl YouBenchaLog {
    /// Creates a log with both sets of field names.
    #[must_use]
    pub fn new(draft: Draft) -> Self {
        Self {
            version: VERSION.to_owned(),
            schema_version: SCHEMA_VERSION.to_owned(),
            agent_info: draft.agent.clone(),
            agent: draft.agent,
            model_info: draft.model.clone(),
            model: draft.model,
            execution: draft.execution,
            messages: draft.messages,
            tool_calls: draft.tool_calls,
            usage: draft.usage,
            errors: draft.errors,
            warnings: draft.warnings,
            environment: draft.environment,
            output: draft.output,
            outcome: draft.outcome,
        }
    }

    /// Returns the JSON Schema of the file, as committed in `schemas/youbencha-log.schema.json`.
    #[must_use]
    pub fn json_schema() -> serde_json::Value {
        schemars::schema_for!(Self).to_value()
    }
}
