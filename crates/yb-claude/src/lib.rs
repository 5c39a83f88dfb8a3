//! Rust SDK for the Claude Code CLI: one-shot queries, streaming sessions, hooks, in-process tools and structured output.
//!
//! - [`ClaudeCodeProvider`] answers a single message. [`sdk`] is the full Agent SDK: message streams, sessions with many
//!   turns, hooks, in-process tools, permissions and structured output.
//! - The building blocks are usable on their own: [`Options`] are converted to an [`Invocation`], output is parsed into
//!   [`Message`]s and a [`RunSummary`], [`CliSearch`] finds the CLI and [`AvailabilityCheck`] checks it.
//!
//! ```no_run
//! use yb_claude::{ClaudeCodeProvider, Context, Provider};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // Must come first: this program also serves as the shim that contains the CLI.
//!     yb_claude::shim_main();
//!
//!     tokio::runtime::Runtime::new()?.block_on(async {
//!         let context = Context::new("What does this repository do?");
//!         let answer = ClaudeCodeProvider::new().complete(&context).await?;
//!         println!("{}", answer.text);
//!         Ok(())
//!     })
//! }
//! ```
//!
//! # Process containment
//!
//! Call [`shim_main`] first in `main`, before starting threads or an async runtime. The CLI then runs below a shim, a
//! second process of the same executable, which tracks all its descendants. On a timeout, on cancellation, when a future,
//! query or client is dropped, and even if the host program is killed, the CLI **and every process that it started** are
//! killed, including daemons in other sessions and process groups.
//!
//! Without `shim_main`, only the CLI process itself is guaranteed to end. Its descendants are killed on a best-effort
//! basis: daemons may survive, and all descendants may survive if the host program is killed. A program that can't call it can use a separate shim executable that does nothing but call `shim_main`:
//! see [`ClaudeCodeProvider::with_shim`] and [`sdk::Subprocess::with_shim`]. On Windows a job object serves the same
//! purpose, and `shim_main` does nothing.
//!
//! # Features
//!
//! `provider` and `sdk` (both enabled by default), `process` (everything that spawns processes) and `agent-files` (agent
//! definitions in Markdown files). Without features, the crate only converts data: options, arguments and messages. It has
//! no async runtime then.

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
pub use availability::{AuthMethod, Availability, AvailabilityCheck, AvailableCli, MissingReason};
pub use find::{CliSearch, CliSource, FindError, FoundCli, PathProblem, SearchedPath, find_cli};
pub use frame::{
    ApiFailure, ApiFailureKind, Block, Frame, FrameError, Framer, Message, MessageContent, RawJson,
    ResultMessage, ResultSubtype, RunSummary, RunUsage, SessionTotals, Tokens, UsageBaseline, read_json,
    read_stream,
};
pub use options::{
    Agent, AgentDefinition, Effort, EnvChange, INLINE_LIMIT, Invocation, InvocationTarget, MAX_PROMPT_CHARS,
    McpServer, OptionIssue, Options, OptionsError, OutputFormat, PermissionMode, PrivateFile, Prompt, Secret,
    Session, SettingSource, Settings, Skills, SystemPrompt, TextSource, Thinking, ThinkingDisplay,
    UnknownValue,
};
#[cfg(feature = "agent-files")]
pub use options::{AgentError, find_agent};
#[cfg(feature = "provider")]
pub use provider::{
    ClaudeCodeProvider, Context, ContextEntry, FallbackProvider, MessageMetadata, OutgoingMessage, Provider,
    ProviderError, Role, StopReason,
};
pub use text_output::{TextMessage, TextOutcome, TextOutput, TextRole, TextToolCall, TextUsage, strip_ansi};
pub use version::{Version, VersionError};
/// The process supervision library, whose types appear in [`Invocation::command`].
#[cfg(feature = "process")]
pub use yb_supervise as supervise;
#[cfg(feature = "process")]
pub use yb_supervise::{CancellationToken, shim_main};

/// Compiles the README's example.
#[cfg(all(doctest, feature = "provider"))]
#[doc = include_str!("../README.md")]
struct Readme;
