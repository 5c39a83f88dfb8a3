//! Why a conversation with the CLI failed.

use std::fmt;
use std::time::Duration;

use crate::frame::FrameError;
use crate::{ApiFailure, FindError, OptionsError, RawJson, ResultMessage, RunSummary};

/// Why a conversation with the CLI failed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Options, a prompt or a host break a rule; nothing was started.
    #[error(transparent)]
    Invalid(#[from] OptionsError),
    /// There is no `claude`.
    #[error(transparent)]
    CliNotFound(#[from] FindError),
    /// It could not be started.
    #[error("failed to start claude CLI: {reason}")]
    Spawn {
        /// What went wrong, in one line.
        reason: String,
        /// What the user can do about it.
        hints: Vec<String>,
    },
    /// It refused what `initialize` asked for.
    #[error("claude CLI refused to begin: {reason}")]
    Handshake {
        /// Its words, or what it lacks.
        reason: String,
    },
    /// It refused a request of the host.
    #[error("claude CLI refused `{subtype}`: {message}")]
    Control {
        /// What was asked for.
        subtype: String,
        /// Its words.
        message: String,
        /// Its name for the error, `unsupported_request` for example.
        code: Option<String>,
    },
    /// It did not answer a request of the host.
    #[error("claude CLI did not answer `{subtype}` within {} s", after.as_secs_f64())]
    Timeout {
        /// What was asked for.
        subtype: String,
        /// How long the host waited.
        after: Duration,
    },
    /// It printed what can't be understood; the session was ended.
    #[error(transparent)]
    Protocol(#[from] FrameError),
    /// It ended without a result.
    #[error("claude CLI ended before its result: {0}")]
    Exited(Exit),
    /// The turn ended with an error.
    #[error("{}", result_text(.0))]
    Result(Box<ResultMessage>),
    /// The turn succeeded and has no structured output.
    #[error("the turn succeeded without structured output")]
    NoStructuredOutput(Box<ResultMessage>),
    /// The structured output has not the expected shape.
    #[error("the structured output has another shape: {reason}")]
    WrongStructuredOutput {
        /// What is wrong with it.
        reason: String,
        /// What came instead.
        raw: RawJson,
    },
    /// The session is over.
    #[error("the session is over")]
    Closed,
    /// A transcript could not be read or written.
    #[error("failed to read the transcripts: {reason}")]
    Transcript {
        /// What went wrong.
        reason: String,
    },
}

impl Error {
    pub(crate) fn spawn(reason: impl fmt::Display) -> Self {
        Self::Spawn { reason: reason.to_string(), hints: Vec::new() }
    }

    /// The API error behind it, if there is one.
    #[must_use]
    pub fn api_failure(&self) -> Option<ApiFailure> {
        let Self::Result(result) = self else { return None };
        let mut summary = RunSummary::new();
        summary.observe(&crate::Message::Result(result.clone()));
        summary.api_failure()
    }

    /// Whether the same may succeed a little later: the API was overloaded, limited or out of reach.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.api_failure().is_some_and(|failure| failure.retryable)
    }

    /// What the user can do about it.
    #[must_use]
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::Invalid(error) => error.hints(),
            Self::CliNotFound(error) => error.hints(),
            Self::Spawn { hints, .. } => hints.clone(),
            Self::NoStructuredOutput(_) => {
                vec!["the model never called the tool; ask for it in the prompt, or ask again".to_owned()]
            }
            Self::Result(_) => match self.api_failure().map(|failure| failure.kind) {
                Some(crate::ApiFailureKind::Unauthenticated) => {
                    vec!["log in: `claude auth login`".to_owned()]
                }
                _ => Vec::new(),
            },
            _ => Vec::new(),
        }
    }
}

/// What a result that is an error says of itself.
fn result_text(result: &ResultMessage) -> String {
    let subtype = result.subtype.as_str();
    let words = match (&result.errors[..], &result.result) {
        ([], Some(text)) if !text.is_empty() => text.clone(),
        ([], _) => result.terminal_reason.clone().unwrap_or_default(),
        (errors, _) => errors.join("; "),
    };
    match words.as_str() {
        "" => format!("the turn ended with `{subtype}`"),
        words => format!("the turn ended with `{subtype}`: {words}"),
    }
}

/// How the CLI ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Exit {
    /// Its exit code, unless a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// The end of what it wrote to stderr.
    pub stderr_tail: String,
}

impl Exit {
    /// An end with this exit code.
    #[must_use]
    pub fn with_code(code: i32) -> Self {
        Self { code: Some(code), ..Self::default() }
    }

    /// Whether its exit code is 0.
    #[must_use]
    pub fn success(&self) -> bool {
        self.code == Some(0)
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(formatter, "exit code {code}")?,
            (None, Some(signal)) => write!(formatter, "signal {signal}")?,
            (None, None) => formatter.write_str("for unknown reasons")?,
        }
        match self.stderr_tail.trim() {
            "" => Ok(()),
            tail => write!(formatter, ": {tail}"),
        }
    }
}
