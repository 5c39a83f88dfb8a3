//! The error type of providers.

use std::time::Duration;

/// The error of a [`Provider`](super::Provider).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProviderError {
    /// The CLI could not be found or started.
    #[error("failed to run claude CLI: {reason}")]
    NotStarted {
        /// The problem, in one line.
        reason: String,
        /// Hints for the user.
        hints: Vec<String>,
    },
    /// The options are invalid.
    #[error("failed to run claude CLI: {reason}")]
    Invalid {
        /// All problems, in one line.
        reason: String,
    },
    /// The CLI exited without an answer.
    #[error("claude CLI exited with {status}: {message}")]
    Exited {
        /// The exit status, such as `exit status: 1`.
        status: String,
        /// The message from stderr.
        message: String,
    },
    /// The model API returned an error or was unreachable.
    #[error("claude CLI exited with {status}: {message}")]
    Api {
        /// The exit status of the CLI.
        status: String,
        /// The error message.
        message: String,
        /// The kind of failure.
        failure: crate::ApiFailureKind,
        /// The HTTP status, if the API responded.
        api_status: Option<u16>,
    },
    /// The timeout expired, and the CLI was killed.
    #[error("claude CLI timed out after {}s", after.as_secs())]
    TimedOut {
        /// The timeout.
        after: Duration,
        /// The partial text.
        partial: String,
    },
    /// The call was cancelled.
    #[error("claude CLI was cancelled")]
    Cancelled,
    /// No provider of a [`FallbackProvider`](super::FallbackProvider) answered.
    #[error("no provider answered: {}", reasons.join("; "))]
    AllProvidersFailed {
        /// The reasons as `name: reason`, in order.
        reasons: Vec<String>,
    },
}

impl ProviderError {
    pub(crate) fn not_started(error: &yb_supervise::SpawnError) -> Self {
        let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
        Self::NotStarted { reason: format!("{error}{cause}"), hints: error.hint().into_iter().collect() }
    }

    /// Returns whether a retry may succeed.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Api { failure, .. } if failure.is_retryable())
    }

    /// Returns whether another provider should be tried: this one is missing, unauthenticated, rate limited or overloaded.
    #[must_use]
    pub fn should_fall_back(&self) -> bool {
        use crate::ApiFailureKind::{Billing, Overloaded, RateLimited, Unauthenticated};
        match self {
            Self::NotStarted { .. } | Self::AllProvidersFailed { .. } => true,
            Self::Api { failure, .. } => {
                matches!(failure, Unauthenticated | RateLimited | Overloaded | Billing)
            }
            _ => false,
        }
    }

    /// Returns hints for the user.
    #[must_use]
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::NotStarted { hints, .. } => hints.clone(),
            Self::Api { failure: crate::ApiFailureKind::Unauthenticated, .. } => {
                vec![
                    "log in: `claude auth login`".to_owned(),
                    "or set `ANTHROPIC_API_KEY` to an API key".to_owned(),
                ]
            }
            Self::TimedOut { .. } => vec!["increase the timeout, or reduce the task".to_owned()],
            _ => Vec::new(),
        }
    }
}
