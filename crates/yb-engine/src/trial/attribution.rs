//! Whose failure it is when something fails after the agent ran. The agent could write all files that are captured, graded and
//! removed, so a failure counts against the agent unless our own evidence says otherwise: `infra` is excluded from the pass rate
//! and retried, and an agent that could cause it could hide its failures.

use yb_agents::{ErrorCode, ExecutionResult};
use yb_case::{AgentProgram, AgentSpec};
use yb_model::log::{ErrorRecord, YouBenchaLog};
use yb_model::outcome::Outcome;
use yb_repo::{EndTree, GitError, ObjectStore, RepoError};
use yb_tape::{ObservedFailure, ObservedFailureKind};

use super::TrialError;

/// The evidence about failures of the model API during one execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ApiEvidence {
    /// All model requests were observed; the failure that was the last word, if there was one.
    Observed(Option<ObservedFailure>),
    /// Nothing was observed, for this reason.
    Unobserved(&'static str),
}

impl ApiEvidence {
    /// Checks an agent's report that its API failed. Without evidence it is a failure of the agent.
    pub(super) fn check(self, agent: &AgentSpec, executed: &mut ExecutionResult) {
        let excluded = [Outcome::RateLimited, Outcome::Infra, Outcome::Unauthenticated].map(Some);
        let Some(report) = executed.api_report.filter(|_| excluded.contains(&executed.outcome)) else {
            return;
        };
        let problem = match self {
            Self::Observed(Some(failure)) => {
                executed.outcome = Some(outcome_of(failure.kind));
                return;
            }
            Self::Observed(None) => {
                "the agent reported a failure of its API that was not observed".to_owned()
            }
            // The second sign besides the report. A program of the case is the agent's as a whole, so it has none.
            Self::Unobserved(_) if report.failed_by_itself && !is_program_of_case(agent) => return,
            Self::Unobserved(reason) => {
                format!(
                    "the agent reported a failure of its API that nothing confirms (not observed: {reason})"
                )
            }
        };
        let reported =
            executed.errors.first().map(|error| format!(": {}", error.message)).unwrap_or_default();
        let record = ErrorRecord {
            message: format!("{problem}{reported}"),
            timestamp: executed.completed_at.clone(),
            code: Some(ErrorCode::ApiFailureUnproven.for_agent(agent)),
            stack_trace: None,
            context: [("exit_code".to_owned(), executed.exit_code.into())].into(),
        };
        executed.errors.insert(0, record);
        executed.outcome = Some(Outcome::Failed);
    }
}

fn outcome_of(kind: ObservedFailureKind) -> Outcome {
    match kind {
        ObservedFailureKind::Unauthenticated | ObservedFailureKind::Billing => Outcome::Unauthenticated,
        ObservedFailureKind::RateLimited | ObservedFailureKind::Overloaded => Outcome::RateLimited,
        _ => Outcome::Infra,
    }
}

/// Whether the agent is a program that the case names.
pub(super) fn is_program_of_case(agent: &AgentSpec) -> bool {
    matches!(agent.program, AgentProgram::FromCase)
}

impl TrialError {
    /// Whether the content of a workspace, or code that ran in it, can cause this error. If so, returns the outcome.
    fn outcome_if_agent_caused(&self) -> Option<Outcome> {
        match self {
            _ if self.is_cancelled() || self.is_disk_full() => None,
            Self::Repo(RepoError::Git(GitError::TimedOut { .. })) => Some(Outcome::OverQuota),
            Self::Repo(
                RepoError::Git(GitError::Failed { .. } | GitError::BadOutput { .. }) | RepoError::Io { .. },
            )
            | Self::Io { .. }
            | Self::Grading { .. }
            | Self::Log(_) => Some(Outcome::Failed),
            _ => None,
        }
    }

    /// Attributes an error in files outside the workspace to the agent, which had access to them without a sandbox.
    pub(super) fn by_unconfined_agent(self) -> Self {
        match self.outcome_if_agent_caused() {
            Some(_) => Self::ByAgent(Box::new(self)),
            None => self,
        }
    }
}

/// Decides about an error after the agent ran. If it is the agent's, it is recorded as such and the empty tree is returned.
///
/// # Errors
/// Returns the error if the agent can't have caused it, and the one of the store if that can't even record an empty tree.
pub(super) async fn attribute(
    error: TrialError,
    store: &ObjectStore,
    agent: &AgentSpec,
    executed: &mut ExecutionResult,
    log: &mut YouBenchaLog,
) -> Result<EndTree, TrialError> {
    let Some(outcome) = error.outcome_if_agent_caused().filter(|_| executed.was_started()) else {
        return Err(error);
    };
    // The evidence: the same store can record a tree that no agent wrote.
    let end = store.empty_end().await?;
    fail(agent, executed, log, outcome, error.to_string());
    Ok(end)
}

/// Records a failure of the agent. An outcome that is already decided stays.
pub(super) fn fail(
    agent: &AgentSpec,
    executed: &mut ExecutionResult,
    log: &mut YouBenchaLog,
    outcome: Outcome,
    message: String,
) {
    let code = if outcome == Outcome::OverQuota { ErrorCode::OverQuota } else { ErrorCode::UnusableResult };
    let record = ErrorRecord {
        message,
        timestamp: executed.completed_at.clone(),
        code: Some(code.for_agent(agent)),
        stack_trace: None,
        context: [("exit_code".to_owned(), executed.exit_code.into())].into(),
    };
    executed.errors.push(record.clone());
    log.errors.push(record);
    executed.outcome.get_or_insert(outcome);
    log.outcome = executed.outcome;
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::time::Duration;

    use super::*;

    #[test]
    fn only_errors_that_content_can_cause_are_the_agents() {
        let git = |error| TrialError::Repo(RepoError::Git(error));
        let failed = |stderr: &str| {
            git(GitError::Failed { command: "fast-import".into(), how: "128".into(), stderr: stderr.into() })
        };
        let io = |kind: io::ErrorKind| TrialError::io("/x")(kind.into());
        let timed_out = git(GitError::TimedOut { command: "fast-import".into(), after: Duration::ZERO });
        assert_eq!(timed_out.outcome_if_agent_caused(), Some(Outcome::OverQuota));
        for error in [
            failed("fatal: bad path"),
            io(io::ErrorKind::PermissionDenied),
            io(io::ErrorKind::InvalidFilename),
        ] {
            assert_eq!(error.outcome_if_agent_caused(), Some(Outcome::Failed), "{error}");
        }
        for error in [
            failed("fatal: write error: No space left on device"),
            io(io::ErrorKind::StorageFull),
            git(GitError::Cancelled { command: "fast-import".into() }),
            TrialError::Repo(RepoError::RuntimeGone),
        ] {
            assert_eq!(error.outcome_if_agent_caused(), None, "{error}");
        }
    }
}
