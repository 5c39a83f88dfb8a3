//! Fake agents, hermetic repositories and other test support.
//!
//! Functions panic instead of returning errors, because a failure must fail the test. The README describes
//! the script format of the fake agent.

#![expect(clippy::disallowed_methods, reason = "test support starts unsupervised processes")]
#![expect(clippy::panic, reason = "failures of test support must fail the test")]

mod bins;
#[cfg(unix)]
mod browser;
mod context;
mod failing_api;
#[cfg(unix)]
pub mod fake_agent;
mod filters;
pub mod git;
#[cfg(unix)]
mod install;
#[cfg(unix)]
mod leaks;
mod otlp;
#[cfg(unix)]
mod process;
mod real_agents;
mod real_claude;
mod recorded_run;
#[cfg(target_os = "linux")]
mod root;

pub use bins::{BIN_DIR_VARIABLE, bin};
#[cfg(unix)]
pub use browser::Browser;
pub use context::{Invocation, Outcome, TestContext};
pub use failing_api::failing_api;
#[cfg(unix)]
pub use install::FakeAgent;
#[cfg(unix)]
pub use leaks::{KillOnDrop, LeakCheck, assert_no_process_in};
pub use otlp::{OtlpReceiver, ReceivedEvent, ReceivedMetric, ReceivedSpan, spans_in_file, tree};
#[cfg(unix)]
pub use process::{Process, ProcessInfo, alive, descendants, processes_in, processes_with_env};
pub use real_agents::{DUMMY_KEY, REAL_AGENTS, RealAgent};
pub use real_claude::RealClaude;
pub use recorded_run::RecordedRun;
#[cfg(target_os = "linux")]
pub use root::tiny_root;
