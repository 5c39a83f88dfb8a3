//! The log of one execution, `youbencha-log.json`: one versioned format for two families of readers.
//!
//! One family reads `agent_info`, `model_info` and `input_tokens`, the other `agent`, `model` and `prompt_tokens`. A log always has
//! both, with equal values: [`YouBenchaLog::new`] is the only way to create one.

mod file;
mod parts;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use file::{FILE_NAME, LogFileError};
pub use parts::{
    AgentInfo, Environment, ErrorRecord, Execution, ExecutionStatus, FunctionCall, LogMessage,
    MessageToolCall, ModelInfo, ModelSource, ModelUsage, Omitted, OutputFiles, RefusedConnection, Role,
    StdinContent, ToolCallRecord, Usage, UsageSource,
};

use crate::outcome::Outcome;
use crate::wiring::AddOnRecord;

/// The version that readers of the original format require.
const VERSION: &str = "1.0.0";
/// The version of this format, a superset of the original; other major versions are rejected.
const SCHEMA_VERSION: &str = "1.0.0";

/// The log of one execution of an agent, in the same format for all agents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct YouBenchaLog {
    /// The version of the original format; always `1.0.0`.
    #[schemars(extend("const" = "1.0.0"))]
    pub version: String,
    /// The version of this format, a superset of the original.
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
    /// When and how the agent ran, and how it ended.
    pub execution: Execution,
    /// The messages, in order.
    pub messages: Vec<LogMessage>,
    /// The tool calls, in order.
    pub tool_calls: Vec<ToolCallRecord>,
    /// Tokens and cost.
    pub usage: Usage,
    /// Errors during the execution.
    pub errors: Vec<ErrorRecord>,
    /// Deviations from the request that are not errors.
    pub warnings: Vec<String>,
    /// The plugins, skills, MCP servers, agents and instructions that the case declares; absent without any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub add_ons: Vec<AddOnRecord>,
    /// The machine that the agent ran on.
    pub environment: Environment,
    /// The files with the agent's output.
    pub output: OutputFiles,
    /// The outcome of the trial, if the execution decides it; absent if the evaluators do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// The messages and tool calls that are only in the file of frames, because of their size; absent if the log has all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub omitted: Option<Omitted>,
}

/// The contents of a log, without duplicated fields.
#[derive(Debug, Clone)]
pub struct LogParts {
    /// The agent.
    pub agent: AgentInfo,
    /// The model.
    pub model: ModelInfo,
    /// When and how the agent ran, and how it ended.
    pub execution: Execution,
    /// The messages, in order.
    pub messages: Vec<LogMessage>,
    /// The tool calls, in order.
    pub tool_calls: Vec<ToolCallRecord>,
    /// Tokens and cost.
    pub usage: Usage,
    /// Errors during the execution.
    pub errors: Vec<ErrorRecord>,
    /// Deviations from the request that are not errors.
    pub warnings: Vec<String>,
    /// The machine that the agent ran on.
    pub environment: Environment,
    /// The files with the agent's output.
    pub output: OutputFiles,
    /// The outcome of the trial, if the execution decides it.
    pub outcome: Option<Outcome>,
    /// What the log leaves out.
    pub omitted: Option<Omitted>,
}

impl YouBenchaLog {
    /// Creates a log with the field names of both families of readers.
    #[must_use]
    pub fn new(parts: LogParts) -> Self {
        Self {
            version: VERSION.to_owned(),
            schema_version: SCHEMA_VERSION.to_owned(),
            agent_info: parts.agent.clone(),
            agent: parts.agent,
            model_info: parts.model.clone(),
            model: parts.model,
            execution: parts.execution,
            messages: parts.messages,
            tool_calls: parts.tool_calls,
            usage: parts.usage,
            errors: parts.errors,
            warnings: parts.warnings,
            add_ons: Vec::new(),
            environment: parts.environment,
            output: parts.output,
            outcome: parts.outcome,
            omitted: parts.omitted,
        }
    }

    /// Returns the JSON Schema of the file, which is committed as `schemas/youbencha-log.schema.json`.
    #[must_use]
    pub fn json_schema() -> serde_json::Value {
        schemars::schema_for!(Self).to_value()
    }
}
