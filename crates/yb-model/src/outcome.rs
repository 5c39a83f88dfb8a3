//! The outcome of a trial, and what follows from it: its part in the pass rate, retries and exit code.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The outcome of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The result meets all requirements of the case.
    Passed,
    /// An evaluator failed, or the agent reached its turn limit.
    Failed,
    /// The agent failed or crashed.
    AgentError,
    /// The agent exceeded its time limit.
    Timeout,
    /// The agent exceeded its own budget.
    Budget,
    /// The agent exceeded its disk quota.
    OverQuota,
    /// The agent did something that the case forbids.
    Cheating,
    /// An evaluator crashed, or a judge returned no usable verdict.
    GraderError,
    /// The machine or the API failed.
    Infra,
    /// The API rejected requests because of rate limits or overload.
    RateLimited,
    /// The agent is not installed, or the API rejected the credentials.
    Unauthenticated,
    /// A replay received a request that is not on its tape.
    Diverged,
    /// A plugin, skill, MCP server, agent or instruction file of the case did not load.
    Miswired,
    /// The trial was cancelled by an interrupt or by the cost limit of its run; it is still to do.
    Cancelled,
}

/// How a trial counts towards a pass rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PassCredit {
    /// As a pass.
    One,
    /// As a fail.
    Zero,
    /// As a pass or as a fail: both are evaluated, and a decision needs both to agree.
    Unknown,
    /// Not at all: the outcome is unrelated to the agent.
    Excluded,
}

/// Whether a trial with an outcome is retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Retry {
    /// Never.
    No,
    /// Only its grading is.
    GraderOnly,
    /// A bounded number of times.
    Bounded,
    /// When the run is resumed.
    OnResume,
}

impl Outcome {
    /// All outcomes.
    pub const ALL: [Self; 14] = [
        Self::Passed,
        Self::Failed,
        Self::AgentError,
        Self::Timeout,
        Self::Budget,
        Self::OverQuota,
        Self::Cheating,
        Self::GraderError,
        Self::Infra,
        Self::RateLimited,
        Self::Unauthenticated,
        Self::Diverged,
        Self::Miswired,
        Self::Cancelled,
    ];

    /// The name in files and reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::AgentError => "agent_error",
            Self::Timeout => "timeout",
            Self::Budget => "budget",
            Self::OverQuota => "over_quota",
            Self::Cheating => "cheating",
            Self::GraderError => "grader_error",
            Self::Infra => "infra",
            Self::RateLimited => "rate_limited",
            Self::Unauthenticated => "unauthenticated",
            Self::Diverged => "diverged",
            Self::Miswired => "miswired",
            Self::Cancelled => "cancelled",
        }
    }

    /// How the trial counts towards a pass rate.
    #[must_use]
    pub const fn pass_credit(self) -> PassCredit {
        match self {
            Self::Passed => PassCredit::One,
            Self::Failed
            | Self::AgentError
            | Self::Timeout
            | Self::Budget
            | Self::OverQuota
            | Self::Cheating => PassCredit::Zero,
            Self::GraderError => PassCredit::Unknown,
            Self::Infra
            | Self::RateLimited
            | Self::Unauthenticated
            | Self::Diverged
            | Self::Miswired
            | Self::Cancelled => PassCredit::Excluded,
        }
    }

    /// Whether the trial is retried.
    #[must_use]
    pub const fn retried(self) -> Retry {
        match self {
            Self::GraderError => Retry::GraderOnly,
            Self::Infra | Self::RateLimited => Retry::Bounded,
            Self::Cancelled => Retry::OnResume,
            _ => Retry::No,
        }
    }

    /// The exit code of a run whose only trial has this outcome.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Passed => 0,
            Self::Unauthenticated => 3,
            Self::Infra | Self::RateLimited | Self::Miswired => 4,
            Self::GraderError | Self::Diverged => 5,
            Self::Cancelled => 130,
            _ => 1,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_map_to_credit_retry_and_exit_code() {
        let table = Outcome::ALL
            .map(|outcome| (outcome.as_str(), outcome.pass_credit(), outcome.retried(), outcome.exit_code()));
        use PassCredit::{Excluded, One, Unknown, Zero};
        use Retry::{Bounded, GraderOnly, No, OnResume};
        assert_eq!(
            table,
            [
                ("passed", One, No, 0),
                ("failed", Zero, No, 1),
                ("agent_error", Zero, No, 1),
                ("timeout", Zero, No, 1),
                ("budget", Zero, No, 1),
                ("over_quota", Zero, No, 1),
                ("cheating", Zero, No, 1),
                ("grader_error", Unknown, GraderOnly, 5),
                ("infra", Excluded, Bounded, 4),
                ("rate_limited", Excluded, Bounded, 4),
                ("unauthenticated", Excluded, No, 3),
                ("diverged", Excluded, No, 5),
                ("miswired", Excluded, No, 4),
                ("cancelled", Excluded, OnResume, 130),
            ]
        );
    }

    #[test]
    fn serialized_name_equals_as_str() {
        for outcome in Outcome::ALL {
            assert_eq!(serde_json::to_value(outcome).unwrap(), outcome.as_str());
            assert_eq!(serde_json::from_value::<Outcome>(outcome.as_str().into()).unwrap(), outcome);
        }
    }
}
