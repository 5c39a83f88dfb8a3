//! Why a provider has no answer.

use std::time::Duration;

/// Why a provider has no answer. `Display` is the text of the specification, without a prefix.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProviderError {
    /// The CLI could not be found or started.
    #[error("failed to run claude CLI: {reason}")]
    NotStarted {
        /// What went wrong, in one line.
        reason: String,
        /// What the user can do about it.
        hints: Vec<String>,
    },
    /// What was asked for can't be asked for.
    #[error("failed to run claude CLI: {reason}")]
    Invalid {
        /// Every problem, in one line.
        reason: String,
    },
    /// The CLI ended without an answer.
    #[error("claude CLI exited with {status}: {message}")]
    Exited {
        /// How it ended, e.g. `exit status: 1`.
        status: String,
        /// What it said on stderr.
        message: String,
    },
    /// The model's API refused, or could not be reached.
    #[error("claude CLI exited with {status}: {message}")]
    Api {
        /// How the CLI ended.
        status: String,
        /// What it said.
        message: String,
        /// What kind of failure that is.
        failure: crate::ApiFailureKind,
        /// The HTTP status, if there was one.
        api_status: Option<u16>,
    },
    /// The deadline came; the agent and everything that it had started is gone.
    #[error("claude CLI timed out after {}s", after.as_secs())]
    TimedOut {
        /// The deadline.
        after: Duration,
        /// What the agent had said by then.
        partial: String,
    },
    /// The caller cancelled.
    #[error("claude CLI was cancelled")]
    Cancelled,
    /// No provider of a list could answer; each with its reason.
    #[error("no provider answered: {}", reasons.join("; "))]
    NoneAnswered {
        /// `name: reason`, in the order of the list.
        reasons: Vec<String>,
    },
}

impl ProviderError {
    pub(crate) fn not_started(error: &yb_supervise::SpawnError) -> Self {
        let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
        Self::NotStarted { reason: format!("{error}{cause}"), hints: error.hint().into_iter().collect() }
    }

    /// Whether the same question may be answered a little later.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Api { failure, .. } if failure.is_retryable())
    }

    /// Whether somebody else may be able to answer: this one is missing, not authenticated or rate limited.
    #[must_use]
    pub fn is_reason_to_ask_another(&self) -> bool {
        use crate::ApiFailureKind::{Billing, Overloaded, RateLimited, Unauthenticated};
        match self {
            Self::NotStarted { .. } | Self::NoneAnswered { .. } => true,
            Self::Api { failure, .. } => {
                matches!(failure, Unauthenticated | RateLimited | Overloaded | Billing)
            }
            _ => false,
        }
    }

    /// What the user can do about it.
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
            Self::TimedOut { .. } => vec!["allow more time, or ask for less".to_owned()],
            _ => Vec::new(),
        }
    }
}
