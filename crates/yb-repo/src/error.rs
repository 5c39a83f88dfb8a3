//! What can go wrong with repositories, with git's own words where git was asked.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use yb_supervise::SpawnError;

use super::git::{GitVersion, MIN_GIT};
use super::source::SourceError;

/// Why a git command gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// git could not be started.
    #[error("failed to start git: {0}")]
    Spawn(#[from] SpawnError),
    /// git is older than what is needed.
    #[error("git {found} is too old, at least {MIN_GIT} is needed")]
    TooOld {
        /// The version that was found first on PATH.
        found: GitVersion,
    },
    /// The program does not say its version in the way git does.
    #[error("git did not tell its version: `{answer}`")]
    NoVersion {
        /// What it said instead.
        answer: String,
    },
    /// git ended with an error.
    #[error("`git {command}` failed ({how}): {stderr}")]
    Failed {
        /// The subcommand.
        command: String,
        /// How it ended.
        how: String,
        /// Its own words.
        stderr: String,
    },
    /// The deadline came first.
    #[error("`git {command}` did not end within {after:?}")]
    TimedOut {
        /// The subcommand.
        command: String,
        /// The deadline.
        after: Duration,
    },
    /// The caller cancelled it.
    #[error("`git {command}` was cancelled")]
    Cancelled {
        /// The subcommand.
        command: String,
    },
    /// git printed more than is kept, or something that it never prints.
    #[error("`git {command}` gave an answer that can't be used: {what}")]
    Answer {
        /// The subcommand.
        command: String,
        /// What is wrong with it.
        what: String,
    },
}

impl GitError {
    /// The way out, where there is one to name.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Spawn(SpawnError::NotFound { .. }) => Some("install git 2.41 or newer"),
            Self::TooOld { .. } => {
                Some("put a newer git first on PATH; several may be installed (`which -a git`)")
            }
            Self::Failed { stderr, .. } if stderr.contains("error: 30") => {
                Some("redirects are not followed; name the address that the server redirects to")
            }
            Self::Failed { stderr, .. }
                if stderr.contains("could not read Username") || stderr.contains("Permission denied") =>
            {
                Some("nobody is asked for a password: set up a git credential helper or an ssh agent")
            }
            _ => None,
        }
    }

    /// Whether the caller asked for the end.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled { .. })
    }
}

/// Why a repository could not be prepared or captured.
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
        /// What was asked for.
        name: String,
        /// Where it was looked for, without credentials.
        repository: String,
    },
    /// A name that git can't have.
    #[error("not a possible {what}: `{name}`")]
    BadName {
        /// The kind of name.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// The system refused something.
    #[error("failed to {what} `{}`: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another process holds the lock of a cache entry and does not let go.
    #[error("cache entry stayed locked for {after:?}: `{}`", path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// How long was waited.
        after: Duration,
    },
    /// A pattern that is not a glob.
    #[error("not a valid glob: `{pattern}`: {reason}")]
    BadGlob {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A blocking task was lost; the runtime is going down.
    #[error("the runtime ended while files were being worked on")]
    RuntimeGone,
}

/// Whose turn it is when something went wrong with a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepoErrorKind {
    /// The user's: the case names something that can't be used or is not there.
    Configuration,
    /// The machine's or the network's: `infra`, worth another try.
    Infrastructure,
    /// Nobody's: it was cancelled.
    Cancelled,
}

impl RepoError {
    /// Whose turn it is.
    pub fn kind(&self) -> RepoErrorKind {
        match self {
            Self::Git(GitError::Cancelled { .. }) => RepoErrorKind::Cancelled,
            Self::Git(GitError::TooOld { .. } | GitError::NoVersion { .. })
            | Self::NoRevision { .. }
            | Self::BadName { .. }
            | Self::BadGlob { .. } => RepoErrorKind::Configuration,
            Self::Source(SourceError::Unresolved { .. }) => RepoErrorKind::Infrastructure,
            Self::Source(_) => RepoErrorKind::Configuration,
            Self::Git(_) | Self::Io { .. } | Self::Locked { .. } | Self::RuntimeGone => {
                RepoErrorKind::Infrastructure
            }
        }
    }

    /// For `map_err`: a failed system call with its file.
    pub(crate) fn io(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { what, path, source }
    }

    /// The way out, where there is one to name.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Git(error) => error.hint(),
            Self::Source(error) => error.hint(),
            _ => None,
        }
    }
}

/// Runs what blocks on files where it may block.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RepoError> + Send + 'static,
) -> Result<T, RepoError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| RepoError::RuntimeGone)?
}
