//! Fake agents and hermetic repositories that every test uses.
//!
//! Collaborators panic instead of returning errors: whatever they can't do has to fail the test that asked.
//! The steps of a fake agent's script are in this crate's README.

#![expect(
    clippy::disallowed_methods,
    reason = "tests start processes to see what the supervisor makes of them"
)]
#![expect(clippy::panic, reason = "a collaborator that can't do its part has to fail the test")]

mod bins;
#[cfg(unix)]
mod browser;
mod context;
#[cfg(unix)]
pub mod fake_agent;
mod filters;
pub mod git;
#[cfg(unix)]
mod leaks;
mod otlp;
#[cfg(unix)]
mod place;
#[cfg(unix)]
mod process;
mod real_agents;
mod real_claude;
mod recorded;

pub use bins::{BIN_DIR_VARIABLE, bin};
#[cfg(unix)]
pub use browser::Browser;
pub use context::{Invocation, Outcome, TestContext};
#[cfg(unix)]
pub use leaks::{KillOnDrop, LeakCheck, assert_no_process_in};
pub use otlp::{OtlpReceiver, ReceivedEvent, ReceivedPoint, ReceivedSpan, spans_in_file, tree};
#[cfg(unix)]
pub use place::FakeAgent;
#[cfg(unix)]
pub use process::{Process, ProcessInfo, alive, descendants, processes_in, processes_with_env};
pub use real_agents::{DUMMY_KEY, REAL_AGENTS, RealAgent};
pub use real_claude::RealClaude;
pub use recorded::RecordedRun;
