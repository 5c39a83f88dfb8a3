//! The log of one execution, `youbencha-log.json`: one versioned shape that two families of readers understand.
//!
//! The seeds call the agent `agent_info`, the model `model_info` and its tokens `input_tokens`; the original calls them
//! `agent`, `model` and `prompt_tokens`. Both are always there, and always equal: there is only one way to make a log.

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

/// The version that readers of the original insist on.
const VERSION: &str = "1.0.0";
/// The version of the superset; a newer major is not read.
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

/// The parts of a log, each once.
#[derive(Debug, Clone)]
pub struct Draft {
    pub agent: AgentInfo,
    pub model: ModelInfo,
    pub execution: Execution,
    pub messages: Vec<LogMessage>,
    pub tool_calls: Vec<ToolCallRecord>,
    pub usage: Usage,
    pub errors: Vec<ErrorRecord>,
    pub warnings: Vec<String>,
    pub environment: Environment,
    pub output: OutputFiles,
    pub outcome: Option<Outcome>,
}

impl YouBenchaLog {
    /// The log with both families of fields.
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

    /// The JSON Schema of the file, as it is committed in `schemas/youbencha-log.schema.json`.
    #[must_use]
    pub fn json_schema() -> serde_json::Value {
        schemars::schema_for!(Self).to_value()
    }
}
