//! Run one child process, bounded in time, in bytes and in descendants, and say truthfully how it ended.
//!
//! ```no_run
//! use std::time::Duration;
//! use yb_supervise::{Command, End};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // First of all: lets this program serve as its own shim, so that no descendant can escape.
//!     yb_supervise::shim_main();
//!     tokio::runtime::Runtime::new()?.block_on(async {
//!         let report = Command::new("make").arg("test").deadline(Duration::from_secs(60)).run().await;
//!         if let End::TimedOut { after } = report.end {
//!             println!("stopped after {after:?}, with everything that it had started");
//!         }
//!         Ok(())
//!     })
//! }
//! ```
//!
//! A child never sees the host's terminal or stdin, gets a short list of environment variables, and runs in a session
//! of its own. When the [`Report`] is there, nothing that the child started is alive.

mod backend;
mod capture;
#[cfg(target_os = "linux")]
mod cgroup;
mod command;
mod driver;
mod env;
mod error;
mod gate;
mod limits;
mod lines;
mod logfile;
mod pause;
mod plan;
mod program;
mod pump;
mod quota;
mod reap;
mod record;
mod redact;
mod report;
#[cfg(target_os = "linux")]
mod restrict;
mod sandbox;
#[cfg(unix)]
mod shim;
mod sink;
mod stdin;
#[cfg(unix)]
mod stop;
#[cfg(unix)]
mod sys;
#[cfg(unix)]
mod table;
mod tap;
mod utf8;
mod wake;
#[cfg(unix)]
mod wire;

pub use capture::{Captured, Pipe, Text};
pub use command::{CAPTURE_LIMIT, Command, GRACE, LINE_LIMIT, LOG_CEILING, Launch, OutputMode};
pub use driver::Running;
pub use error::SpawnError;
pub use limits::{HeldBy, OverLimit, Resource, ResourceLimits};
pub use lines::{Lines, StreamItem};
pub use pause::PauseSwitch;
pub use program::find_program;
pub use quota::disk_usage;
pub use reap::{Reaped, reap};
pub use record::TreeRecord;
pub use redact::redact;
pub use report::{Containment, End, ExitStatus, LogSummary, Means, Mode, Output, Report, Usage, Warning};
pub use sandbox::{BadHost, Exits, HostRule, Network, Refused, Sandbox, SandboxKind, SandboxUnavailable};
#[cfg(unix)]
pub use shim::shim_main;
pub use stdin::{Stdin, StdinWriter};
pub use tap::{Tap, TapItem};
pub use tokio_util::sync::CancellationToken;

/// On Windows a job object does the shim's work; there is nothing to prepare.
#[cfg(windows)]
pub fn shim_main() {}

/// How long descendants may outlive their leader before they count as leaked: the last members of a pipeline are
/// often still on their way out.
#[cfg(unix)]
const SETTLE: std::time::Duration = std::time::Duration::from_millis(100);

/// How long killing goes on before what is left counts as unkillable.
#[cfg(unix)]
const KILL_LIMIT: std::time::Duration = std::time::Duration::from_millis(1500);

/// The README's example is compiled like any other.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
