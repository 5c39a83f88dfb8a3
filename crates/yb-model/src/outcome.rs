//! What a trial came to: one table, from which counting, retrying and exit codes are read.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The end of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Everything that was asked for holds.
    Passed,
    /// An evaluator says no, or the agent reached its limit of turns.
    Failed,
    /// The agent itself failed or crashed.
    AgentError,
    /// The agent's time was over.
    Timeout,
    /// The agent's money was spent.
    Budget,
    /// The agent wrote more than it may.
    OverQuota,
    /// The agent was seen doing what the case forbids.
    Cheating,
    /// An evaluator crashed, or a judge gave nothing usable.
    GraderError,
    /// The machine or the API failed, not the agent.
    Infra,
    /// The API had no capacity for us.
    RateLimited,
    /// The agent is not installed, or the API does not know who asks.
    Unauthenticated,
    /// A replay met a request that its tape does not have.
    Diverged,
    /// Somebody stopped it.
    Cancelled,
}

/// What an outcome is in a pass rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Counts {
    /// A pass.
    One,
    /// No pass.
    Zero,
    /// Nobody knows: both are tried, and where the answers differ there is none.
    Either,
    /// Nothing: it says nothing about the agent.
    LeftOut,
}

/// Whether a trial with this outcome runs again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Retry {
    /// Never.
    No,
    /// Only its grading does.
    GraderOnly,
    /// A bounded number of times.
    Bounded,
    /// When somebody resumes the run.
    OnResume,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Self; 13] = [
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
        Self::Cancelled,
    ];

    /// How files and reports spell it.
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
            Self::Cancelled => "cancelled",
        }
    }

    /// What it is in a pass rate.
    #[must_use]
    pub const fn counts_as(self) -> Counts {
        match self {
            Self::Passed => Counts::One,
            Self::Failed
            | Self::AgentError
            | Self::Timeout
            | Self::Budget
            | Self::OverQuota
            | Self::Cheating => Counts::Zero,
            Self::GraderError => Counts::Either,
            Self::Infra | Self::RateLimited | Self::Unauthenticated | Self::Diverged | Self::Cancelled => {
                Counts::LeftOut
            }
        }
    }

    /// Whether the trial runs again.
    #[must_use]
    pub const fn retried(self) -> Retry {
        match self {
            Self::GraderError => Retry::GraderOnly,
            Self::Infra | Self::RateLimited => Retry::Bounded,
            Self::Cancelled => Retry::OnResume,
            _ => Retry::No,
        }
    }

    /// The exit code of a run whose only trial ended like this.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Passed => 0,
            Self::Unauthenticated => 3,
            Self::Infra | Self::RateLimited => 4,
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
    fn the_table_of_the_design() {
        let table = Outcome::ALL
            .map(|outcome| (outcome.as_str(), outcome.counts_as(), outcome.retried(), outcome.exit_code()));
        use Counts::{Either, LeftOut, One, Zero};
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
                ("grader_error", Either, GraderOnly, 5),
                ("infra", LeftOut, Bounded, 4),
                ("rate_limited", LeftOut, Bounded, 4),
                ("unauthenticated", LeftOut, No, 3),
                ("diverged", LeftOut, No, 5),
                ("cancelled", LeftOut, OnResume, 130),
            ]
        );
    }

    #[test]
    fn files_spell_it_like_people_do() {
        for outcome in Outcome::ALL {
            assert_eq!(serde_json::to_value(outcome).unwrap(), outcome.as_str());
            assert_eq!(serde_json::from_value::<Outcome>(outcome.as_str().into()).unwrap(), outcome);
        }
    }
}
