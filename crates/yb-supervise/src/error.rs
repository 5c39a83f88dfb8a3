//! Why a child could not be started, each with the way out.

use std::io;
use std::path::PathBuf;

use crate::report::Means;
use crate::sandbox::SandboxUnavailable;

/// Why a child could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// No such program.
    #[error("program not found: `{program}`")]
    NotFound {
        /// What was asked for.
        program: String,
        /// The directories of the child's PATH, in order; empty if a path was given.
        searched: Vec<PathBuf>,
    },
    /// There is such a file, but it can't be executed.
    #[error("program is not executable: `{}`", path.display())]
    NotExecutable {
        /// The file.
        path: PathBuf,
    },
    /// The file is executable but of no format that the system runs.
    #[error("program has no format that can be run: `{}`", path.display())]
    BadFormat {
        /// The file.
        path: PathBuf,
    },
    /// The working directory is missing or not a directory.
    #[error("working directory does not exist: `{}`", path.display())]
    CwdMissing {
        /// The directory.
        path: PathBuf,
    },
    /// The directory that a log or tee belongs in is missing.
    #[error("log directory does not exist: `{}`", path.display())]
    LogDirectoryMissing {
        /// The directory.
        path: PathBuf,
    },
    /// The log or tee can't be written.
    #[error("log file can't be written: `{}`", path.display())]
    LogNotWritable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A single argument or variable is too long, or all of them together are (E2BIG).
    #[error("{what} is too long: {bytes} bytes, at most {limit} are possible")]
    TooLong {
        /// Which one, e.g. ``argument 2`` or ``environment variable `X` ``.
        what: String,
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        limit: usize,
    },
    /// A NUL byte where the system can't take one.
    #[error("{what} contains a NUL byte")]
    NulByte {
        /// Where.
        what: String,
    },
    /// Containment was asked for, but this program can't serve as its own shim and no other was named.
    #[error("no shim is available to contain the child")]
    NoShim,
    /// The shim did not start or did not answer.
    #[error("shim could not be started: `{}`", path.display())]
    Shim {
        /// The shim's program.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The forced means of containment does not work here.
    #[error("containment by {means} is not possible here")]
    MeansUnavailable {
        /// The means.
        means: Means,
        /// What the system said.
        source: io::Error,
    },
    /// A sandbox was asked for, and there is none here.
    #[error("no sandbox is available: {0}")]
    Sandbox(SandboxUnavailable),
    /// What the sandbox is to show is not there.
    #[error("sandbox can't show `{}`", path.display())]
    SandboxPath {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The sandbox does not show the working directory.
    #[error("sandbox does not show the working directory: `{}`", path.display())]
    NotShown {
        /// The directory.
        path: PathBuf,
    },
    /// The sandbox could not be made after all; what was said about it is in the output.
    #[error("sandbox could not be made: {reason}")]
    SandboxFailed {
        /// The last words of what makes it.
        reason: String,
    },
    /// Anything else that the system refused.
    #[error("failed to {what}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl SpawnError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NotFound { searched, .. } if searched.is_empty() => "check the path".to_owned(),
            Self::NotFound { searched, .. } => {
                let places: Vec<_> = searched.iter().map(|dir| dir.display().to_string()).collect();
                format!("install it, or give its full path; searched: {}", places.join(", "))
            }
            Self::NotExecutable { path } => format!("make it executable: `chmod +x {}`", path.display()),
            Self::BadFormat { .. } => {
                "a script needs a first line such as `#!/bin/sh`; a binary must be built for this system"
                    .to_owned()
            }
            Self::CwdMissing { .. } => "create the directory first".to_owned(),
            Self::LogDirectoryMissing { path } => format!("create it: `mkdir -p {}`", path.display()),
            Self::LogNotWritable { .. } => {
                "check the directory's owner, its rights and the free space".to_owned()
            }
            Self::TooLong { .. } => "pass it through stdin or a file".to_owned(),
            Self::NulByte { .. } => "remove it".to_owned(),
            Self::NoShim => {
                "call `yb_supervise::shim_main()` first in `main`, or name a shim program".to_owned()
            }
            Self::MeansUnavailable { means: Means::Cgroup, .. } => {
                "it needs cgroup v2 with a delegated subtree (root, or `systemd-run --user --scope`)"
                    .to_owned()
            }
            Self::Sandbox(unavailable) => unavailable.fix.clone(),
            Self::SandboxPath { .. } => "create it first, or don't show it".to_owned(),
            Self::NotShown { .. } => "show it: `Sandbox::writable` or `Sandbox::read_only`".to_owned(),
            Self::SandboxFailed { .. } => "`yb doctor` says whether sandboxes work here".to_owned(),
            Self::Shim { .. } | Self::MeansUnavailable { .. } | Self::System { .. } => return None,
        })
    }
}
