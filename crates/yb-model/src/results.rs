//! The results of one trial, `results.json`.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::isolation::{Isolation, NetworkMode};
use crate::log::ExecutionStatus;
use crate::outcome::Outcome;
use crate::verdict::{EvaluatorResult, EvaluatorStatus};

/// The format version that readers of the original implementation expect.
pub const VERSION: &str = "1.0.0";

/// The results of a trial.
#[derive(Debug, Clone, Serialize)]
pub struct Results {
    /// Always `1.0.0`.
    pub version: &'static str,
    /// The case.
    pub test_case: TestCase,
    /// When and where it ran.
    pub execution: RunInfo,
    /// The agent.
    pub agent: AgentInfo,
    /// The results of the evaluators, in the order of the case.
    pub evaluators: Vec<EvaluatorResult>,
    /// Counts of evaluators.
    pub summary: Summary,
    /// Paths below the artifacts directory.
    pub artifacts: Artifacts,
    /// The outcome of the trial.
    pub outcome: Outcome,
}

/// The case that was run.
#[derive(Debug, Clone, Serialize)]
pub struct TestCase {
    /// Its name.
    pub name: String,
    /// Its description.
    pub description: String,
    /// Its file.
    pub config_file: String,
    /// A digest of that file.
    pub config_hash: String,
    /// The source of the start tree.
    pub repo: String,
    /// The branch, if the case names one.
    pub branch: String,
    /// The commit of the start tree.
    pub commit: String,
    /// The branch with the expected result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_branch: Option<String>,
}

/// When and where a trial ran.
#[derive(Debug, Clone, Serialize)]
pub struct RunInfo {
    /// The start, ISO 8601.
    pub started_at: String,
    /// The end, ISO 8601.
    pub completed_at: String,
    /// The time between them.
    pub duration_ms: u64,
    /// The version of youBencha.
    pub youbencha_version: &'static str,
    /// `os`, `node_version` (not used, so `none`) and `workspace_dir`.
    pub environment: BTreeMap<&'static str, String>,
    /// The sandbox of the agent.
    pub isolation: Isolation,
    /// Whether the system calls of the agent were filtered; absent without a sandbox of ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub syscall_filter: Option<bool>,
    /// The network that the agent could reach.
    pub network: NetworkMode,
}

/// The execution of the agent.
#[derive(Debug, Clone, Serialize)]
pub struct AgentInfo {
    /// The name of the agent.
    #[serde(rename = "type")]
    pub kind: String,
    /// The path of its log, below the artifacts directory.
    pub youbencha_log_path: String,
    /// How it ended.
    pub status: ExecutionStatus,
    /// Its exit code.
    pub exit_code: i32,
}

/// Counts of evaluators.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// All evaluators.
    pub total_evaluators: usize,
    /// Those that passed.
    pub passed: usize,
    /// Those that failed.
    pub failed: usize,
    /// Those that could not decide.
    pub skipped: usize,
    /// `passed`, `failed` or `partial`.
    pub overall_status: &'static str,
}

impl Summary {
    /// Counts the results by status.
    #[must_use]
    pub fn of(results: &[EvaluatorResult]) -> Self {
        let count = |status| results.iter().filter(|result| result.status == status).count();
        let (passed, failed) = (count(EvaluatorStatus::Passed), count(EvaluatorStatus::Failed));
        let overall_status = match (failed, results.len() - passed) {
            (0, 0) => "passed",
            (0, _) => "partial",
            _ => "failed",
        };
        Self {
            total_evaluators: results.len(),
            passed,
            failed,
            skipped: count(EvaluatorStatus::Skipped),
            overall_status,
        }
    }
}

/// Paths of files of a trial, below the artifacts directory.
#[derive(Debug, Clone, Serialize)]
pub struct Artifacts {
    /// The agent's log.
    pub agent_log: String,
    /// Reports.
    pub reports: Vec<String>,
    /// Files of evaluators.
    pub evaluator_artifacts: Vec<String>,
}
