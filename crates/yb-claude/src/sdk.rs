//! The Agent SDK: conversations with Claude Code in both directions.
//!
//! [`query`] asks once and streams what happens; a [`Client`] holds a session over many turns. A [`Host`] is what
//! the session may ask of this program: [`Hooks`], tools that run here ([`tool`]), and who decides about permissions.
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
//! Everything runs below `yb-supervise`: dropping a query or the last handle of a client ends the CLI with all that it
//! started. Messages that a consumer does not take in time wait in memory, then in a temporary file; hooks, tools
//! and permissions are answered whether anybody reads or not.

mod actor;
mod calls;
mod client;
mod control;
mod error;
mod handlers;
mod hooks;
mod host;
mod initialize;
mod mcp;
mod messages;
mod permission;
mod query;
mod questions;
mod run_end;
mod schema;
mod scripted;
mod sessions;
mod spool;
mod subprocess;
mod tools;
mod transport;
mod turns;
mod writer;

pub use client::{Client, ContextUsage, Interrupted, Rewound, Turn};
pub use control::{Initialized, ServerStatus};
pub use error::{Error, Exit};
pub use handlers::CallContext;
pub use hooks::{Decision, HookAnswer, HookEvent, HookOutput, Hooks, Matcher, OnFailure, event};
pub use host::{Fallible, Host};
pub use permission::{Elicitation, ElicitationAnswer, Permission, ToolRequest};
pub use query::{Query, query};
pub use scripted::{Heard, ScriptedCli, Step};
pub use sessions::{SessionInfo, Sessions, TranscriptEntry};
pub use subprocess::Subprocess;
pub use tools::{Tool, ToolAnswer, ToolContext, ToolOutput, ToolServer, tool};
pub use transport::Transport;
pub use transport::{Connection, Input, Output};
pub use yb_supervise::{CancellationToken, StreamItem};
