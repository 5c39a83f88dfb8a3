//! Stand between an agent and its model API: script, record, replay.
//!
//! - A [`Script`] says what the model answers, turn by turn, and a [`Server`] speaks the Messages, Responses, Chat Completions
//!   and Gemini APIs on loopback well enough for real agents to run against it, offline. The script's format is described in
//!   the crate's README.
//! - A [`Recorder`] stands before the real API and writes a [`Tape`].
//! - A [`Replayer`] answers from a tape, or says where a run left it: [`Divergence`].
//!
//! ```
//! use yb_tape::{Script, Server, ServerOptions, Vars};
//!
//! let script = Script::parse("{ tape: 1, lanes: { main: [ { say: Done. } ] } }", &Vars::new())?;
//! let server = Server::start(script, &ServerOptions::default())?;
//! // An agent that is started with `ANTHROPIC_BASE_URL` set to this talks to the script.
//! assert!(server.base_url().starts_with("http://127.0.0.1:"));
//! assert!(server.unscripted().is_empty());
//! # Ok::<(), yb_tape::Error>(())
//! ```

mod api_error;
mod conversation;
mod cursor;
mod error;
mod format;
mod host;
mod log;
mod matching;
mod pick;
mod record;
mod reel;
mod replay;
mod rewrite;
mod script;
mod secrets;
mod seen;
mod server;
mod sse;
mod swap;
mod tape;
mod tools;
mod upstream;
mod usage;
mod vars;
mod wire;
mod yaml;

pub use crate::error::{Error, Place, ScriptError};
pub use crate::log::{Watch, Watched};
pub use crate::matching::divergence::{Divergence, DivergenceKind};
pub use crate::record::{Recorded, Recorder, RecorderOptions};
pub use crate::replay::{
    Fork, Live, Mode, ReplayFault, ReplayFaultKind, ReplayOptions, ReplayOutcome, Replayer, Speed,
};
pub use crate::script::Script;
pub use crate::secrets::Secrets;
pub use crate::seen::{Answer, REDACTED, Seen};
pub use crate::server::{Server, ServerOptions};
pub use crate::tape::{Difference, Exchange, Lane, Tape, TapeCut, Verification};
pub use crate::upstream::Upstream;
pub use crate::usage::{Observed, TokenUsage};
pub use crate::vars::Vars;
pub use yb_net::tls::Roots;

/// The README's Rust example is compiled and run like any other.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
