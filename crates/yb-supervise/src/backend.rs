//! The ways to start and end a process tree, behind one interface for the driver.

use std::path::PathBuf;

use crate::error::SpawnError;
use crate::limits::ExceededLimit;
use crate::plan::{SpawnPlan, StartHook};
use crate::record::TreeRecord;
use crate::report::{Containment, ExitStatus, Usage};

#[cfg(unix)]
mod contained;
#[cfg(unix)]
mod control;
#[cfg(unix)]
mod direct;
#[cfg(windows)]
mod job;
#[cfg(unix)]
mod shim_process;

/// Events of a process tree.
#[derive(Debug)]
pub(crate) enum TreeEvent {
    /// The leader ended; descendants may still be alive and are being handled.
    #[cfg_attr(windows, expect(dead_code, reason = "a job object ends as a whole"))]
    LeaderEnded,
    /// A limit was exceeded; the tree is being killed.
    #[cfg_attr(windows, expect(dead_code, reason = "no limits are enforced on a job object"))]
    OverLimit(ExceededLimit),
    /// The tree is suspended, as requested.
    Paused,
    /// Every process has ended, or is unkillable.
    Finished(TreeOutcome),
    /// The shim died or stopped responding.
    #[cfg_attr(windows, expect(dead_code, reason = "a job object has no shim"))]
    ShimLost,
}

/// How a tree ended.
#[derive(Debug)]
pub(crate) struct TreeOutcome {
    pub(crate) status: Option<ExitStatus>,
    /// Whether the program itself was started, and not only its sandbox wrapper.
    pub(crate) program_started: bool,
    pub(crate) leaked: bool,
    pub(crate) usage: Usage,
    pub(crate) unkillable: Vec<u32>,
}

/// The backend that starts a child.
#[derive(Debug, Clone)]
pub(crate) enum BackendKind {
    #[cfg(unix)]
    Contained { shim: PathBuf },
    #[cfg(unix)]
    Direct,
    #[cfg(windows)]
    Job,
}

/// A running tree.
#[derive(Debug)]
pub(crate) enum Backend {
    #[cfg(unix)]
    Contained(Box<contained::ContainedTree>),
    #[cfg(unix)]
    Direct(Box<direct::DirectTree>),
    #[cfg(windows)]
    Job(job::JobTree),
}

impl Backend {
    pub(crate) async fn start(
        kind: BackendKind,
        start: SpawnPlan,
        hook: Option<StartHook>,
    ) -> Result<Self, SpawnError> {
        let tree = match kind {
            #[cfg(unix)]
            BackendKind::Contained { shim } => {
                let tree = contained::ContainedTree::start(shim, start, hook).await?;
                return Ok(Self::Contained(Box::new(tree)));
            }
            #[cfg(unix)]
            BackendKind::Direct => Self::Direct(Box::new(direct::DirectTree::start(start).await?)),
            #[cfg(windows)]
            BackendKind::Job => Self::Job(job::JobTree::start(start)?),
        };
        if let Some(hook) = hook {
            let _ = hook(tree.record()).await;
        }
        Ok(tree)
    }

    pub(crate) fn pid(&self) -> u32 {
        match self {
            #[cfg(unix)]
            Self::Contained(tree) => tree.pid(),
            #[cfg(unix)]
            Self::Direct(tree) => tree.pid(),
            #[cfg(windows)]
            Self::Job(tree) => tree.pid(),
        }
    }

    /// Returns the record with which the tree can be found after the host died.
    pub(crate) fn record(&self) -> TreeRecord {
        match self {
            #[cfg(unix)]
            Self::Contained(tree) => tree.record(),
            #[cfg(unix)]
            Self::Direct(tree) => tree.record(),
            #[cfg(windows)]
            Self::Job(tree) => tree.record(),
        }
    }

    pub(crate) fn containment(&self) -> Containment {
        match self {
            #[cfg(unix)]
            Self::Contained(tree) => tree.containment(),
            #[cfg(unix)]
            Self::Direct(tree) => tree.containment(),
            #[cfg(windows)]
            Self::Job(tree) => tree.containment(),
        }
    }

