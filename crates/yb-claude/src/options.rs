//! The options of a Claude Code run.

mod agent;
#[cfg(feature = "agent-files")]
mod agent_file;
mod argv;
mod builder;
#[cfg(feature = "process")]
mod command;
mod environment;
mod invocation;
mod issue;
mod legacy;
mod mcp;
mod permission;
mod prompt;
mod secret;
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
pub use invocation::{INLINE_LIMIT, Invocation, InvocationTarget, PrivateFile};
pub use issue::{OptionIssue, OptionsError};
pub use mcp::McpServer;
pub use permission::PermissionMode;
pub use prompt::{MAX_PROMPT_CHARS, Prompt};
pub use secret::Secret;
pub use values::{
    Agent, Effort, OutputFormat, Session, SettingSource, Settings, Skills, SystemPrompt, TextSource,
    Thinking, ThinkingDisplay, UnknownValue,
};

/// The options of a Claude Code run. `Default` is the behavior of the CLI, without background tasks.
///
/// ```
/// use yb_claude::{Options, PermissionMode, Prompt, InvocationTarget};
///
/// let options = Options::default()
///     .with_model("sonnet")
///     .with_max_turns(5)
///     .with_permission_mode(PermissionMode::AcceptEdits);
/// let invocation = options.invocation(&Prompt::text("Say hello"), &InvocationTarget::new("/tmp/private"))?;
/// assert!(invocation.args.contains(&"--model=sonnet".into()));
/// assert!(invocation.warnings.is_empty());
/// # Ok::<(), yb_claude::OptionsError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Options {
    /// Whether warnings are errors.
    pub strict: bool,
    /// The output format: `--output-format`.
    pub output: OutputFormat,

    /// The model: an alias (`sonnet`) or a full name, optionally prefixed with `anthropic/`: `--model`.
    pub model: Option<String>,
    /// Fallback models, in order, if the model is overloaded: `--fallback-model`.
    pub fallback_models: Vec<String>,
    /// Beta headers: `--betas`.
    pub betas: Vec<String>,
    /// `--effort`.
    pub effort: Option<Effort>,
    /// `--thinking`, or `--max-thinking-tokens` for a budget; both flags together would cancel the budget.
    pub thinking: Option<Thinking>,
    /// `--thinking-display`.
    pub thinking_display: Option<ThinkingDisplay>,

    /// `--max-turns`.
    pub max_turns: Option<u32>,
    /// `--max-budget-usd`. The CLI checks it after each response, so one response can exceed it.
    pub max_budget_usd: Option<f64>,
    /// The token budget that is announced to the model: `--task-budget`.
    pub task_budget: Option<u64>,
    /// The maximum number of output tokens per response: the variable `CLAUDE_CODE_MAX_OUTPUT_TOKENS`. The CLI reduces it
    /// to the model's limit.
    pub max_output_tokens: Option<u32>,
    /// Validated but not passed on: the CLI does not support it.
    pub temperature: Option<f64>,

    /// `--system-prompt`, `--system-prompt-file`.
    pub system_prompt: SystemPrompt,
    /// `--append-system-prompt`, `--append-system-prompt-file`.
    pub append_system_prompt: Option<TextSource>,
    /// Removes machine-specific sections from the preset system prompt: `--exclude-dynamic-system-prompt-sections`.
    pub exclude_dynamic_sections: bool,
    /// Whether a resumed session keeps its original system prompt: `--system-prompt-snapshot`.
    pub system_prompt_snapshot: Option<bool>,

    /// The available tools: `--tools`. `None` means the default set, an empty list no tools.
    pub tools: Option<Vec<String>>,
    /// Tools and rules that need no permission: `--allowedTools`. Does not restrict the available tools.
    pub allowed_tools: Option<Vec<String>>,
    /// Denied rules; whole tools are also removed: `--disallowedTools`.
    pub disallowed_tools: Option<Vec<String>>,
    /// `--permission-mode`. `--dangerously-skip-permissions` is never used.
    pub permission_mode: Option<PermissionMode>,
    /// The handler of permission requests, an MCP tool or `stdio`: `--permission-prompt-tool`.
    pub permission_prompt_tool: Option<String>,
    /// Declares the machine a sandbox, which is required for bypassing permissions as root: the variable `IS_SANDBOX`.
    pub sandboxed: bool,

    /// Additional directories that tools may access: `--add-dir`.
    pub add_dirs: Vec<PathBuf>,
    /// The working directory; by default that of the host.
    pub cwd: Option<PathBuf>,
    /// Variables to set or remove. They take precedence over variables derived from other options.
    pub env: BTreeMap<OsString, EnvChange>,

    /// MCP servers by name: `--mcp-config`, inline or, if large or possibly secret, as a private file.
    pub mcp_servers: BTreeMap<String, McpServer>,
    /// Configuration files with MCP servers: `--mcp-config`.
    pub mcp_config_files: Vec<PathBuf>,
    /// Ignores MCP servers from other configurations: `--strict-mcp-config`.
    pub strict_mcp_config: bool,
    /// `--settings`.
    pub settings: Option<Settings>,
    /// The CLI's sandbox: the `sandbox` key of `settings`, which must not be a file then.
    pub sandbox: Option<Map<String, Value>>,
    /// Skills that need no permission: `Skill` or `Skill(NAME)` in the allowed tools. An SDK session with named skills has
    /// no others.
    pub skills: Option<Skills>,
    /// `--setting-sources`. `None` means all sources, an empty list none.
    pub setting_sources: Option<Vec<SettingSource>>,
    /// Agents by name: `--agents`.
    pub agents: BTreeMap<String, AgentDefinition>,
    /// The agent that the session runs as: `--agent`.
    pub agent: Option<Agent>,
    /// `--plugin-dir`.
    pub plugin_dirs: Vec<PathBuf>,

    /// `--session-id`, `--resume`, `--continue`, `--fork-session`.
    pub session: Session,
    /// The message after which a session is resumed: `--resume-session-at`.
    pub resume_at: Option<String>,
    /// The prompt of the only turn that [`resume_at`](Self::resume_at) may drop, by its UUID; the CLI refuses to drop
    /// anything else: `--resume-drops-turn`.
    pub resume_drops_turn: Option<String>,
    /// Does not save the session: `--no-session-persistence`.
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
    /// The JSON Schema of the structured output: `--json-schema`.
    pub json_schema: Option<Value>,
    /// Disables hooks, plugins, memory and instruction files: `--bare`. Requires an API key.
    pub bare: bool,
    /// `--debug-file`.
    pub debug_file: Option<PathBuf>,

    /// The variable `ANTHROPIC_API_KEY`.
    pub api_key: Option<Secret>,
    /// The variable `ANTHROPIC_AUTH_TOKEN`.
    pub auth_token: Option<Secret>,
    /// The variable `CLAUDE_CODE_OAUTH_TOKEN`.
    pub oauth_token: Option<Secret>,
    /// The variable `ANTHROPIC_BASE_URL`, which may contain a password.
    pub base_url: Option<Secret>,
    /// The variable `CLAUDE_CODE_MAX_RETRIES`; 10 by default, about three minutes.
    pub max_retries: Option<u32>,
    /// The variable `API_TIMEOUT_MS`; 600 s by default.
    pub api_timeout: Option<Duration>,
    /// Allows shells and subagents to run in the background. Off by default, because such a run has several results and
    /// may outlive the last one by ten minutes.
    pub background_tasks: bool,
    /// Keeps inherited telemetry variables; by default they are removed.
    pub telemetry_export: bool,
    /// The variable `CLAUDE_CODE_ENTRYPOINT`; `sdk-cli` by default. Other names can change what the model is offered.
    pub entrypoint: Option<String>,
    /// The application in the `User-Agent` of model requests, such as `my-app/1.0`: the variable
    /// `CLAUDE_AGENT_SDK_CLIENT_APP`. By default this crate; an empty text means none.
    pub client_app: Option<String>,
    /// Enables file checkpoints, for `sdk::Client::rewind_files`.
    pub file_checkpointing: bool,
    /// The variable `TRACEPARENT`; an inherited value is removed.
    pub trace_parent: Option<String>,
    /// The variable `TRACESTATE`; an inherited value is removed.
    pub trace_state: Option<String>,

    /// Other flags, without dashes, and their values. Added last.
    pub extra_args: Vec<(String, Option<OsString>)>,
}
