//! What is known about a child once it has ended: one report, and nothing in it is guessed.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;

use crate::capture::Captured;
use crate::error::SpawnError;
use crate::limits::OverLimit;
use crate::sandbox::Refused;

/// How one supervised child went.
#[derive(Debug)]
#[non_exhaustive]
pub struct Report {
    /// Why it ended.
    pub end: End,
    /// How the leader itself ended, if that was seen: also for a child that was stopped by its deadline.
    pub status: Option<ExitStatus>,
    /// The leader's pid, if it was started.
    pub pid: Option<u32>,
    /// What it printed.
    pub output: Output,
    /// The log file and tee, if any was asked for.
    pub log: LogSummary,
    /// When the child was started; prints as RFC 3339.
    pub started_at: Timestamp,
    /// When nothing of it was left; prints as RFC 3339.
    pub ended_at: Timestamp,
    /// Between the two, by a clock that nobody can set; what it was paused is part of it.
    pub duration: Duration,
    /// How long it was paused. This does not count against its deadline.
    pub paused: Duration,
    /// What the whole tree used; zero where [`Launch::Direct`](crate::Launch) could not see a descendant.
    pub usage: Usage,
    /// Whether descendants were still alive after the leader had ended by itself. They were killed.
    pub leaked: bool,
    /// What held the tree together; `None` if nothing was started.
    pub containment: Option<Containment>,
    /// Processes that SIGKILL did not end (they hang in the kernel), by pid.
    pub unkillable: Vec<u32>,
    /// Connections that the sandbox refused, as far as they came to our proxy.
    pub refused: Vec<Refused>,
    /// What the caller should know and can't read off the other fields.
    pub warnings: Vec<Warning>,
}

impl Report {
    /// Whether the child ran to its own end with exit code 0.
    pub fn success(&self) -> bool {
        matches!(self.end, End::Exited { code: 0 })
    }

    /// The exit code as a shell would show it: 128 + n for signal n.
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
    /// By itself.
    Exited {
        /// Its exit code.
        code: i32,
    },
    /// By a signal that was not ours.
    Signalled {
        /// The signal's number.
        signal: i32,
    },
    /// Its deadline came.
    TimedOut {
        /// The deadline that was set.
        after: Duration,
    },
    /// The caller cancelled it or dropped it.
    Cancelled,
    /// A watched directory grew past its quota.
    OverQuota {
        /// The directory.
        directory: PathBuf,
        /// What was in it when that was seen.
        used: u64,
        /// What was allowed.
        limit: u64,
    },
    /// It used more than it may.
    OverLimit(OverLimit),
    /// The shim was killed or stopped answering; the host swept up what it could find.
    SupervisorLost,
    /// It never ran.
    SpawnFailed(SpawnError),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited { code } => write!(f, "exited with code {code}"),
            Self::Signalled { signal } => write!(f, "ended by signal {signal}"),
            Self::TimedOut { after } => write!(f, "timed out after {after:?}"),
            Self::Cancelled => f.write_str("cancelled"),
            Self::OverQuota { directory, used, limit } => {
                write!(f, "over quota: {used} of {limit} bytes in `{}`", directory.display())
            }
            Self::OverLimit(over) => over.fmt(f),
            Self::SupervisorLost => f.write_str("supervisor lost"),
            Self::SpawnFailed(error) => write!(f, "{error}"),
        }
    }
}

/// How a process ended, as the kernel tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitStatus {
    /// It exited with this code.
    Code(i32),
    /// It was ended by this signal.
    Signal(i32),
}

/// What a child printed, by output mode.
#[derive(Debug)]
#[non_exhaustive]
pub enum Output {
    /// Nothing was started.
    None,
    /// Both pipes, kept in memory up to the limit.
    Captured(Captured),
    /// stdout went to the stream's consumer; this is the end of stderr.
    Streamed {
        /// The last bytes of stderr.
        stderr_tail: Vec<u8>,
        /// Bytes of stderr before the tail, which only the log has.
        stderr_dropped: u64,
    },
}

impl Output {
    /// The captured output; `None` in other modes.
    pub fn captured(&self) -> Option<&Captured> {
        if let Self::Captured(captured) = self { Some(captured) } else { None }
    }
}

/// What went into the files.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogSummary {
    /// Bytes in the log file, but for the line that says it was cut.
    pub logged: u64,
    /// Bytes that the log's ceiling or a failed write kept out of it.
    pub not_logged: u64,
    /// Bytes in the tee of a stream.
    pub teed: u64,
    /// Bytes that the ceiling or a failed write kept out of the tee.
    pub not_teed: u64,
}

/// What the tree of a child used.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// CPU time in user mode, summed over all reaped descendants.
    pub user: Duration,
    /// CPU time in the kernel, summed over all reaped descendants.
    pub system: Duration,
    /// Peak resident memory in bytes of the largest single process, never a sum over the tree. A few megabytes of
    /// whatever forked it are the floor: the kernel counts from before exec.
    pub peak_rss_of_largest_process: u64,
}

/// What held a tree together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Containment {
    /// How the child was started.
    pub mode: Mode,
    /// How its descendants were found.
    pub means: Means,
    /// Whether a descendant could have escaped: true for a sweep, where one that left its session and
    /// cleaned its environment is not recognised.
    pub best_effort: bool,
}

impl Containment {
    pub(crate) fn new(mode: Mode, means: Means) -> Self {
        Self { mode, means, best_effort: means == Means::Sweep }
    }
}

/// How a child was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// Below a shim that outlives it, and that kills the tree when the host dies.
    Contained,
    /// By the host itself.
    Direct,
}

/// How the descendants of a child are found and killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Means {
    /// All are in a cgroup of their own and die at one stroke; orphans are adopted as well.
    Cgroup,
    /// Orphans are adopted by the shim, so that everything hangs below it.
    Subreaper,
    /// The process table is searched for the leader's descendants, group, session and marker. Best effort.
    Sweep,
    /// A Windows job object.
    JobObject,
}

impl fmt::Display for Means {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cgroup => "cgroup",
            Self::Subreaper => "subreaper",
            Self::Sweep => "sweep",
            Self::JobObject => "job object",
        })
    }
}

/// Something that went otherwise than asked, without being an error.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// A secret is too short to be told from ordinary text and is not redacted.
    SecretTooShort {
        /// The secret's name.
        name: String,
    },
    /// Writing the log or tee failed; draining went on.
    WriteFailed {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// The output pipes were closed while something still held their other end.
    PipesHeldOpen,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SecretTooShort { name } => {
                write!(
                    f,
                    "secret `{name}` is shorter than {} bytes and is not redacted",
                    crate::redact::MIN_SECRET
                )
            }
            Self::WriteFailed { path, reason } => write!(f, "failed to write `{}`: {reason}", path.display()),
            Self::PipesHeldOpen => f.write_str("the output pipes were still held open and were closed"),
        }
    }
}
