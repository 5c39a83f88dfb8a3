//! Errors of running a trial.

use std::io;
use std::path::PathBuf;

use crate::run::is_disk_full;
use yb_agents::{AdapterError, Availability, AvailabilityStatus, ErrorCode};
use yb_evaluate::PreflightError;
use yb_model::log::LogFileError;
use yb_repo::{GitError, RepoError, RepoErrorKind};

/// Messages of the system that git repeats when it can't write.
const DISK_FULL_MESSAGES: [&str; 3] =
    ["No space left on device", "Disk quota exceeded", "Read-only file system"];

/// An error that prevents an attempt from having results.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrialError {
    /// The case uses features that this version does not support.
    #[error("not supported yet: {}", what.join(", "))]
    Unsupported {
        /// The unsupported features.
        what: Vec<String>,
    },
    /// A variable that the case needs is not set.
    #[error("environment variable is not set: `{name}`")]
    NoVariable {
        /// The name of the variable.
        name: String,
    },
    /// An evaluator or a hook runs a program that is not installed.
    #[error("program not found: `{program}`, which {user} runs")]
    NoProgram {
        /// The name or path of the program.
        program: String,
        /// What runs it.
        user: String,
    },
    /// The agent is not installed or not authenticated.
    #[error("{message}")]
    Unavailable {
        /// The problem.
        message: String,
        /// Hints.
        hints: Vec<String>,
        /// Whether the agent of the case is not installed or not authenticated; none for the agent of a judge.
        code: Option<ErrorCode>,
    },
    /// The root of the case can't be used.
    #[error("environment: {reason}")]
    Root {
        /// The reason.
        reason: String,
        /// How to fix it.
        hint: String,
    },
    /// The requested isolation is not available on this machine.
    #[error("`isolation: {level}` is not available: {reason}")]
    Isolation {
        /// The requested isolation.
        level: &'static str,
        /// The reason.
        reason: String,
        /// How to fix it.
        fix: String,
    },
    /// The requested network access can't be enforced on this machine.
    #[error("`network: {mode}` is not supported with `isolation: {level}`: {reason}")]
    Network {
        /// The requested network access.
        mode: &'static str,
        /// The isolation.
        level: yb_agents::Isolation,
        /// The reason.
        reason: String,
        /// How to fix it.
        fix: String,
    },
    /// A tape or a script can't be used as requested.
    #[error("{message}")]
    Tape {
        /// The problem, with the file.
        message: String,
        /// How to fix it.
        hint: String,
    },
    /// The configuration of a webhook is invalid.
    #[error("invalid webhook: {reason}")]
    Webhook {
        /// The problem, without any value, which may be secret.
        reason: String,
        /// How to fix it.
        hint: &'static str,
    },
    /// The repository could not be prepared or captured.
    #[error(transparent)]
    Repo(#[from] RepoError),
    /// The configuration of the agent is invalid.
    #[error(transparent)]
    Agent(#[from] AdapterError),
    /// A hook before the agent failed.
    #[error("pre-execution failed: `{command}`: {reason}")]
    Hook {
        /// The command.
        command: String,
        /// How it ended, and the end of its output.
        reason: String,
    },
    /// A file of the case or variant can't be laid over the workspace.
    #[error("failed to {what} `{path}` in the workspace: {source}")]
    Overlay {
        /// `lay` or `remove`.
        what: &'static str,
        /// The path in the workspace.
        path: String,
        /// The cause.
        source: io::Error,
    },
    /// A directory or file of the run can't be written.
    #[error("failed to write `{}`: {source}", path.display())]
    Io {
        /// The directory or file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Grading failed.
    #[error("failed to grade: {reason}")]
    Grading {
        /// The reason.
        reason: String,
    },
    /// The log can't be written.
    #[error(transparent)]
    Log(#[from] LogFileError),
    /// Files of the run can't be written after an agent without a sandbox ran, which had access to them.
    #[error("{0}; the agent ran without a sandbox and had access to it")]
    ByAgent(Box<TrialError>),
}

impl From<PreflightError> for TrialError {
    fn from(error: PreflightError) -> Self {
        match error {
            PreflightError::UnknownAgent { agent } => Self::unsupported_agent(&agent),
            PreflightError::NoVariable { name } => Self::NoVariable { name },
            PreflightError::NoProgram { program } => {
                Self::NoProgram { program, user: "an evaluator".to_owned() }
            }
            PreflightError::Unavailable { message, hints } => {
                Self::Unavailable { message, hints, code: None }
            }
            PreflightError::Agent(error) => Self::Agent(error),
            PreflightError::Grading { reason } => Self::Grading { reason },
        }
    }
}

impl TrialError {
    /// The error of a root that can't be used.
    pub(super) fn root(error: &yb_image::ImageError) -> Self {
        let hint = error.hint();
        Self::Root { reason: error.to_string(), hint }
    }

    /// The error of a root that can't be used, with the way out.
    pub(super) fn root_with_hint(reason: String, hint: &str) -> Self {
        Self::Root { reason, hint: hint.to_owned() }
    }

    pub(crate) fn tape(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Tape { message: message.into(), hint: hint.into() }
    }

    pub(crate) fn unsupported_agent(kind: &str) -> Self {
        Self::Unsupported { what: vec![format!("the agent `{kind}`")] }
    }

    pub(crate) fn wrong_version(agent: &str, found: Option<&str>, wanted: &str) -> Self {
        let found =
            found.map_or_else(|| "found unknown version".to_owned(), |found| format!("found {found}"));
        Self::Unavailable {
            message: format!("wrong version of `{agent}`: expected {wanted}, {found}"),
            hints: vec![
                format!("install it: `yb install-agents --cli {agent}@{wanted}`"),
                "or change `version` in the case or suite".to_owned(),
            ],
            code: Some(ErrorCode::CliNotFound),
        }
    }

    /// The agent of the case is not available.
    pub(crate) fn unavailable(found: Availability) -> Self {
        let code = match found.status {
            AvailabilityStatus::NotAuthenticated => ErrorCode::AuthFailed,
            _ => ErrorCode::CliNotFound,
        };
        Self::Unavailable { message: found.message, hints: found.hints, code: Some(code) }
    }

    /// The code of an error that concerns the agent of the case.
    #[must_use]
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Unavailable { code, .. } => *code,
            Self::Agent(error) => Some(error.code()),
            _ => None,
        }
    }

    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }

    /// Whether the case has to be changed, rather than the machine.
    #[must_use]
    pub fn is_configuration(&self) -> bool {
        match self {
            Self::Unsupported { .. }
            | Self::NoVariable { .. }
            | Self::NoProgram { .. }
            | Self::Tape { .. }
            | Self::Webhook { .. }
            | Self::Overlay { .. }
            | Self::Agent(_) => true,
            Self::Repo(error) => error.kind() == RepoErrorKind::Configuration,
            Self::Unavailable { .. }
            | Self::Root { .. }
            | Self::Isolation { .. }
            | Self::Network { .. }
            | Self::Hook { .. }
            | Self::Io { .. }
            | Self::Grading { .. }
            | Self::Log(_)
            | Self::ByAgent(_) => false,
        }
    }

    /// Whether the attempt was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Repo(error) if error.kind() == RepoErrorKind::Cancelled)
    }

    /// Whether the disk is full or read-only, so that the next attempt would fail too.
    pub(crate) fn is_disk_full(&self) -> bool {
        match self {
            Self::Repo(RepoError::Git(GitError::Failed { stderr, .. })) => {
                DISK_FULL_MESSAGES.iter().any(|words| stderr.contains(words))
            }
            Self::Io { source, .. }
            | Self::Overlay { source, .. }
            | Self::Repo(RepoError::Io { source, .. })
            | Self::Log(LogFileError::Write { source, .. })
            | Self::Agent(
                AdapterError::ArtifactsNotWritable { source, .. }
                | AdapterError::PrivateNotWritable { source, .. },
            ) => is_disk_full(source),
            _ => false,
        }
    }

    /// Returns hints, if there are any.
    #[must_use]
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::Repo(error) => error.hint().map(str::to_owned).into_iter().collect(),
            Self::Agent(error) => error.hints(),
            Self::Unavailable { hints, .. } => hints.clone(),
            Self::Isolation { fix, .. } => {
                vec![fix.clone(), "use `isolation: external` if the machine itself is a sandbox".to_owned()]
            }
            Self::Root { hint, .. } => vec![hint.clone()],
            Self::Network { fix, .. } => vec![fix.clone()],
            Self::Tape { hint, .. } if hint.is_empty() => Vec::new(),
            Self::Tape { hint, .. } => vec![hint.clone()],
            Self::Webhook { hint, .. } => vec![(*hint).to_owned()],
            Self::NoProgram { .. } => vec!["install it, or change the case".to_owned()],
            Self::NoVariable { name } => vec![format!("set it: `export {name}=…`")],
            _ => Vec::new(),
        }
    }
}
