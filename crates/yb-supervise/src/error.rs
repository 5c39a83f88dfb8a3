//! Errors of spawning a child, each with a hint.

use std::io;
use std::path::PathBuf;

use crate::report::ContainmentMethod;
use crate::sandbox::SandboxUnavailable;

/// Why a child could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// The program does not exist.
    #[error("program not found: `{program}`")]
    NotFound {
        /// The requested program.
        program: String,
        /// The directories of the child's PATH that were searched, in order; empty if a path was given.
        searched: Vec<PathBuf>,
    },
    /// The file exists but is not executable.
    #[error("program is not executable: `{}`", path.display())]
    NotExecutable {
        /// The file.
        path: PathBuf,
    },
    /// The file is executable but has no format that the system can run.
    #[error("unknown executable format: `{}`", path.display())]
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
    /// The parent directory of a log or tee does not exist.
    #[error("log directory does not exist: `{}`", path.display())]
    LogDirectoryMissing {
        /// The directory.
        path: PathBuf,
    },
    /// The log or tee can't be opened for writing.
    #[error("failed to open log file: `{}`", path.display())]
    LogNotWritable {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A single argument or variable is too long, or all of them together are (`E2BIG`).
    #[error("{what} is too long: {bytes} bytes (maximum {limit})")]
    TooLong {
        /// What is too long, e.g. ``argument 2`` or ``environment variable `X` ``.
        what: String,
        /// Its length.
        bytes: usize,
        /// The maximum length.
        limit: usize,
    },
    /// A string contains a NUL byte.
    #[error("{what} contains a NUL byte")]
    NulByte {
        /// The string that contains it.
        what: String,
    },
    /// Containment is required, but no shim is available: this program did not call `shim_main` and no other
    /// shim was set.
    #[error("no shim available to contain the child")]
    NoShim,
    /// The shim did not start or did not respond.
    #[error("failed to start shim: `{}`", path.display())]
    Shim {
        /// The shim program.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The forced containment method is not available on this machine.
    #[error("containment by {method} is not available")]
    ContainmentUnavailable {
        /// The forced method.
        method: ContainmentMethod,
        /// The cause.
        source: io::Error,
    },
    /// The requested sandbox is not available on this machine.
    #[error("sandbox not available: {0}")]
    SandboxUnavailable(SandboxUnavailable),
    /// A path of the sandbox can't be used.
    #[error("failed to map path into the sandbox: `{}`", path.display())]
    SandboxPath {
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The working directory is not visible in the sandbox.
    #[error("working directory is not visible in the sandbox: `{}`", path.display())]
    CwdNotVisible {
        /// The directory.
        path: PathBuf,
    },
    /// The sandbox could not be set up. The output has the details.
    #[error("failed to set up the sandbox: {reason}")]
    SandboxFailed {
        /// The last line of the wrapper's stderr.
        reason: String,
    },
    /// Any other system error.
    #[error("failed to {what}")]
    System {
        /// The operation that failed.
        what: &'static str,
        /// The cause.
        source: io::Error,
    },
}

impl SpawnError {
    /// Returns what the user can do about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NotFound { searched, .. } if searched.is_empty() => "check the path".to_owned(),
            Self::NotFound { searched, .. } => {
                let directories: Vec<_> = searched.iter().map(|dir| dir.display().to_string()).collect();
                format!("install it or pass its full path; searched: {}", directories.join(", "))
            }
            Self::NotExecutable { path } => format!("make it executable: `chmod +x {}`", path.display()),
            Self::BadFormat { .. } => {
                "a script needs a first line such as `#!/bin/sh`; a binary must be built for this system"
                    .to_owned()
            }
            Self::CwdMissing { .. } => "create the directory first".to_owned(),
            Self::LogDirectoryMissing { path } => format!("create it: `mkdir -p {}`", path.display()),
            Self::LogNotWritable { .. } => {
                "check the owner and permissions of the directory, and the free space".to_owned()
            }
            Self::TooLong { .. } => "pass it through stdin or a file".to_owned(),
            Self::NulByte { .. } => "remove it".to_owned(),
            Self::NoShim => {
                "call `yb_supervise::shim_main()` first in `main`, or set `Command::shim`".to_owned()
            }
            Self::ContainmentUnavailable { method: ContainmentMethod::Cgroup, .. } => {
                "cgroup containment needs cgroup v2 with a delegated subtree: run as root or under `systemd-run --user --scope`"
                    .to_owned()
            }
            Self::SandboxUnavailable(unavailable) => unavailable.fix.clone(),
            Self::SandboxPath { .. } => "create it first, or remove it from the sandbox".to_owned(),
            Self::CwdNotVisible { .. } => "add it with `Sandbox::writable` or `Sandbox::read_only`".to_owned(),
            Self::SandboxFailed { .. } => "check the sandbox with `SandboxKind::probe` (in youBencha: `yb doctor`)".to_owned(),
            #[cfg(unix)]
            Self::Shim { source, .. } | Self::System { source, .. } => {
                return crate::open_files::hint(source);
            }
            #[cfg(windows)]
            Self::Shim { .. } | Self::System { .. } => return None,
            Self::ContainmentUnavailable { .. } => return None,
        })
    }
}
