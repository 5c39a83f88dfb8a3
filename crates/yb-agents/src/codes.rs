//! The error codes of a log.

use std::fmt;

use yb_case::AgentSpec;

/// The kind of an error record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// The agent is not installed.
    CliNotFound,
    /// The agent has no credentials, or the API refuses them.
    AuthFailed,
    /// The deadline passed.
    Timeout,
    /// The API was overloaded or limited the rate.
    RateLimit,
    /// The output exceeded the limit.
    OutputTruncated,
    /// The configuration is invalid.
    InvalidConfig,
    /// The artifacts directory is not writable.
    ArtifactsUnusable,
    /// Another error of the API.
    ApiError,
    /// A nonzero exit code.
    ExitCode,
    /// The agent was killed by a signal.
    Signal,
    /// The turn limit was reached.
    MaxTurns,
    /// The cost limit was reached.
    MaxBudget,
    /// The agent reported a failure.
    AgentFailed,
    /// A required MCP server did not start.
    McpFailed,
    /// A plugin, skill, agent or instruction file of the case did not load.
    Miswired,
    /// A resource limit was exceeded.
    OverQuota,
    /// The execution was cancelled.
    Cancelled,
    /// The process could not be spawned.
    SpawnFailed,
    /// The connection to the shim was lost.
    SupervisorLost,
    /// A part of the output could not be parsed.
    Unreadable,
    /// The result could not be captured or graded.
    UnusableResult,
    /// The agent reported an API failure that was not observed.
    ApiFailureUnproven,
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
            Self::McpFailed => "MCP_FAILED",
            Self::Miswired => "MISWIRED",
            Self::OverQuota => "OVER_QUOTA",
            Self::Cancelled => "CANCELLED",
            Self::SpawnFailed => "SPAWN_FAILED",
            Self::SupervisorLost => "SUPERVISOR_LOST",
            Self::Unreadable => "OUTPUT_UNREADABLE",
            Self::UnusableResult => "RESULT_UNUSABLE",
            Self::ApiFailureUnproven => "API_FAILURE_UNPROVEN",
        }
    }

    /// The code with the prefix of an agent: `CLAUDE_TIMEOUT`.
    #[must_use]
    pub fn for_agent(self, agent: &AgentSpec) -> String {
        format!("{}_{}", agent.error_prefix, self.suffix())
    }
}

/// Without the prefix of an agent: `TIMEOUT`.
impl fmt::Display for ErrorCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.suffix())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Adapter as _, ClaudeCode, Command};

    #[test]
    fn codes_of_the_data_model() {
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
        assert_eq!(codes.map(|code| code.for_agent(ClaudeCode.spec())), names);
        assert_eq!(ErrorCode::Timeout.for_agent(Command.spec()), "AGENT_TIMEOUT");
    }
}
