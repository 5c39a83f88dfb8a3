//! The report about a child that has ended.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;

use crate::capture::CapturedOutput;
use crate::error::SpawnError;
use crate::limits::ExceededLimit;
use crate::sandbox::RefusedConnection;

/// How a supervised child ran and ended.
#[derive(Debug)]
#[non_exhaustive]
pub struct Report {
    /// Why the child ended.
    pub end: End,
    /// The exit status of the leader, if known; also set when the child timed out.
    pub status: Option<ExitStatus>,
    /// The pid of the leader, if it was started.
    pub pid: Option<u32>,
    /// The output, according to the output mode.
    pub output: Output,
    /// Byte counts of the log file and the tee.
    pub log: LogSummary,
    /// When the child was started.
    pub started_at: Timestamp,
    /// When the last process of the tree was gone.
    pub ended_at: Timestamp,
    /// Duration by the monotonic clock, including pauses.
    pub duration: Duration,
    /// Total time paused, which does not count against the deadline.
    pub paused: Duration,
    /// Resource usage of the tree. Under [`Launch::Direct`](crate::Launch) it covers only the leader and what
    /// it reaped.
    pub usage: Usage,
    /// Whether descendants outlived a leader that ended on its own. They were killed.
    pub leaked: bool,
    /// How the tree was contained; `None` if nothing was started.
    pub containment: Option<Containment>,
    /// Pids of processes that SIGKILL did not end, because they hang in the kernel.
    pub unkillable: Vec<u32>,
    /// Connections that the egress proxy of the sandbox refused.
    pub refused: Vec<RefusedConnection>,
    /// Warnings that no other field shows.
    pub warnings: Vec<Warning>,
}

impl Report {
    /// Returns whether the child exited with code 0.
    pub fn success(&self) -> bool {
        matches!(self.end, End::Exited { code: 0 })
    }

    /// Returns the exit code as a shell reports it: 128 + n for signal n.
    pub fn shell_code(&self) -> Option<i32> {
        self.status.map(|status| match status {
            ExitStatus::Code(code) => code,
            ExitStatus::Signal(signal) => 128 + signal,
        })
    }
}

/// Why a child ended.
#[derive(Debug)]
#[non_exhaustive]
pub enum End {
    /// The leader exited.
    Exited {
        /// Its exit code.
        code: i32,
    },
    /// The leader was killed by a signal that this crate did not send.
    Signaled {
        /// The signal number.
        signal: i32,
    },
    /// The deadline expired.
    TimedOut {
        /// The configured deadline.
        after: Duration,
    },
    /// The caller cancelled or dropped the child.
    Cancelled,
    /// A watched directory exceeded its quota.
    OverQuota {
        /// The directory.
        directory: PathBuf,
        /// The measured usage, in bytes.
        used: u64,
        /// The quota, in bytes.
        limit: u64,
    },
    /// The tree exceeded a resource limit.
    OverLimit(ExceededLimit),
    /// The shim died or stopped responding. The host killed the processes that it could find.
    SupervisorLost,
    /// The child could not be started.
    SpawnFailed(SpawnError),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited { code } => write!(f, "exited with code {code}"),
            Self::Signaled { signal } => write!(f, "killed by signal {signal}"),
            Self::TimedOut { after } => write!(f, "timed out after {after:?}"),
            Self::Cancelled => f.write_str("cancelled"),
            Self::OverQuota { directory, used, limit } => {
                write!(f, "disk quota exceeded: {used} bytes (maximum {limit}) in `{}`", directory.display())
            }
            Self::OverLimit(over) => over.fmt(f),
            Self::SupervisorLost => f.write_str("shim lost"),
            Self::SpawnFailed(error) => write!(f, "{error}"),
        }
    }
}

/// The exit status of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitStatus {
    /// The exit code.
    Code(i32),
    /// The signal that killed the process.
    Signal(i32),
}

/// The output of a child, by output mode.
#[derive(Debug)]
#[non_exhaustive]
pub enum Output {
    /// Nothing was started.
    None,
    /// The beginning of both pipes, up to the limit.
    Captured(CapturedOutput),
    /// stdout went to the line stream; this is the tail of stderr.
    Streamed {
        /// The last bytes of stderr.
        stderr_tail: Vec<u8>,
        /// Bytes of stderr before the tail; only the log has them.
        stderr_dropped: u64,
    },
}

impl Output {
    /// Returns the captured output; `None` in other modes.
    pub fn captured(&self) -> Option<&CapturedOutput> {
        if let Self::Captured(captured) = self { Some(captured) } else { None }
    }
}

/// Byte counts of the log file and the tee.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogSummary {
    /// Bytes in the log file, without the truncation notice.
    pub logged: u64,
    /// Bytes missing from the log because of its size limit or a failed write.
    pub not_logged: u64,
    /// Bytes of lines that were kept out of the log ([`Command::omit_from_log`](crate::Command::omit_from_log)).
    pub omitted: u64,
    /// Bytes in the tee of a stream.
    pub teed: u64,
    /// Bytes missing from the tee because of its size limit or a failed write.
    pub not_teed: u64,
}

/// Resource usage of a process tree.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// User CPU time, summed over all reaped processes.
    pub user: Duration,
    /// System CPU time, summed over all reaped processes.
    pub system: Duration,
    /// Peak RSS of the largest single process in bytes, not a sum over the tree. At least a few megabytes,
    /// because the kernel includes the forked image before exec.
    pub peak_rss_of_largest_process: u64,
}

/// How a tree is contained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Containment {
    /// How the child was started.
    pub mode: ContainmentMode,
    /// How descendants are found and killed.
    pub method: ContainmentMethod,
    /// Whether a descendant could escape. True for a sweep, which can't recognize a process that left its
    /// session and cleared its environment.
    pub best_effort: bool,
}

impl Containment {
    pub(crate) fn new(mode: ContainmentMode, method: ContainmentMethod) -> Self {
        Self { mode, method, best_effort: method == ContainmentMethod::Sweep }
    }
}

/// How a child was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ContainmentMode {
    /// Below a shim, which outlives the tree and kills it when the host dies.
    Contained,
    /// As a child of the host.
    Direct,
}

/// How the descendants of a child are found and killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ContainmentMethod {
    /// The tree has its own cgroup and is killed atomically; orphans are adopted as well.
    Cgroup,
    /// The shim adopts orphans as a child subreaper, so that all descendants stay below it.
    Subreaper,
    /// The process table is scanned for the leader's descendants, group, session and marker. Best effort.
    Sweep,
    /// A Windows job object.
    JobObject,
}

impl fmt::Display for ContainmentMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cgroup => "cgroup",
            Self::Subreaper => "subreaper",
            Self::Sweep => "sweep",
            Self::JobObject => "job object",
        })
    }
}

/// A problem that did not prevent the run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// A secret is too short to be redacted safely and was not redacted.
    SecretTooShort {
        /// The secret's name.
        name: String,
    },
    /// Writing the log or tee failed; draining continued.
    WriteFailed {
        /// The file.
        path: PathBuf,
        /// The cause.
        reason: String,
    },
    /// The output pipes were closed while a process still held them open.
    PipesHeldOpen,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SecretTooShort { name } => {
                write!(
                    f,
                    "secret `{name}` is shorter than {} bytes and is not redacted",
                    yb_redact::MIN_LENGTH
                )
            }
            Self::WriteFailed { path, reason } => write!(f, "failed to write `{}`: {reason}", path.display()),
            Self::PipesHeldOpen => {
                f.write_str("a process still held the output pipes open; they were closed")
            }
        }
    }
}
