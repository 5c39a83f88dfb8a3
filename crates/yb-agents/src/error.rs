//! Why nothing was started, each with the way out.

use std::io;
use std::path::PathBuf;

use yb_supervise::SpawnError;

use super::codes::ErrorCode;
use yb_model::outcome::Outcome;

/// Why nothing was started.
#[derive(Debug, thiserror::Error)]
pub enum AdapterError {
    /// The agent is not there.
    #[error("{message}")]
    NotInstalled {
        /// What was looked for, and where.
        message: String,
        /// The ways out.
        hints: Vec<String>,
    },
    /// The agent has nothing to show to its model's API.
    #[error("{message}")]
    NotAuthenticated {
        /// What is missing.
        message: String,
        /// The ways out.
        hints: Vec<String>,
    },
    /// The configuration can't be.
    #[error("invalid agent configuration: {message}")]
    InvalidConfig {
        /// What is wrong, all of it.
        message: String,
        /// The ways out.
        hints: Vec<String>,
    },
    /// The artifacts have no directory.
    #[error("artifacts directory does not exist: `{}`", path.display())]
    ArtifactsMissing {
        /// The directory.
        path: PathBuf,
    },
    /// The artifacts can't be written.
    #[error("artifacts can't be written: `{}`", path.display())]
    ArtifactsNotWritable {
        /// The directory or file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The workspace is not there.
    #[error("workspace does not exist: `{}`", path.display())]
    WorkspaceMissing {
        /// The directory.
        path: PathBuf,
    },
    /// The private directory can't be written.
    #[error("private directory can't be written: `{}`", path.display())]
    PrivateNotWritable {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The process could not be started.
    #[error("failed to start the agent: {0}")]
    Spawn(SpawnError),
}

impl AdapterError {
    pub(crate) fn config(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::InvalidConfig { message: message.into(), hints: vec![hint.into()] }
    }

    /// What to do about it, one way out in each line.
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

    /// Its code in a log.
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

    /// What the trial came to. None of these is the agent's doing.
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
