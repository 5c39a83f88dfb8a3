//! The parts of a log: wire types, whose field names are a public format.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::isolation::{Isolation, NetworkMode};

/// The agent and its adapter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentInfo {
    /// The adapter's name, such as `claude-code`.
    pub name: String,
    /// The agent's version, `unknown` if it did not report one.
    pub version: String,
    /// The adapter's version.
    pub adapter_version: String,
}

/// The model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelInfo {
    /// The model's name, `unknown` if no source has it.
    pub name: String,
    /// The model's provider, such as `anthropic`.
    pub provider: String,
    /// The parameters that the case sets.
    pub parameters: BTreeMap<String, Value>,
    /// The source of the name.
    pub source: ModelSource,
}

/// The source of a model's name, most reliable first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModelSource {
    /// The agent's init message.
    Init,
    /// The usage by model.
    ModelUsage,
    /// A message of the assistant.
    Assistant,
    /// The result message.
    Result,
    /// Plain text output.
    Text,
    /// The case.
    Config,
    /// No source.
    Unknown,
}

/// A target to which connections were refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RefusedConnection {
    /// Host and port, without secrets.
    pub target: String,
    /// The number of refused connections.
    pub times: u64,
}

/// When and how an agent ran, and how it ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Execution {
    /// When the agent was started, ISO 8601.
    pub started_at: String,
    /// When its last process had exited, ISO 8601.
    pub completed_at: String,
    /// The time between the two in milliseconds, without pauses.
    pub duration_ms: u64,
    /// The exit code; -1 after a timeout, 128 + n after signal n, 1 if the agent reported a failure and exited with 0.
    pub exit_code: i32,
    /// How it ended.
    pub status: ExecutionStatus,
    /// Whether the agent exceeded its time limit.
    pub timed_out: bool,
    /// How the agent was isolated from the machine.
    pub isolation: Isolation,
    /// Whether the system calls of the agent were filtered; absent without a sandbox of ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub syscall_filter: Option<bool>,
    /// The network access of the agent.
    #[serde(default)]
    pub network: NetworkMode,
    /// Connections that the agent's proxy refused.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused_connections: Vec<RefusedConnection>,
    /// `observed` if failures of the model API were observed on the wire; otherwise `not observed` with the reason. Absent if the
    /// agent prints no messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_observation: Option<String>,
    /// The agent's permission mode; absent if the agent has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<String>,
    /// How its processes were contained, such as `cgroup`; absent if no process was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub containment: Option<String>,
    /// Whether settings in the repository took effect.
    pub trust_repo_settings: bool,
    /// The id of the agent's session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The number of turns, as the agent reported it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub num_turns: Option<u64>,
    /// How it ended in the agent's own terms, such as `error_max_turns`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ending: Option<String>,
    /// Why the model stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// The number of retried requests to the model API.
    pub api_retries: u64,
    /// The number of denied tool calls.
    pub permission_denials: u64,
    /// The command line, program first, without secrets; absent if no process was started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub argv: Vec<String>,
    /// The names of its environment variables, except PATH, locale, TERM and TZ.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// The content of its stdin; absent if no process was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<StdinContent>,
}

/// The content of an agent's stdin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StdinContent {
    /// Empty.
    Nothing,
    /// The prompt.
    Prompt,
    /// The prompt as one line of `--input-format stream-json`.
    Frame,
}

/// How an execution ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExecutionStatus {
    /// The agent exited with code 0 and reported no failure.
    Success,
    /// The agent reported a failure, exited with another code, or was killed.
    Failed,
    /// The agent exceeded its time limit.
    Timeout,
}

/// The author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The agent's system prompt.
    System,
    /// The prompt of the case.
    User,
    /// The model.
    Assistant,
    /// A tool.
    Tool,
}

/// One message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LogMessage {
    /// The author.
    pub role: Role,
    /// The text, without terminal escape sequences.
    pub content: String,
    /// The thinking before the text, if the agent reports it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub thinking: String,
    /// The agent's timestamp, or when the message was read if it has none, ISO 8601.
    pub timestamp: String,
    /// The tool calls in the message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<MessageToolCall>,
    /// The tool call that the message is the result of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// The tool call that started the subagent which wrote the message; absent for the main agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_tool_call_id: Option<String>,
}

/// A tool call in a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MessageToolCall {
    /// The id that the result refers to.
    pub id: String,
    /// Always `function`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The tool and its arguments.
    pub function: FunctionCall,
}

/// A tool and its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FunctionCall {
    /// The tool's name.
    pub name: String,
    /// The arguments as JSON text.
    pub arguments: String,
}

