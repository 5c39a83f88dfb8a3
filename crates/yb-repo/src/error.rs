//! Errors of repositories and git commands.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use yb_supervise::SpawnError;

use super::git::{GitVersion, MIN_GIT};
use super::source::SourceError;

/// An error of a git command.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// Starting git failed.
    #[error("failed to start git: {0}")]
    Spawn(#[from] SpawnError),
    /// The version of git is not supported.
    #[error("git {found} is too old (minimum {MIN_GIT})")]
    TooOld {
        /// The version of the first git on PATH.
        found: GitVersion,
    },
    /// The output of `git version` can't be parsed.
    #[error("failed to parse the version of git: `{answer}`")]
    NoVersion {
        /// The output.
        answer: String,
    },
    /// git exited with an error.
    #[error("`git {command}` failed ({how}): {stderr}")]
    Failed {
        /// The subcommand.
        command: String,
        /// Its exit code or signal.
        how: String,
        /// Its stderr.
        stderr: String,
    },
    /// git exceeded its time limit.
    #[error("`git {command}` timed out after {after:?}")]
    TimedOut {
        /// The subcommand.
        command: String,
        /// The time limit.
        after: Duration,
    },
    /// The caller cancelled the command.
    #[error("`git {command}` was cancelled")]
    Cancelled {
        /// The subcommand.
        command: String,
    },
    /// The output of git is too long or malformed.
    #[error("unexpected output of `git {command}`: {problem}")]
    BadOutput {
        /// The subcommand.
        command: String,
        /// The problem with the output.
        problem: String,
    },
}

impl GitError {
    /// How to fix the error, for a `hint:` line.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Spawn(SpawnError::NotFound { .. }) => Some("install git 2.39 or newer"),
            Self::TooOld { .. } => {
                Some("put a newer git first on PATH; `which -a git` lists the installed ones")
            }
            Self::Failed { stderr, .. } if stderr.contains("error: 30") => {
                Some("redirects are not followed; use the URL that the server redirects to")
            }
            Self::Failed { stderr, .. }
                if stderr.contains("could not read Username") || stderr.contains("Permission denied") =>
            {
                Some("passwords are not prompted for; set up a git credential helper or an ssh agent")
            }
            _ => None,
        }
    }

    /// Whether the caller cancelled the command.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled { .. })
    }
}

/// An error when preparing or capturing a repository.
#[derive(Debug, thiserror::Error)]
pub enum RepoError {
    /// git failed.
    #[error(transparent)]
    Git(#[from] GitError),
    /// The source can't be used.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The repository has no such branch, tag or commit.
    #[error("no {what} in `{repository}`: `{name}`")]
    NoRevision {
        /// The kind of revision.
        what: &'static str,
        /// The requested revision.
        name: String,
        /// The repository, without credentials.
        repository: String,
    },
    /// A name that git does not allow.
    #[error("invalid {what}: `{name}`")]
    BadName {
        /// The kind of name.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// An I/O operation failed.
    #[error("failed to {what} `{}`: {source}", path.display())]
    Io {
        /// The operation.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// Another process held a lock for too long.
    #[error("timed out after {after:?} waiting for the lock: `{}`", path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// The time waited.
        after: Duration,
    },
    /// Something changed the files that all trials of a commit share.
    #[error("the shared checkout was changed while trials used it: `{}`", path.display())]
    CheckoutChanged {
        /// The directory.
        path: PathBuf,
    },
    /// The files that a workspace was an overlay of are not in the cache.
    #[error("the shared checkout is not in the cache: `{}`", path.display())]
    CheckoutGone {
        /// The directory.
        path: PathBuf,
    },
    /// A pattern is not a valid glob.
    #[error("invalid glob `{pattern}`: {reason}")]
    BadGlob {
        /// The pattern.
        pattern: String,
        /// The problem with the pattern.
        reason: String,
    },
    /// A blocking task was dropped, because the runtime is shutting down.
    #[error("the runtime shut down during a file operation")]
    RuntimeGone,
}

/// The class of a repository error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepoErrorKind {
    /// The case refers to something that is invalid or does not exist.
    Configuration,
    /// The machine or the network failed: outcome `infra`, which is retried.
    Infrastructure,
    /// The operation was cancelled.
    Cancelled,
}

impl RepoError {
    /// The class of the error.
    pub fn kind(&self) -> RepoErrorKind {
        match self {
            Self::Git(GitError::Cancelled { .. }) => RepoErrorKind::Cancelled,
            Self::Git(GitError::TooOld { .. } | GitError::NoVersion { .. })
            | Self::NoRevision { .. }
            | Self::BadName { .. }
            | Self::BadGlob { .. } => RepoErrorKind::Configuration,
            Self::Source(SourceError::Unresolved { .. }) => RepoErrorKind::Infrastructure,
            Self::Source(_) => RepoErrorKind::Configuration,
            Self::Git(_)
            | Self::Io { .. }
            | Self::Locked { .. }
            | Self::CheckoutChanged { .. }
            | Self::CheckoutGone { .. }
            | Self::RuntimeGone => RepoErrorKind::Infrastructure,
        }
    }

    /// Wraps an I/O error with the operation and the file, for `map_err`.
    pub(crate) fn io(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { what, path, source }
    }

    /// How to fix the error, for a `hint:` line.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Git(error) => error.hint(),
            Self::Source(error) => error.hint(),
            Self::CheckoutChanged { .. } => {
                Some("leave the cache alone while `yb` runs, then run again: the next run checks it out anew")
            }
            _ => None,
        }
    }
}

/// Runs a blocking file operation on the blocking thread pool.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RepoError> + Send + 'static,
) -> Result<T, RepoError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| RepoError::RuntimeGone)?
}