    /// Waits for the next event. Cancel-safe.
    pub(crate) async fn next(&mut self) -> TreeEvent {
        match self {
            #[cfg(unix)]
            Self::Contained(tree) => tree.next().await,
            #[cfg(unix)]
            Self::Direct(tree) => tree.next().await,
            #[cfg(windows)]
            Self::Job(tree) => tree.next().await,
        }
    }

    /// Cleans up the backend's own process after the tree is dead.
    pub(crate) async fn close(&mut self) {
        match self {
            #[cfg(unix)]
            Self::Contained(tree) => tree.close().await,
            #[cfg(unix)]
            Self::Direct(_) => {}
            #[cfg(windows)]
            Self::Job(_) => {}
        }
    }

    /// Sends SIGTERM to the leader's group, then SIGCONT so that a stopped process can handle it.
    pub(crate) fn terminate(&mut self) {
        match self {
            #[cfg(unix)]
            Self::Contained(tree) => tree.terminate(),
            #[cfg(unix)]
            Self::Direct(tree) => tree.terminate(),
            #[cfg(windows)]
            Self::Job(tree) => tree.kill(),
        }
    }

    /// Suspends every process. [`TreeEvent::Paused`] follows.
    pub(crate) async fn pause(&mut self) {
        match self {
            #[cfg(unix)]
            Self::Contained(tree) => tree.pause(),
            #[cfg(unix)]
            Self::Direct(tree) => tree.pause().await,
            #[cfg(windows)]
            Self::Job(tree) => tree.pause(),
        }
    }

    /// Resumes every process.
    pub(crate) fn resume(&mut self) {
        match self {
            #[cfg(unix)]
            Self::Contained(tree) => tree.resume(),
            #[cfg(unix)]
            Self::Direct(tree) => tree.resume(),
            #[cfg(windows)]
            Self::Job(_) => {}
        }
    }

    /// Sends SIGKILL to every process.
    pub(crate) fn kill(&mut self) {
        match self {
            #[cfg(unix)]
            Self::Contained(tree) => tree.kill(),
            #[cfg(unix)]
            Self::Direct(tree) => tree.kill(),
            #[cfg(windows)]
            Self::Job(tree) => tree.kill(),
        }
    }

    /// Kills every process that the host can find, after the shim was lost. Returns the pids that remain.
    pub(crate) async fn sweep(&mut self) -> Vec<u32> {
        match self {
            #[cfg(unix)]
            Self::Contained(tree) => tree.sweep().await,
            #[cfg(unix)]
            Self::Direct(tree) => tree.unkillable(),
            #[cfg(windows)]
            Self::Job(_) => Vec::new(),
        }
    }
}

/// Maps an error of exec to a `SpawnError`.
pub(crate) fn exec_error(source: std::io::Error, program: PathBuf, cwd: PathBuf, total: usize) -> SpawnError {
    use std::io::ErrorKind;
    match source.kind() {
        ErrorKind::ArgumentListTooLong => SpawnError::TooLong {
            what: "argument list with environment".to_owned(),
            bytes: total,
            limit: argument_space(),
        },
        // Both existed during validation. A missing script interpreter and a missing program look the same.
        ErrorKind::NotFound | ErrorKind::NotADirectory if !cwd.is_dir() => {
            SpawnError::CwdMissing { path: cwd }
        }
        ErrorKind::NotFound => SpawnError::BadFormat { path: program },
        ErrorKind::PermissionDenied => SpawnError::NotExecutable { path: program },
        _ if is_bad_format(&source) => SpawnError::BadFormat { path: program },
        _ => SpawnError::System { what: "start the program", source },
    }
}

/// Returns the size limit of arguments and environment together: a quarter of the stack limit on Linux.
#[cfg(unix)]
fn argument_space() -> usize {
    let stack = rustix::process::getrlimit(rustix::process::Resource::Stack).current;
    stack.map_or(6 << 20, |bytes| (bytes as usize / 4).clamp(128 << 10, 6 << 20))
}

#[cfg(not(unix))]
fn argument_space() -> usize {
    32_767
}

#[cfg(unix)]
fn is_bad_format(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENOEXEC)
}

#[cfg(not(unix))]
fn is_bad_format(error: &std::io::Error) -> bool {
    // ERROR_BAD_EXE_FORMAT
    error.raw_os_error() == Some(193)
}
