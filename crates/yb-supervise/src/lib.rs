//! Run a child process with a deadline, bounded output and a contained process tree, and get one report of
//! how it ended.
//!
//! ```no_run
//! use std::time::Duration;
//! use yb_supervise::{Command, End};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // Call this first: it lets this program act as its own shim, so that no descendant can escape.
//!     yb_supervise::shim_main();
//!     tokio::runtime::Runtime::new()?.block_on(async {
//!         let report = Command::new("make").arg("test").deadline(Duration::from_secs(60)).run().await;
//!         if let End::TimedOut { after } = report.end {
//!             println!("killed after {after:?}, together with its whole process tree");
//!         }
//!         Ok(())
//!     })
//! }
//! ```
//!
//! The child gets no terminal, no inherited stdin, an allowlist of environment variables, and its own
//! session. Once [`Child::wait`] or [`Command::run`] returns a [`Report`], every process of the tree is dead,
//! except those listed in [`Report::unkillable`].
//!
//! # Terms
//!
//! - The **host** is the process that uses this crate.
//! - The **leader** is the child process itself; the **tree** is the leader and all its descendants.
//! - The **shim** is a small process between host and leader. It adopts orphans, enforces limits and kills the tree
//!   when the host dies. See [`shim_main`].

mod backend;
mod capture;
#[cfg(target_os = "linux")]
mod cgroup;
mod command;
mod driver;
mod egress_proxy;
mod env;
mod error;
mod facts;
#[cfg(target_os = "linux")]
mod keeper;
mod limits;
mod lines;
mod log_filter;
mod logfile;
#[cfg(unix)]
mod open_files;
mod pause;
mod plan;
#[cfg(unix)]
mod process_table;
mod program;
mod pump;
mod quota;
mod reap;
mod record;
mod report;
#[cfg(target_os = "linux")]
mod restrict;
mod sandbox;
#[cfg(unix)]
mod shim;
mod shorten;
mod sink;
mod stdin;
#[cfg(unix)]
mod suspend;
#[cfg(unix)]
mod sys;
mod tap;
mod utf8;
mod wake;
#[cfg(unix)]
mod wire;

pub use capture::{CapturedOutput, LossyText, Pipe};
pub use command::{
    Command, DEFAULT_CAPTURE_LIMIT, DEFAULT_GRACE, DEFAULT_LINE_LIMIT, DEFAULT_LOG_CEILING, Launch,
    OutputMode,
};
pub use driver::Child;
pub use error::SpawnError;
pub use facts::{program_identity, recall_fact, remember_fact, remember_facts_in};
#[cfg(target_os = "linux")]
pub use keeper::{start_keeper, stop_keeper};
pub use limits::{ExceededLimit, LimitEnforcer, Resource, ResourceLimits};
pub use lines::{Lines, StreamItem};
#[cfg(unix)]
pub use open_files::raise_open_files_limit;
pub use pause::{PauseSwitch, Stopwatch};
pub use program::find_program;
pub use quota::disk_usage;
pub use reap::{ReapReport, reap};
pub use record::TreeRecord;
pub use report::{
    Containment, ContainmentMethod, ContainmentMode, End, ExitStatus, LogSummary, Output, Report, Usage,
    Warning,
};
pub use sandbox::{
    EgressRules, HostRule, InvalidHost, Network, OverlayMount, RefusedConnection, RootMount, Sandbox,
    SandboxKind, SandboxUnavailable, is_opaque_dir, is_whiteout,
};
#[cfg(unix)]
pub use shim::shim_main;
pub use shorten::{LineLimits, LineReader, full_length, truncation_note};
pub use stdin::{Stdin, StdinWriter};
pub use tap::{Tap, TapItem};
pub use tokio_util::sync::CancellationToken;

/// Windows has no such limit.
#[cfg(windows)]
pub fn raise_open_files_limit() -> u64 {
    u64::MAX
}

/// Does nothing on Windows, where a job object replaces the shim.
#[cfg(windows)]
pub fn shim_main() {}

/// Does nothing here: the keeper needs a system call of Linux.
#[cfg(not(target_os = "linux"))]
pub fn start_keeper() {}

/// Does nothing here: there is no keeper.
#[cfg(not(target_os = "linux"))]
pub fn stop_keeper() {}

/// How long descendants may outlive their leader before they count as leaked. The last processes of a
/// pipeline often exit slightly later than the leader.
#[cfg(unix)]
const SETTLE_TIME: std::time::Duration = std::time::Duration::from_millis(100);

/// How long SIGKILL is repeated before the remaining processes are reported as unkillable.
#[cfg(unix)]
const KILL_TIMEOUT: std::time::Duration = std::time::Duration::from_millis(1500);

/// Compiles the example of the README as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
