//! The codes of errors in a log, in one place.

use std::fmt;

/// What kind of error a record tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// The agent is not installed.
    CliNotFound,
    /// No login, or one that the API does not accept.
    AuthFailed,
    /// The time was over.
    Timeout,
    /// The API had no capacity for us.
    RateLimit,
    /// The output was longer than is kept.
    OutputTruncated,
    /// The configuration can't be.
    InvalidConfig,
    /// The artifacts can't be written.
    ArtifactsUnusable,
    /// The API failed otherwise.
    ApiError,
    /// An exit code that is not 0.
    ExitCode,
    /// A signal ended the agent.
    Signal,
    /// The limit of turns was reached.
    MaxTurns,
    /// The limit of cost was reached.
    MaxBudget,
    /// The agent says itself that it failed.
    AgentFailed,
    /// A directory grew beyond its quota.
    OverQuota,
    /// Somebody stopped it.
    Cancelled,
    /// It could not be started.
    SpawnFailed,
    /// Its supervisor was lost.
    SupervisorLost,
    /// A part of its output could not be read.
    Unreadable,
}

/// Whose codes they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    Claude,
    Agent,
}

impl Family {
    /// The codes of an adapter.
    pub(crate) fn of(adapter: &str) -> Self {
        if adapter == "claude-code" { Self::Claude } else { Self::Agent }
    }
}

impl ErrorCode {
    const fn suffix(self) -> &'static str {
        match self {
            Self::CliNotFound => "CLI_NOT_FOUND",
            Self::AuthFailed => "AUTH_FAILED",
            Self::Timeout => "TIMEOUT",
            Self::RateLimit => "RATE_LIMIT",
            Self::OutputTruncated => "OUTPUT_TRUNCATED",
            Self::InvalidConfig => "INVALID_CONFIG",
            Self::ArtifactsUnusable => "ARTIFACTS_UNUSABLE",
            Self::ApiError => "API_ERROR",
            Self::ExitCode => "EXIT_CODE",
            Self::Signal => "SIGNAL",
            Self::MaxTurns => "MAX_TURNS",
            Self::MaxBudget => "MAX_BUDGET",
            Self::AgentFailed => "AGENT_FAILED",
            Self::OverQuota => "OVER_QUOTA",
            Self::Cancelled => "CANCELLED",
            Self::SpawnFailed => "SPAWN_FAILED",
            Self::SupervisorLost => "SUPERVISOR_LOST",
            Self::Unreadable => "OUTPUT_UNREADABLE",
        }
    }

    pub(crate) fn of(self, family: Family) -> String {
        let prefix = match family {
            Family::Claude => "CLAUDE",
            Family::Agent => "AGENT",
        };
        format!("{prefix}_{}", self.suffix())
    }
}

/// As in the log of Claude Code.
impl fmt::Display for ErrorCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.of(Family::Claude))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_codes_of_the_data_model() {
        let codes = [
            ErrorCode::CliNotFound,
            ErrorCode::AuthFailed,
            ErrorCode::Timeout,
            ErrorCode::RateLimit,
            ErrorCode::OutputTruncated,
            ErrorCode::InvalidConfig,
        ];
        let names = [
            "CLAUDE_CLI_NOT_FOUND",
            "CLAUDE_AUTH_FAILED",
            "CLAUDE_TIMEOUT",
            "CLAUDE_RATE_LIMIT",
            "CLAUDE_OUTPUT_TRUNCATED",
            "CLAUDE_INVALID_CONFIG",
        ];
        assert_eq!(codes.map(|code| code.to_string()), names);
        assert_eq!(ErrorCode::Timeout.of(Family::of("command")), "AGENT_TIMEOUT");
    }
}
