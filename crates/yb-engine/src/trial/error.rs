//! Why there is no finished trial.

use std::io;
use std::path::PathBuf;

use crate::run::is_full;
use yb_agents::AdapterError;
use yb_evaluate::PreflightError;
use yb_model::log::LogFileError;
use yb_repo::{GitError, RepoError, RepoErrorKind};

/// What git says when it can't write, in the words of the system.
const FULL: [&str; 3] = ["No space left on device", "Disk quota exceeded", "Read-only file system"];

/// Why there is no finished trial.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrialError {
    /// The case asks for what this version can't do.
    #[error("not supported yet: {}", what.join(", "))]
    Unsupported {
        /// All of it.
        what: Vec<String>,
    },
    /// A variable that the case needs is not set.
    #[error("environment variable is not set: `{name}`")]
    NoVariable {
        /// Its name.
        name: String,
    },
    /// The agent is not installed or not authenticated.
    #[error("{message}")]
    Unavailable {
        /// What is missing.
        message: String,
        /// The ways out.
        hints: Vec<String>,
    },
    /// The isolation that is asked for does not work here.
    #[error("`isolation: {level}` does not work here: {reason}")]
    Isolation {
        /// Which.
        level: &'static str,
        /// Why not.
        reason: String,
        /// The way out.
        fix: String,
    },
    /// The network that is asked for can't be held here.
    #[error("`network: {mode}` is not possible with `isolation: {level}`: {reason}")]
    Network {
        /// Which.
        mode: &'static str,
        /// The isolation that there would be.
        level: yb_agents::Isolation,
        /// Why not.
        reason: String,
        /// The way out.
        fix: String,
    },
    /// A tape or a script that can't be used as asked.
    #[error("{message}")]
    Tape {
        /// What is wrong, with the file.
        message: String,
        /// The way out.
        hint: String,
    },
    /// A webhook that can't be sent as the case has it.
    #[error("invalid webhook: {reason}")]
    Webhook {
        /// What is wrong; never a value, which may be secret.
        reason: String,
        /// The way out.
        hint: &'static str,
    },
    /// The repository could not be prepared or captured.
    #[error(transparent)]
    Repo(#[from] RepoError),
    /// What the case says about its agent can't be.
    #[error(transparent)]
    Agent(#[from] AdapterError),
    /// A hook before the agent failed.
    #[error("pre-execution failed: `{command}`: {reason}")]
    Hook {
        /// The command.
        command: String,
        /// How it ended, and the last that it said.
        reason: String,
    },
    /// A directory or file of the run can't be made.
    #[error("failed to write `{}`: {source}", path.display())]
    Io {
        /// The directory or file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// What evaluators said can't be kept.
    #[error("failed to grade: {reason}")]
    Grading {
        /// Why.
        reason: String,
    },
    /// The log can't be written.
    #[error(transparent)]
    Log(#[from] LogFileError),
}

impl From<PreflightError> for TrialError {
    fn from(error: PreflightError) -> Self {
        match error {
            PreflightError::UnknownAgent { agent } => Self::unsupported_agent(&agent),
            PreflightError::NoVariable { name } => Self::NoVariable { name },
            PreflightError::Unavailable { message, hints } => Self::Unavailable { message, hints },
            PreflightError::Agent(error) => Self::Agent(error),
            PreflightError::Grading { reason } => Self::Grading { reason },
        }
    }
}

impl TrialError {
    pub(crate) fn tape(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Tape { message: message.into(), hint: hint.into() }
    }

    pub(crate) fn unsupported_agent(kind: &str) -> Self {
        Self::Unsupported { what: vec![format!("the agent `{kind}`")] }
    }

    pub(crate) fn wrong_version(agent: &str, found: Option<&str>, wanted: &str) -> Self {
        let found =
            found.map_or_else(|| "it did not say its version".to_owned(), |found| format!("found {found}"));
        Self::Unavailable {
            message: format!("`{agent}` has another version than is asked for: {wanted} ({found})"),
            hints: vec![
                format!("install it: `yb install-agents --cli {agent}@{wanted}`"),
                "or change `version` in the case or suite".to_owned(),
            ],
        }
    }

    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }

    /// Whether the case, rather than the machine, is to be changed.
    #[must_use]
    pub fn is_configuration(&self) -> bool {
        match self {
            Self::Unsupported { .. }
            | Self::NoVariable { .. }
            | Self::Tape { .. }
            | Self::Webhook { .. }
            | Self::Agent(_) => true,
            Self::Repo(error) => error.kind() == RepoErrorKind::Configuration,
            Self::Unavailable { .. }
            | Self::Isolation { .. }
            | Self::Network { .. }
            | Self::Hook { .. }
            | Self::Io { .. }
            | Self::Grading { .. }
            | Self::Log(_) => false,
        }
    }

    /// Whether it was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Repo(error) if error.kind() == RepoErrorKind::Cancelled)
    }

    /// Whether there is no space to go on, or none for us: the next attempt would meet the same.
    pub(crate) fn is_full(&self) -> bool {
        match self {
            Self::Repo(RepoError::Git(GitError::Failed { stderr, .. })) => {
                FULL.iter().any(|words| stderr.contains(words))
            }
            Self::Io { source, .. }
            | Self::Repo(RepoError::Io { source, .. })
            | Self::Log(LogFileError::Write { source, .. })
            | Self::Agent(
                AdapterError::ArtifactsNotWritable { source, .. }
                | AdapterError::PrivateNotWritable { source, .. },
            ) => is_full(source),
            _ => false,
        }
    }

    /// The ways out, where there are any to name.
    #[must_use]
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::Repo(error) => error.hint().map(str::to_owned).into_iter().collect(),
            Self::Agent(error) => error.hints(),
            Self::Unavailable { hints, .. } => hints.clone(),
            Self::Isolation { fix, .. } => vec![
                fix.clone(),
                "`isolation: external` says that the machine itself is the sandbox".to_owned(),
            ],
            Self::Network { fix, .. } => vec![fix.clone()],
            Self::Tape { hint, .. } if hint.is_empty() => Vec::new(),
            Self::Tape { hint, .. } => vec![hint.clone()],
            Self::Webhook { hint, .. } => vec![(*hint).to_owned()],
            Self::NoVariable { name } => vec![format!("set it: `export {name}=…`")],
            _ => Vec::new(),
        }
    }
}
