//! Errors before an agent was started, each with its hints.

use std::io;
use std::path::PathBuf;

use yb_supervise::SpawnError;

use super::codes::ErrorCode;
use yb_model::outcome::Outcome;

/// An error before the agent was started.
#[derive(Debug, thiserror::Error)]
pub enum AdapterError {
    /// The agent is not installed.
    #[error("{message}")]
    NotInstalled {
        /// The program and the places where it was searched.
        message: String,
        /// Hints.
        hints: Vec<String>,
    },
    /// The agent has no credentials.
    #[error("{message}")]
    NotAuthenticated {
        /// The problem.
        message: String,
        /// Hints.
        hints: Vec<String>,
    },
    /// The configuration is invalid.
    #[error("invalid agent configuration: {message}")]
    InvalidConfig {
        /// The problems.
        message: String,
        /// Hints.
        hints: Vec<String>,
    },
    /// The artifacts directory does not exist.
    #[error("artifacts directory does not exist: `{}`", path.display())]
    ArtifactsMissing {
        /// The directory.
        path: PathBuf,
    },
    /// The artifacts directory is not writable.
    #[error("artifacts can't be written: `{}`", path.display())]
    ArtifactsNotWritable {
        /// The directory or file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The workspace does not exist.
    #[error("workspace does not exist: `{}`", path.display())]
    WorkspaceMissing {
        /// The directory.
        path: PathBuf,
    },
    /// The private directory is not writable.
    #[error("private directory can't be written: `{}`", path.display())]
    PrivateNotWritable {
        /// The directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The process could not be spawned.
    #[error("failed to start the agent: {0}")]
    Spawn(SpawnError),
}

impl AdapterError {
    pub(crate) fn config(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::InvalidConfig { message: message.into(), hints: vec![hint.into()] }
    }

    /// Hints, one per line.
    #[must_use]
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::NotInstalled { hints, .. }
            | Self::NotAuthenticated { hints, .. }
            | Self::InvalidConfig { hints, .. } => hints.clone(),
            Self::ArtifactsMissing { path } | Self::WorkspaceMissing { path } => {
                vec![format!("create it: `mkdir -p {}`", path.display())]
            }
            Self::ArtifactsNotWritable { .. } | Self::PrivateNotWritable { .. } => {
                vec!["check the directory's owner, its rights and the free space".to_owned()]
            }
            Self::Spawn(error) => error.hint().into_iter().collect(),
        }
    }

    /// The code in a log.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::NotInstalled { .. } => ErrorCode::CliNotFound,
            Self::NotAuthenticated { .. } => ErrorCode::AuthFailed,
            Self::InvalidConfig { .. } => ErrorCode::InvalidConfig,
            Self::ArtifactsMissing { .. } | Self::ArtifactsNotWritable { .. } => ErrorCode::ArtifactsUnusable,
            Self::WorkspaceMissing { .. } | Self::PrivateNotWritable { .. } | Self::Spawn(_) => {
                ErrorCode::SpawnFailed
            }
        }
    }

    /// The outcome of the trial. No such error counts against the agent.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::NotInstalled { .. } | Self::NotAuthenticated { .. } => Outcome::Unauthenticated,
            _ => Outcome::Infra,
        }
    }
}

impl From<SpawnError> for AdapterError {
    fn from(error: SpawnError) -> Self {
        match error {
            SpawnError::CwdMissing { path } => Self::WorkspaceMissing { path },
            SpawnError::LogDirectoryMissing { path } => Self::ArtifactsMissing { path },
            SpawnError::LogNotWritable { path, source } => Self::ArtifactsNotWritable { path, source },
            SpawnError::NotFound { .. } => {
                Self::NotInstalled { message: error.to_string(), hints: error.hint().into_iter().collect() }
            }
            error => Self::Spawn(error),
        }
    }
}
