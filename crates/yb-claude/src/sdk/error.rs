//! The error type of the SDK.

use std::fmt;
use std::time::Duration;

use crate::frame::FrameError;
use crate::{
    ApiFailure, ApiFailureKind, FindError, OptionsError, RawJson, ResultMessage, ResultSubtype, RunSummary,
};

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
        api_failure(result)
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
                Some(ApiFailureKind::Unauthenticated) => {
                    vec!["log in: `claude auth login`".to_owned()]
                }
                _ => Vec::new(),
            },
            _ => Vec::new(),
        }
    }
}

/// Describes the cause of an error result.
fn result_text(result: &ResultMessage) -> String {
    if let Some(failure) = api_failure(result) {
        return api_failure_text(&failure);
    }
    let details = match (&result.errors[..], &result.result) {
        ([], Some(text)) if !text.is_empty() => text.clone(),
        ([], _) => String::new(),
        (errors, _) => errors.join("; "),
    };
    let reason = result.terminal_reason.as_deref();
    let cause = match &result.subtype {
        ResultSubtype::ErrorMaxTurns => "turn limit reached",
        ResultSubtype::ErrorMaxBudgetUsd => "budget exhausted",
        ResultSubtype::ErrorMaxStructuredOutputRetries => "no structured output that matches the schema",
        // Only older versions omit the reason.
        subtype => reason.unwrap_or(subtype.as_str()),
    };
    match details.as_str() {
        "" => format!("turn failed: {cause}"),
        details => format!("turn failed: {cause}: {details}"),
    }
}

fn api_failure(result: &ResultMessage) -> Option<ApiFailure> {
    let mut summary = RunSummary::new();
    summary.observe(&crate::Message::Result(Box::new(result.clone())));
    summary.api_failure()
}

/// Formats as `API error STATUS: CAUSE: MESSAGE`, without what the message repeats.
fn api_failure_text(failure: &ApiFailure) -> String {
    let cause = match failure.kind {
        ApiFailureKind::Unauthenticated => "authentication failed",
        ApiFailureKind::Billing => "no credit",
        ApiFailureKind::RateLimited => "rate limited",
        ApiFailureKind::Overloaded => "overloaded",
        ApiFailureKind::ServerError => "server error",
        ApiFailureKind::InvalidRequest => "invalid request",
        ApiFailureKind::ModelNotFound => "unknown model",
        ApiFailureKind::TooLarge => "request too large",
        ApiFailureKind::Network => "API is not reachable",
        ApiFailureKind::Other => "",
    };
    let status = failure.status.map(|status| status.to_string()).unwrap_or_default();
    let mut message = failure.message.trim();
    let rejected = format!("Request rejected ({status})");
    for known in ["Failed to authenticate.", "API Error:", &rejected, &status, "·"] {
        message = message.strip_prefix(known).unwrap_or(message).trim_start();
    }
    let head = match status.as_str() {
        "" => "API error".to_owned(),
        status => format!("API error {status}"),
    };
    let repeated = message.trim_end_matches('.').eq_ignore_ascii_case(cause);
    let parts = [head.as_str(), cause, if repeated { "" } else { message }];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ")
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

#[cfg(test)]
mod tests {
    use super::*;

    fn text(result: &str) -> String {
        let message = crate::Message::parse(result.as_bytes()).unwrap();
        let crate::Message::Result(result) = message else { panic!("not a result") };
        Error::Result(result).to_string()
    }

    #[test]
    fn error_text_names_cause() {
        for (result, expected) in [
            (
                r#"{"type":"result","subtype":"success","is_error":true,"api_error_status":529,"result":"API Error: 529 Overloaded"}"#,
                "API error 529: overloaded",
            ),
            (
                r#"{"type":"result","subtype":"success","is_error":true,"api_error_status":529,"result":"API Error: 529 Overloaded. Try again."}"#,
                "API error 529: overloaded: Overloaded. Try again.",
            ),
            (
                r#"{"type":"result","subtype":"success","is_error":true,"api_error_status":429,"result":"API Error: Request rejected (429) · slow down"}"#,
                "API error 429: rate limited: slow down",
            ),
            (
                r#"{"type":"result","subtype":"success","is_error":true,"api_error_status":401,"result":"Failed to authenticate. API Error: 401 no such key"}"#,
                "API error 401: authentication failed: no such key",
            ),
            (
                r#"{"type":"result","subtype":"success","is_error":true,"result":"Request timed out","terminal_reason":"api_error"}"#,
                "API error: API is not reachable: Request timed out",
            ),
            (
                r#"{"type":"result","subtype":"error_max_turns","is_error":true,"errors":["Reached maximum number of turns (1)"]}"#,
                "turn failed: turn limit reached: Reached maximum number of turns (1)",
            ),
            (
                r#"{"type":"result","subtype":"error_during_execution","is_error":true,"terminal_reason":"aborted_tools"}"#,
                "turn failed: aborted_tools",
            ),
            (r#"{"type":"result","subtype":"error_new"}"#, "turn failed: error_new"),
        ] {
            assert_eq!(text(result), expected);
        }
    }
}
