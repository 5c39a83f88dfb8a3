//! The error type of the SDK.

use std::fmt;
use std::time::Duration;

use crate::frame::FrameError;
use crate::{ApiFailure, FindError, OptionsError, RawJson, ResultMessage, RunSummary};

/// An error of the SDK.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Options or prompt are invalid; nothing was started.
    #[error(transparent)]
    Invalid(#[from] OptionsError),
    /// `claude` was not found.
    #[error(transparent)]
    CliNotFound(#[from] FindError),
    /// The CLI could not be started.
    #[error("failed to start claude CLI: {reason}")]
    Spawn {
        /// The problem, in one line.
        reason: String,
        /// Hints for the user.
        hints: Vec<String>,
    },
    /// The CLI rejected the `initialize` request.
    #[error("claude CLI rejected `initialize`: {reason}")]
    Handshake {
        /// The CLI's message, or the missing capability.
        reason: String,
    },
    /// The CLI rejected a control request.
    #[error("claude CLI rejected `{subtype}`: {message}")]
    Control {
        /// The subtype of the request.
        subtype: String,
        /// The CLI's message.
        message: String,
        /// The CLI's error code, such as `unsupported_request`.
        code: Option<String>,
    },
    /// The CLI did not respond to a control request.
    #[error("claude CLI did not respond to `{subtype}` within {} s", after.as_secs_f64())]
    Timeout {
        /// The subtype of the request.
        subtype: String,
        /// The timeout.
        after: Duration,
    },
    /// The CLI printed an invalid message; the session was ended.
    #[error(transparent)]
    Protocol(#[from] FrameError),
    /// The CLI exited without a result.
    #[error("claude CLI exited without a result: {0}")]
    Exited(Exit),
    /// The turn failed.
    #[error("{}", result_text(.0))]
    Result(Box<ResultMessage>),
    /// The turn succeeded without structured output.
    #[error("turn succeeded without structured output")]
    NoStructuredOutput(Box<ResultMessage>),
    /// The structured output does not match the type.
    #[error("structured output does not match the schema: {reason}")]
    WrongStructuredOutput {
        /// The mismatch.
        reason: String,
        /// The structured output.
        raw: RawJson,
    },
    /// The session is closed.
    #[error("session is closed")]
    Closed,
    /// A transcript could not be read or written.
    #[error("failed to access transcript: {reason}")]
    Transcript {
        /// The problem.
        reason: String,
    },
}

impl Error {
    pub(crate) fn spawn(reason: impl fmt::Display) -> Self {
        Self::Spawn { reason: reason.to_string(), hints: Vec::new() }
    }

    /// Returns the underlying API error, if any.
    #[must_use]
    pub fn api_failure(&self) -> Option<ApiFailure> {
        let Self::Result(result) = self else { return None };
        let mut summary = RunSummary::new();
        summary.observe(&crate::Message::Result(result.clone()));
        summary.api_failure()
    }

    /// Returns whether a retry may succeed: the API was overloaded, rate limited or unreachable.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.api_failure().is_some_and(|failure| failure.retryable)
    }

    /// Returns hints for the user.
    #[must_use]
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::Invalid(error) => error.hints(),
            Self::CliNotFound(error) => error.hints(),
            Self::Spawn { hints, .. } => hints.clone(),
            Self::NoStructuredOutput(_) => {
                vec!["request structured output in the prompt, or retry".to_owned()]
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

/// Formats an error result.
fn result_text(result: &ResultMessage) -> String {
    let subtype = result.subtype.as_str();
    let details = match (&result.errors[..], &result.result) {
        ([], Some(text)) if !text.is_empty() => text.clone(),
        ([], _) => result.terminal_reason.clone().unwrap_or_default(),
        (errors, _) => errors.join("; "),
    };
    match details.as_str() {
        "" => format!("turn ended with `{subtype}`"),
        details => format!("turn ended with `{subtype}`: {details}"),
    }
}

/// The exit of the CLI.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Exit {
    /// The exit code, unless it was killed by a signal.
    pub code: Option<i32>,
    /// The signal that killed it.
    pub signal: Option<i32>,
    /// The end of stderr.
    pub stderr_tail: String,
}

impl Exit {
    /// Creates an exit with this code.
    #[must_use]
    pub fn with_code(code: i32) -> Self {
        Self { code: Some(code), ..Self::default() }
    }

    /// Returns whether the exit code is 0.
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
            (None, None) => formatter.write_str("unknown exit status")?,
        }
        match self.stderr_tail.trim() {
            "" => Ok(()),
            tail => write!(formatter, ": {tail}"),
        }
    }
}
