//! Errors of finding and installing pinned programs, each with its hints.

use std::io;
use std::path::PathBuf;

use super::pinned::PinnedProgram;

/// An error of finding or installing a program.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// No agent of this name has a program that can be installed.
    #[error("no program of this name can be installed: `{name}`")]
    UnknownProgram {
        /// The given name.
        name: String,
        /// The names of the programs that can be installed.
        known: Vec<&'static str>,
    },
    /// The version is a range, a tag or missing.
    #[error("not an exact version: `{version}`")]
    NotExact {
        /// The agent.
        name: &'static str,
        /// The given version.
        version: String,
    },
    /// The version is not installed.
    #[error("`{program}` is not installed in `{}`", prefix.display())]
    NotInstalled {
        /// The program.
        program: PinnedProgram,
        /// Its folder in the store.
        prefix: PathBuf,
    },
    /// npm is not on `PATH`.
    #[error("`npm` was not found, and `{program}` is installed with it")]
    NoNpm {
        /// The program.
        program: PinnedProgram,
    },
    /// npm failed.
    #[error("npm could not install `{program}`: {reason}")]
    Npm {
        /// The program.
        program: PinnedProgram,
        /// The exit status of npm and the end of its output.
        reason: String,
    },
    /// Another process holds the lock of this version for too long.
    #[error("another process has been installing `{program}` for {minutes} minutes")]
    Busy {
        /// The program.
        program: PinnedProgram,
        /// The time waited, in minutes.
        minutes: u64,
    },
    /// No variable names the directory of the store.
    #[error("no directory for tools: neither `HOME` nor `YB_TOOLS_DIR` is set")]
    NoDirectory,
    /// An operation on the store failed.
    #[error("failed to {what} `{}`: {source}", path.display())]
    Io {
        /// The operation.
        what: &'static str,
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

impl ProgramError {
    pub(super) fn io(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { what, path, source }
    }

    /// Hints, one per line.
    #[must_use]
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::UnknownProgram { known, .. } if known.is_empty() => Vec::new(),
            Self::UnknownProgram { name, known } => {
                let near = yb_yaml::diagnostic::nearest(name, known.iter().copied())
                    .or_else(|| known.iter().copied().find(|known| known.starts_with(name.as_str())));
                let near = near.map(|near| format!("did you mean `{near}`?"));
                near.into_iter().chain([format!("known are `{}`", known.join("`, `"))]).collect()
            }
            Self::NotExact { name, .. } => vec![format!("write all of it, such as `{name}@1.2.3`")],
            Self::NotInstalled { program, .. } => {
                vec![format!("install it: `yb install-agents --cli {program}`")]
            }
            Self::NoNpm { .. } => vec!["install Node.js, which brings npm: https://nodejs.org".to_owned()],
            Self::Npm { program, .. } => {
                vec![format!("try it by hand: `npm view {}@{}`", program.npm.package, program.version)]
            }
            Self::Busy { .. } => vec!["end the other one, or wait for it".to_owned()],
            Self::NoDirectory => vec!["set `YB_TOOLS_DIR` to a directory".to_owned()],
            Self::Io { .. } => vec!["check the directory's owner, its rights and the free space".to_owned()],
        }
    }
}
