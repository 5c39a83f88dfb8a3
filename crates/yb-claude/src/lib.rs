//! Speak to the `claude` CLI.
//!
//! At the top [`ClaudeCodeProvider`] answers one question, and [`sdk`] holds conversations in both directions. Below them are the parts, each usable alone: [`Options`] become an
//! [`Invocation`], output becomes [`Message`]s and a [`RunSummary`], [`AvailabilityCheck`] tells whether the CLI can be used, and
//! [`Search`] finds it.
//!
//! ```no_run
//! use yb_claude::{ClaudeCodeProvider, Context, Provider};
//!
//! # async fn example() -> Result<(), yb_claude::ProviderError> {
//! let answer = ClaudeCodeProvider::new().complete(&Context::new("What does this repository do?")).await?;
//! println!("{}", answer.text);
//! # Ok(())
//! # }
//! ```
//!
//! The features are `provider` and `sdk` (both by default), `process` (what starts a process) and `agent-files`. Without
//! any, the crate is data only: options, arguments and messages.

#[cfg(feature = "process")]
mod availability;
pub mod env_vars;
mod find;
pub mod frame;
pub mod hermetic;
#[cfg(any(feature = "provider", feature = "sdk"))]
mod launcher;
mod npm;
mod options;
#[cfg(feature = "provider")]
mod provider;
#[cfg(feature = "sdk")]
pub mod sdk;
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
