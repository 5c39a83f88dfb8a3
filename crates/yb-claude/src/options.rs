//! Everything that can be said about one run of Claude Code, before it becomes a command.

mod agent;
#[cfg(feature = "agent-files")]
mod agent_file;
mod argv;
mod builder;
#[cfg(feature = "process")]
mod command;
mod environment;
mod finding;
mod invocation;
mod mcp;
mod permission;
mod prompt;
mod secret;
mod seed;
#[cfg(feature = "sdk")]
mod session;
mod tools;
mod validate;
mod values;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value};

pub use agent::AgentDefinition;
#[cfg(feature = "agent-files")]
pub use agent_file::{AgentError, find_agent};
pub use environment::EnvChange;
pub use finding::{Finding, OptionsError};
pub use invocation::{INLINE_LIMIT, Invocation, PrivateFile, Target};
pub use mcp::McpServer;
pub use permission::PermissionMode;
pub use prompt::{MAX_PROMPT_CHARS, Prompt};
pub use secret::Secret;
pub use values::{
    Agent, Effort, OutputFormat, Session, SettingSource, Settings, SystemPrompt, TextSource, Thinking,
    ThinkingDisplay, UnknownValue,
};

/// One run of Claude Code, but for its prompt. `Default` is what the CLI does by itself, without background tasks.
///
/// ```
/// use yb_claude::{Options, PermissionMode, Prompt, Target};
///
/// let options = Options::default()
///     .with_model("sonnet")
///     .with_max_turns(5)
///     .with_permission_mode(PermissionMode::AcceptEdits);
/// let invocation = options.invocation(&Prompt::text("Say hello"), &Target::new("/tmp/private"))?;
/// assert!(invocation.args.contains(&"--model=sonnet".into()));
/// assert!(invocation.warnings.is_empty());
/// # Ok::<(), yb_claude::OptionsError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Options {
    /// Whether a warning is an error.
    pub strict: bool,
    /// What the CLI prints: `--output-format`.
    pub output: OutputFormat,

    /// An alias (`sonnet`), a full name, or either behind `anthropic/`: `--model`.
    pub model: Option<String>,
    /// Models to turn to, in order, when the model is overloaded: `--fallback-model`.
    pub fallback_models: Vec<String>,
    /// Beta headers: `--betas`.
    pub betas: Vec<String>,
    /// `--effort`.
    pub effort: Option<Effort>,
    /// `--thinking`, or `--max-thinking-tokens` for a budget: together they would cancel the budget.
    pub thinking: Option<Thinking>,
    /// `--thinking-display`.
    pub thinking_display: Option<ThinkingDisplay>,

    /// `--max-turns`.
    pub max_turns: Option<u32>,
    /// `--max-budget-usd`. It is looked at after an answer, so it can be overshot by one.
    pub max_budget_usd: Option<f64>,
    /// Tokens that the model is told it has: `--task-budget`.
    pub task_budget: Option<u64>,
    /// Tokens of one answer: the variable `CLAUDE_CODE_MAX_OUTPUT_TOKENS`. The CLI lowers it to what the model can.
    pub max_output_tokens: Option<u32>,
    /// Checked, recorded and not passed on: the CLI has no such thing.
    pub temperature: Option<f64>,

    /// `--system-prompt`, `--system-prompt-file`.
    pub system_prompt: SystemPrompt,
    /// `--append-system-prompt`, `--append-system-prompt-file`.
    pub append_system_prompt: Option<TextSource>,
    /// Moves what differs from machine to machine out of the preset: `--exclude-dynamic-system-prompt-sections`.
    pub exclude_dynamic_sections: bool,
    /// Whether a resumed session keeps its first system prompt: `--system-prompt-snapshot`.
    pub system_prompt_snapshot: Option<bool>,

    /// The tools there are: `--tools`. Unset is the usual set, an empty list is none.
    pub tools: Option<Vec<String>>,
    /// What needs no permission: `--allowedTools`. It takes no tool away.
    pub allowed_tools: Option<Vec<String>>,
    /// What is denied, and taken away if it is a whole tool: `--disallowedTools`.
    pub disallowed_tools: Option<Vec<String>>,
    /// `--permission-mode`. `--dangerously-skip-permissions` is never used.
    pub permission_mode: Option<PermissionMode>,
    /// Who is asked for permission, an MCP tool or `stdio`: `--permission-prompt-tool`.
    pub permission_prompt_tool: Option<String>,
    /// Says that the machine is a sandbox, without which root may not bypass permissions: `IS_SANDBOX`.
    pub sandboxed: bool,

    /// More directories that tools may use: `--add-dir`.
    pub add_dirs: Vec<PathBuf>,
    /// The working directory, by default the host's.
    pub cwd: Option<PathBuf>,
    /// Variables to set or remove. They win over everything that follows from other options.
    pub env: BTreeMap<OsString, EnvChange>,

    /// MCP servers by name: `--mcp-config`, as JSON or, if long or possibly secret, as a file.
    pub mcp_servers: BTreeMap<String, McpServer>,
    /// Files with MCP servers: `--mcp-config`.
    pub mcp_config_files: Vec<PathBuf>,
    /// No other MCP servers than these: `--strict-mcp-config`.
    pub strict_mcp_config: bool,
    /// `--settings`.
    pub settings: Option<Settings>,
    /// The CLI's own sandbox: the key `sandbox` of the settings above, which must not be a file then.
    pub sandbox: Option<Map<String, Value>>,
    /// Skills that need no permission, by name: `Skill(NAME)` among the allowed tools. A session through the SDK has no others.
    pub skills: Option<Vec<String>>,
    /// `--setting-sources`. Unset is all of them, an empty list is none.
    pub setting_sources: Option<Vec<SettingSource>>,
    /// Agents by name: `--agents`.
    pub agents: BTreeMap<String, AgentDefinition>,
    /// The agent that the session runs as: `--agent`.
    pub agent: Option<Agent>,
    /// `--plugin-dir`.
    pub plugin_dirs: Vec<PathBuf>,

    /// `--session-id`, `--resume`, `--continue`, `--fork-session`.
    pub session: Session,
    /// The message after which an existing session goes on: `--resume-session-at`.
    pub resume_at: Option<String>,
    /// Saves nothing that could be resumed: `--no-session-persistence`.
    pub no_session_persistence: bool,
    /// The session's name: `--name`.
    pub name: Option<String>,

    /// `--include-partial-messages`.
    pub include_partial_messages: bool,
    /// `--include-hook-events`.
    pub include_hook_events: bool,
    /// `--forward-subagent-text`.
    pub forward_subagent_text: bool,
    /// `--replay-user-messages`.
    pub replay_user_messages: bool,
    /// The JSON Schema of a structured answer: `--json-schema`.
    pub json_schema: Option<Value>,
    /// Without hooks, plugins, memory and instruction files: `--bare`. Only an API key counts then.
    pub bare: bool,
    /// `--debug-file`.
    pub debug_file: Option<PathBuf>,

    /// The variable `ANTHROPIC_API_KEY`.
    pub api_key: Option<Secret>,
    /// The variable `ANTHROPIC_AUTH_TOKEN`.
    pub auth_token: Option<Secret>,
    /// The variable `CLAUDE_CODE_OAUTH_TOKEN`.
    pub oauth_token: Option<Secret>,
    /// The variable `ANTHROPIC_BASE_URL`; it may contain a password.
    pub base_url: Option<Secret>,
    /// The variable `CLAUDE_CODE_MAX_RETRIES`; 10 by default, about three minutes.
    pub max_retries: Option<u32>,
    /// The variable `API_TIMEOUT_MS`; 600 s by default.
    pub api_timeout: Option<Duration>,
    /// Lets shells and subagents run in the background. A run then has several results and may outlive its last one
    /// by ten minutes, so they are off unless this is set.
    pub background_tasks: bool,
    /// Lets the CLI export telemetry as the environment says; by default those variables are removed.
    pub telemetry_export: bool,
    /// The variable `CLAUDE_CODE_ENTRYPOINT`; `sdk-rs` by default.
    pub entrypoint: Option<String>,
    /// Keeps copies of changed files, so that a host can rewind them.
    pub file_checkpointing: bool,
    /// The variable `TRACEPARENT`; an inherited one is removed.
    pub trace_parent: Option<String>,
    /// The variable `TRACESTATE`; an inherited one is removed.
    pub trace_state: Option<String>,

    /// Flags that are not above, without their dashes, and their values. They come last.
    pub extra_args: Vec<(String, Option<OsString>)>,
}