/// A tool call with its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolCallRecord {
    /// The call's id, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The tool's name.
    pub name: String,
    /// The arguments: JSON text, or the rest of the line of plain text output.
    pub arguments: String,
    /// The beginning of the result; absent if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// The length of the whole result in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_bytes: Option<u64>,
    /// Whether the call failed or was denied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
    /// When the call was made, ISO 8601: the agent's timestamp, or when its message was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// When its result arrived, ISO 8601; absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<String>,
    /// The tool call that started the subagent which made this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_tool_call_id: Option<String>,
}

/// The tokens and cost of an execution. The numbers are meaningless if `source` is `unreported`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Input tokens at full price.
    pub input_tokens: u64,
    /// The same as `input_tokens`.
    pub prompt_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// The same as `output_tokens`.
    pub completion_tokens: u64,
    /// Input and output tokens, without cached tokens.
    pub total_tokens: u64,
    /// Input tokens read from the cache.
    pub cache_read_input_tokens: u64,
    /// Input tokens written to the cache.
    pub cache_creation_input_tokens: u64,
    /// The cost in US dollars; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The same as `cost_usd`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimated_cost_usd: Option<f64>,
    /// The source of the numbers.
    pub source: UsageSource,
    /// The source of the cost: `metered` if it was computed from tokens and a price table. Absent without a cost, and in logs of
    /// older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_source: Option<UsageSource>,
    /// Usage by model; empty if the agent does not report it.
    pub by_model: BTreeMap<String, ModelUsage>,
}

impl Usage {
    /// The usage of an execution that reported none: all numbers are 0, without a cost.
    #[must_use]
    pub fn unreported() -> Self {
        Self {
            input_tokens: 0,
            prompt_tokens: 0,
            output_tokens: 0,
            completion_tokens: 0,
            total_tokens: 0,
            cache_read_input_tokens: 0,
            cache_creation_input_tokens: 0,
            cost_usd: None,
            estimated_cost_usd: None,
            source: UsageSource::Unreported,
            cost_source: None,
            by_model: BTreeMap::new(),
        }
    }
}

/// The tokens and cost of one model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelUsage {
    /// Input tokens at full price.
    pub input_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// Input tokens read from the cache.
    pub cache_read_input_tokens: u64,
    /// Input tokens written to the cache.
    pub cache_creation_input_tokens: u64,
    /// The cost in US dollars; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The basis of the cost: `list` for list prices, `unknown` if the agent has no price for the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_basis: Option<String>,
    /// The source of the numbers.
    pub source: UsageSource,
}

/// The source of usage numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum UsageSource {
    /// The recorded model traffic.
    Observed,
    /// The agent's own report.
    SelfReported,
    /// Computed from the agent's messages or token counts and a price table, because the agent did not report it: a lower bound.
    Metered,
    /// Unknown: all numbers are 0.
    Unreported,
}

/// An error during an execution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorRecord {
    /// The message.
    #[schemars(length(min = 1))]
    pub message: String,
    /// When it occurred, ISO 8601.
    pub timestamp: String,
    /// The error code, such as `CLAUDE_TIMEOUT`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[A-Z][A-Z0-9_]*$"))]
    pub code: Option<String>,
    /// The stack trace, if the program printed one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stack_trace: Option<String>,
    /// Further details.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub context: BTreeMap<String, Value>,
}

/// The machine and directory that an agent ran in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Environment {
    /// Operating system and architecture, such as `linux-x86_64`.
    pub os: String,
    /// Always `none`; readers of the original format require the field.
    pub node_version: String,
    /// The version of youBencha.
    pub youbencha_version: String,
    /// The agent's working directory.
    pub working_directory: String,
}

/// The files with the output of an execution, relative to the artifacts directory.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct OutputFiles {
    /// The output as printed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminal_log: Option<String>,
    /// The messages, one per line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frames: Option<String>,
    /// Whether the output exceeded the limit of what is kept in memory.
    pub truncated: bool,
}

/// The messages and tool calls that a log leaves out: those between the first and the last ones. The file of frames has them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Omitted {
    /// The number of omitted messages.
    pub messages: u64,
    /// How many of `messages` come before them.
    pub messages_before: u64,
    /// The number of omitted tool calls.
    pub tool_calls: u64,
    /// How many of `tool_calls` come before them.
    pub tool_calls_before: u64,
    /// The number of failed tool calls, omitted or not.
    pub failed_tool_calls: u64,
    /// The number of lines of the output that were too long to be read.
    #[serde(default)]
    pub skipped_lines: u64,
}
