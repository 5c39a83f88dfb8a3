//! The Agent SDK: bidirectional sessions with Claude Code.
//!
//! [`query`] sends one prompt and streams the messages; a [`Client`] keeps a session open over many turns. A [`Host`]
//! adds callbacks to the options: [`Hooks`], in-process tools ([`tool`]) and permission decisions.
//!
//! ```no_run
//! use yb_claude::Options;
//! use yb_claude::sdk::query;
//!
//! # async fn example() -> Result<(), yb_claude::sdk::Error> {
//! let options = Options::default().with_model("sonnet").with_max_turns(3);
//! let answer = query("What does this repository do?", &options).text().await?;
//! println!("{answer}");
//! # Ok(())
//! # }
//! ```
//!
//! Dropping a query or the last handle of a client kills the CLI. Its descendants are killed too, if the program calls
//! [`shim_main`](crate::shim_main) first in `main`.
//!
//! Unread messages are buffered in memory, then in a temporary file. Hooks, tools and permission requests are handled
//! even if no messages are read.

mod actor;
mod client;
mod control;
mod error;
mod handlers;
mod hooks;
mod host;
mod incoming;
mod initialize;
mod mcp;
mod messages;
mod mirror;
mod outgoing;
mod permission;
mod query;
mod resources;
mod run_end;
mod schema;
mod scripted;
mod servers;
mod sessions;
mod spare;
mod spool;
mod store;
mod store_resume;
mod stored_sessions;
mod subprocess;
mod tools;
mod transcript;
mod transport;
mod turns;
mod user;
mod writer;

pub use client::{
    Client, ContextUsage, InterruptResponse, McpServerChanges, Reload, RewindFilesResult, Turn,
};
pub use control::{InitializeResponse, McpServerInfo};
pub use error::{Error, Exit};
pub use handlers::CallContext;
pub use hooks::{
    HookEvent, HookMatcher, HookOutput, Hooks, IntoHookOutput, OnFailure, PermissionDecision, event,
};
pub use host::{Host, IntoCallbackResult};
pub use permission::{
    DialogResponse, Elicitation, ElicitationResponse, PermissionResult, ToolRequest, UserDialog,
};
pub use query::{Query, query, query_stream};
pub use resources::{McpPrompt, Resource, ResourceContent};
pub use scripted::{ScriptStep, ScriptedCli, ScriptedSession};
pub use servers::{McpService, SessionMcpServer};
pub use sessions::Sessions;
pub use spare::{Claim, Spare};
pub use store::{
    MemorySessionStore, SessionKey, SessionStore, StoreError, StoreFlush, StoredSession, StoredSummary,
};
pub use stored_sessions::StoredSessions;
pub use subprocess::Subprocess;
pub use tools::{IntoToolOutput, Tool, ToolContext, ToolOutput, ToolServer, tool};
pub use transcript::{SessionInfo, SessionSummary, TranscriptEntry};
pub use transport::{Connection, Transport, TransportInput, TransportOutput};
pub use yb_supervise::{CancellationToken, StreamItem};
