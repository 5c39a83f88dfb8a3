//! Speak to the `claude` CLI.
//!
//! What exists now: [`find`] and [`Search`], which find the native Claude Code program on a machine, and [`frame`],
//! which turns what it prints into messages.
//!
//! ```no_run
//! let found = yb_claude::find(None, &|name| std::env::var_os(name))?;
//! assert!(found.path.is_file());
//! # Ok::<(), yb_claude::FindError>(())
//! ```

#[cfg(feature = "process")]
mod availability;
pub mod env_vars;
mod find;
pub mod frame;
pub mod hermetic;
mod npm;
mod options;
#[cfg(feature = "provider")]
mod provider;
mod text_output;
mod version;

#[cfg(feature = "process")]
pub use availability::{Auth, Availability, AvailabilityCheck, Missing, Ready};
pub use find::{FindError, Found, Looked, Problem, Search, Source, find};
pub use frame::{
    ApiFailure, ApiFailureKind, Baseline, Block, Content, Frame, FrameError, Framer, Message, RawJson,
    ResultMessage, ResultSubtype, RunSummary, SessionTotals, Spent, Tokens, read_json, read_stream,
};
pub use options::{
    Agent, AgentDefinition, Effort, EnvChange, Finding, INLINE_LIMIT, Invocation, MAX_PROMPT_CHARS,
    McpServer, Options, OptionsError, OutputFormat, PermissionMode, PrivateFile, Prompt, Secret, Session,
    SettingSource, Settings, SystemPrompt, Target, TextSource, Thinking, ThinkingDisplay, UnknownValue,
};
#[cfg(feature = "agent-files")]
pub use options::{AgentError, find_agent};
#[cfg(feature = "provider")]
pub use provider::{
    ClaudeCodeProvider, Context, ContextEntry, FallbackProvider, MessageMetadata, OutgoingMessage, Provider,
    ProviderError, Role, Stop,
};
pub use text_output::{TextEnding, TextMessage, TextOutput, TextRole, TextToolCall, TextUsage, strip_ansi};
pub use version::{Version, VersionError};
