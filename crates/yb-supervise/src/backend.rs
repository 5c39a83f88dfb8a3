//! The ways to start a tree and to end it, behind one face for the driver.

use std::path::PathBuf;

use crate::error::SpawnError;
use crate::limits::OverLimit;
use crate::plan::Start;
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

/// What a backend has to tell.
#[derive(Debug)]
pub(crate) enum Event {
    /// The leader ended; descendants may still be alive, and are being dealt with.
    #[cfg_attr(windows, expect(dead_code, reason = "a job object ends as a whole"))]
    LeaderEnded,
    /// A limit was passed, and everything is being killed.
    #[cfg_attr(windows, expect(dead_code, reason = "a job object has no limits of ours"))]
    OverLimit(OverLimit),
    /// Nothing of the tree runs, as was asked for.
    Paused,
    /// Nothing is left.
    Done(Done),
    /// The shim is gone or silent.
    #[cfg_attr(windows, expect(dead_code, reason = "a job object has no shim"))]
    Lost,
}

/// The end of a tree.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) status: Option<ExitStatus>,
    /// Whether the program itself ran.
    pub(crate) began: bool,
    pub(crate) leaked: bool,
    pub(crate) usage: Usage,
    pub(crate) unkillable: Vec<u32>,
}

/// How a child is to be started.
#[derive(Debug, Clone)]
pub(crate) enum Way {
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
    Contained(Box<contained::Contained>),
    #[cfg(unix)]
    Direct(Box<direct::Direct>),
    #[cfg(windows)]
    Job(job::Job),
}

impl Backend {
    pub(crate) async fn start(way: Way, start: Start) -> Result<Self, SpawnError> {
        match way {
            #[cfg(unix)]
            Way::Contained { shim } => {
                contained::Contained::start(shim, start).await.map(|tree| Self::Contained(Box::new(tree)))
            }
            #[cfg(unix)]
            Way::Direct => direct::Direct::start(start).await.map(|tree| Self::Direct(Box::new(tree))),
            #[cfg(windows)]
            Way::Job => job::Job::start(start).map(Self::Job),
        }
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

    /// What finds the tree again when this host is gone.
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

    /// The next event. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Event {
        match self {
            #[cfg(unix)]
            Self::Contained(tree) => tree.next().await,
            #[cfg(unix)]
            Self::Direct(tree) => tree.next().await,
            #[cfg(windows)]
            Self::Job(tree) => tree.next().await,
        }
    }

    /// Leaves nothing of our own behind, once the tree is dead.
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

    /// SIGTERM to the leader's group, and SIGCONT so that a stopped one can hear it.
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

    /// Holds every process; [`Event::Paused`] follows.
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

    /// Lets them go on.
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

    /// SIGKILL to everything.
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

    /// The shim is lost: the host ends what it can find. Returns what it could not.
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

/// What the system said at exec, in the words of this crate.
pub(crate) fn exec_error(source: std::io::Error, program: PathBuf, cwd: PathBuf, total: usize) -> SpawnError {
    use std::io::ErrorKind;
    match source.kind() {
        ErrorKind::ArgumentListTooLong => SpawnError::TooLong {
            what: "the whole of arguments and environment".to_owned(),
            bytes: total,
            limit: argument_space(),
        },
        // Both were there a moment ago; a missing interpreter of a script looks the same as a missing program.
        ErrorKind::NotFound | ErrorKind::NotADirectory if !cwd.is_dir() => {
            SpawnError::CwdMissing { path: cwd }
        }
        ErrorKind::NotFound => SpawnError::BadFormat { path: program },
        ErrorKind::PermissionDenied => SpawnError::NotExecutable { path: program },
        _ if is_bad_format(&source) => SpawnError::BadFormat { path: program },
        _ => SpawnError::System { what: "start the program", source },
    }
}

/// What the system allows for arguments and environment together: a quarter of the stack limit on Linux.
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
