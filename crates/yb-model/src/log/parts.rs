//! The parts of a log. These are wire types: their fields and descriptions are the JSON Schema of the file.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::isolation::{Isolation, NetworkMode};

/// The agent, and who speaks to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentInfo {
    /// The adapter's name, such as `claude-code`.
    pub name: String,
    /// The agent's version, `unknown` if it did not say.
    pub version: String,
    /// The adapter's version.
    pub adapter_version: String,
}

/// The model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelInfo {
    /// Its name, `unknown` if nothing names it.
    pub name: String,
    /// Whose it is, such as `anthropic`.
    pub provider: String,
    /// What was asked of it: only what the case says.
    pub parameters: BTreeMap<String, Value>,
    /// Where the name stood.
    pub source: ModelSource,
}

/// Where a model's name stood, the most trustworthy place first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModelSource {
    /// In the agent's first words about itself.
    Init,
    /// In the account of what was used.
    ModelUsage,
    /// In an answer.
    Assistant,
    /// In the result.
    Result,
    /// In plain text.
    Text,
    /// In the case.
    Config,
    /// Nowhere.
    Unknown,
}

/// A connection that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RefusedConnection {
    /// Host and port, without secrets.
    pub target: String,
    /// How often.
    pub times: u64,
}

/// When it ran, how, and how it ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Execution {
    /// When it began, ISO 8601.
    pub started_at: String,
    /// When nothing of it was left, ISO 8601.
    pub completed_at: String,
    /// Between the two, without what it was paused.
    pub duration_ms: u64,
    /// The exit code; -1 after a timeout, 128 + n after signal n.
    pub exit_code: i32,
    /// How it ended, in three words.
    pub status: ExecutionStatus,
    /// Whether its time was over.
    pub timed_out: bool,
    /// What stood between the agent and the machine.
    pub isolation: Isolation,
    /// What the agent could connect to.
    #[serde(default)]
    pub network: NetworkMode,
    /// Connections that were refused, as far as they were tried through the proxy that the agent was given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused_connections: Vec<RefusedConnection>,
    /// What the agent might do without being asked; absent where the agent has no such thing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<String>,
    /// How its processes were held together, such as `cgroup`; absent if nothing was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub containment: Option<String>,
    /// Whether settings that the repository brings took effect.
    pub trust_repo_settings: bool,
    /// The agent's session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Turns, as the agent counts them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub num_turns: Option<u64>,
    /// The agent's own word for its end, such as `error_max_turns`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ending: Option<String>,
    /// Why the model stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// How often the model API was asked again.
    pub api_retries: u64,
    /// Calls of tools that were not allowed.
    pub permission_denials: u64,
    /// What was executed, the program first; without secrets. Absent if nothing was started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub argv: Vec<String>,
    /// The names of the variables that it was given beside PATH, locale, TERM and TZ.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// What it could read; absent if nothing was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<StdinContent>,
}

/// What an agent's stdin was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StdinContent {
    /// Empty.
    Nothing,
    /// The prompt.
    Prompt,
    /// The prompt as a message of `--input-format stream-json`, in one line.
    Frame,
}

/// How an execution ended, in three words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExecutionStatus {
    /// By itself, with exit code 0.
    Success,
    /// Otherwise.
    Failed,
    /// Its time was over.
    Timeout,
}

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The agent's own rules.
    System,
    /// The case.
    User,
    /// The model.
    Assistant,
    /// A tool.
    Tool,
}

/// One thing that was said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LogMessage {
    /// By whom.
    pub role: Role,
    /// What, without terminal codes.
    pub content: String,
    /// When: by the agent's clock if it says, else when we read it. ISO 8601.
    pub timestamp: String,
    /// The calls that it makes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<MessageToolCall>,
    /// The call that it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// The call that began the subagent which speaks; absent for the main thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_tool_call_id: Option<String>,
}

/// A call, in the message that makes it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MessageToolCall {
    /// What the answer refers to.
    pub id: String,
    /// Always `function`.
    #[serde(rename = "type")]
    pub kind: String,
    /// What is called.
    pub function: FunctionCall,
}

/// A tool and its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FunctionCall {
    /// The tool.
    pub name: String,
    /// Its arguments, as a JSON text.
    pub arguments: String,
}

/// A call of a tool, with what it gave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolCallRecord {
    /// The call's id, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The tool.
    pub name: String,
    /// Its arguments: a JSON text, or the rest of the line in plain text.
    pub arguments: String,
    /// The beginning of what it gave; absent when it never did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// How long all of what it gave is, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_bytes: Option<u64>,
    /// Whether it failed or was not allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
    /// The call that began the subagent which made this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_tool_call_id: Option<String>,
}

/// What an execution used. The numbers mean something only if `source` says so.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Tokens read at the full price.
    pub input_tokens: u64,
    /// The same as `input_tokens`.
    pub prompt_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// The same as `output_tokens`.
    pub completion_tokens: u64,
    /// Input and output, without the cache.
    pub total_tokens: u64,
    /// Tokens read from the cache.
    pub cache_read_input_tokens: u64,
    /// Tokens written to the cache.
    pub cache_creation_input_tokens: u64,
    /// What it cost; absent when nobody said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The same as `cost_usd`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimated_cost_usd: Option<f64>,
    /// Who says so.
    pub source: UsageSource,
    /// The same by model; empty when the agent does not tell them apart.
    pub by_model: BTreeMap<String, ModelUsage>,
}

/// What one model used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelUsage {
    /// Tokens read at the full price.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// Tokens read from the cache.
    pub cache_read_input_tokens: u64,
    /// Tokens written to the cache.
    pub cache_creation_input_tokens: u64,
    /// What it cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// `list`, or `unknown` for a model that the agent has no price for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_basis: Option<String>,
    /// Who says so.
    pub source: UsageSource,
}

/// Who says what was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum UsageSource {
    /// It passed through our tape.
    Observed,
    /// The agent.
    SelfReported,
    /// We, from the agent's messages and a table of prices, because it was ended before it could report: at least
    /// this much.
    Metered,
    /// Nobody: every number is 0 because the shape wants a number.
    Unreported,
}

/// Something that went wrong.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorRecord {
    /// What, in words.
    #[schemars(length(min = 1))]
    pub message: String,
    /// When, ISO 8601.
    pub timestamp: String,
    /// What kind, such as `CLAUDE_TIMEOUT`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[A-Z][A-Z0-9_]*$"))]
    pub code: Option<String>,
    /// Where in a program, if one said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stack_trace: Option<String>,
    /// What else is known.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub context: BTreeMap<String, Value>,
}

/// Where it ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Environment {
    /// System and machine, such as `linux-x86_64`.
    pub os: String,
    /// Always `none`: readers of the original want the field.
    pub node_version: String,
    /// Our version.
    pub youbencha_version: String,
    /// Where the agent worked.
    pub working_directory: String,
}

/// Where the output of an execution is, relative to the artifacts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct OutputFiles {
    /// All that it printed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminal_log: Option<String>,
    /// Its messages, line by line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frames: Option<String>,
    /// Whether it printed more than is kept in memory.
    pub truncated: bool,
}
