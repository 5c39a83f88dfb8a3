//! The results of one trial, `results.json`.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::isolation::{Isolation, NetworkMode};
use crate::log::ExecutionStatus;
use crate::outcome::Outcome;
use crate::verdict::{EvaluatorResult, EvaluatorStatus};

/// The version that readers of the original insist on.
pub const VERSION: &str = "1.0.0";

/// Everything that a trial came to.
#[derive(Debug, Clone, Serialize)]
pub struct Results {
    /// Always `1.0.0`.
    pub version: &'static str,
    /// The case.
    pub test_case: TestCase,
    /// When and where.
    pub execution: RunInfo,
    /// The agent.
    pub agent: AgentInfo,
    /// What each evaluator found, in the order of the case.
    pub evaluators: Vec<EvaluatorResult>,
    /// All in numbers.
    pub summary: Summary,
    /// Files, below the artifacts.
    pub artifacts: Artifacts,
    /// What the trial came to.
    pub outcome: Outcome,
}

/// The case that was run.
#[derive(Debug, Clone, Serialize)]
pub struct TestCase {
    /// Its name.
    pub name: String,
    /// What it is about.
    pub description: String,
    /// Its file.
    pub config_file: String,
    /// A digest of that file.
    pub config_hash: String,
    /// Where the starting tree came from.
    pub repo: String,
    /// The branch, if one was asked for.
    pub branch: String,
    /// The commit that it began with.
    pub commit: String,
    /// The branch with the expected result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_branch: Option<String>,
}

/// When and where a trial ran.
#[derive(Debug, Clone, Serialize)]
pub struct RunInfo {
    /// When it began, ISO 8601.
    pub started_at: String,
    /// When it ended, ISO 8601.
    pub completed_at: String,
    /// Between the two.
    pub duration_ms: u64,
    /// Our version.
    pub youbencha_version: &'static str,
    /// `os`, `node_version` (not used, so `none`) and `workspace_dir`.
    pub environment: BTreeMap<&'static str, String>,
    /// What stood between the agent and the machine.
    pub isolation: Isolation,
    /// What the agent could connect to.
    pub network: NetworkMode,
}

/// How the agent went.
#[derive(Debug, Clone, Serialize)]
pub struct AgentInfo {
    /// Which agent.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its log, below the artifacts.
    pub youbencha_log_path: String,
    /// How it ended, in three words.
    pub status: ExecutionStatus,
    /// Its exit code.
    pub exit_code: i32,
}

/// All evaluators in numbers.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// How many there are.
    pub total_evaluators: usize,
    /// How many passed.
    pub passed: usize,
    /// How many failed.
    pub failed: usize,
    /// How many could not look.
    pub skipped: usize,
    /// `passed`, `failed` or `partial`.
    pub overall_status: &'static str,
}

impl Summary {
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

/// Files of a trial, below the artifacts.
#[derive(Debug, Clone, Serialize)]
pub struct Artifacts {
    /// The agent's log.
    pub agent_log: String,
    /// Reports that were made.
    pub reports: Vec<String>,
    /// What evaluators left.
    pub evaluator_artifacts: Vec<String>,
}
