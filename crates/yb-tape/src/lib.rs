//! Mock, record and replay LLM API traffic: a VCR for coding agents.
//!
//! - [`MockServer`] serves a [`Script`] on loopback, in the Anthropic Messages, OpenAI Responses, OpenAI Chat Completions
//!   and Gemini protocols. Real coding agents run against it offline. The README describes the script format.
//! - [`RecordingProxy`] forwards requests to a real API and records the exchanges on a [`Tape`].
//! - [`ReplayServer`] serves a tape and reports the first request that does not match it as a [`Divergence`].
//!
//! ```
//! use yb_tape::{MockServer, MockServerOptions, Script, Vars};
//!
//! let script = Script::parse("{ tape: 1, lanes: { main: [ { say: Done. } ] } }", &Vars::new())?;
//! let server = MockServer::start(script, &MockServerOptions::default())?;
//! // Start an agent with `ANTHROPIC_BASE_URL` set to the base URL.
//! assert!(server.base_url().starts_with("http://127.0.0.1:"));
//! assert!(server.unscripted().is_empty());
//! # Ok::<(), yb_tape::Error>(())
//! ```

mod api_error;
mod conversation;
mod cursor;
mod error;
mod format;
mod logged_request;
mod loopback;
mod matching;
mod paced_body;
mod protocol;
mod record;
mod replace;
mod replay;
mod request_hold;
mod request_log;
mod request_texts;
mod rewrite;
mod script;
mod secrets;
mod select;
mod server;
pub mod sse;
mod tape;
mod tools;
mod traffic;
mod upstream;
mod usage;
mod vars;
mod yaml;

pub use crate::error::{Error, ScriptError, ScriptLocation};
pub use crate::logged_request::{LoggedRequest, REDACTED, ResponseKind};
pub use crate::matching::divergence::{Divergence, DivergenceKind};
pub use crate::record::{ObservingProxy, RecordingOptions, RecordingProxy, RecordingSummary};
pub use crate::replay::{
    Fork, ForkTarget, ParseReplayFaultError, ReplayFault, ReplayFaultKind, ReplayMode, ReplayOptions,
    ReplayOutcome, ReplayServer, ReplaySpeed,
};
pub use crate::request_hold::{HeldRequest, HeldRequests};
pub use crate::request_log::{RequestWatcher, WatchEvent};
pub use crate::request_texts::RequestTexts;
pub use crate::script::Script;
pub use crate::secrets::Secrets;
pub use crate::server::{MockServer, MockServerOptions};
pub use crate::tape::{Exchange, Lane, Tape, TapeDifference, TapeTruncation, TapeVerification};
pub use crate::traffic::{ApiCredentials, ObservedFailure, ObservedFailureKind};
pub use crate::upstream::Upstream;
pub use crate::usage::{ObservedUsage, TokenUsage};
pub use crate::vars::Vars;
pub use yb_net::tls::Roots;

/// Compiles and runs the Rust examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
