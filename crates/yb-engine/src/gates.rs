//! Gates: evaluates the results of a run against the gates of its suite, so that a CI job can act on one exit code.

mod cases;
mod evaluate;
mod lift;

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::baseline::{BaselineError, RecordedRun};
use crate::run::{RunError, RunResults};

pub use yb_case::gates::{
    CaseComparison, EvaluatorLimits, GateLimits, GateOverride, Gates, IfMissing, MinLift, NoRegression,
    OnInconclusive, PerCase,
};

/// The status of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum GateStatus {
    /// The gate passed.
    #[serde(rename = "held")]
    Passed,
    /// The gate failed.
    Failed,
    /// The results do not suffice to decide.
    #[serde(rename = "cannot_tell")]
    Inconclusive,
}

impl GateStatus {
    /// Returns the display name.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Inconclusive => "inconclusive",
        }
    }

    /// Returns the combined status: `Failed` takes precedence over `Inconclusive`.
    fn combined(all: &[GateResult]) -> Self {
        let any = |status| all.iter().any(|one| one.status == status);
        if any(Self::Failed) {
            Self::Failed
        } else if any(Self::Inconclusive) {
            Self::Inconclusive
        } else {
            Self::Passed
        }
    }
}

/// The results of all gates of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct GateReport {
    /// The combined status: `failed` takes precedence over `cannot_tell`.
    #[serde(rename = "answer")]
    pub status: GateStatus,
    /// The results of the gates, in file order.
    pub gates: Vec<GateResult>,
}

/// The result of one gate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct GateResult {
    /// The key, such as `min_pass_rate`, `tags.slow.min_pass_rate` or `evaluators.command.min_pass_rate`.
    pub gate: String,
    /// The status.
    #[serde(rename = "answer")]
    pub status: GateStatus,
    /// The reason.
    pub reason: String,
    /// The measured value, if it is a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// The limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<f64>,
    /// The cases, with their variants, that decided a gate about single cases.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cases: Vec<String>,
}

/// Checks that the runs to compare with exist, before anything is spent. A missing one is an error unless it counts as a pass: then a
/// first run can become the baseline.
///
/// # Errors
/// Returns an error when the run does not exist or can't be read.
pub fn check(gates: &Gates, root: &Path) -> Result<(), RunError> {
    for (_, against, on_inconclusive, if_missing) in gates.comparisons() {
        match RecordedRun::before(root, against, None) {
            Err(error) if !counts_as_passed(&error, on_inconclusive, if_missing) => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn counts_as_passed(error: &RunError, on_inconclusive: OnInconclusive, if_missing: IfMissing) -> bool {
    let is_missing = matches!(error, RunError::Baseline(BaselineError::Missing { .. }));
    on_inconclusive == OnInconclusive::Pass || (is_missing && if_missing == IfMissing::Pass)
}

/// Evaluates the gates against these results; baselines and runs to compare with are below `root`. `None` without gates.
#[must_use]
pub fn evaluate(gates: &Gates, results: &RunResults, root: &Path) -> Option<GateReport> {
    if gates.is_empty() && results.vary.is_empty() {
        return None;
    }
    let mut gate_results = evaluate::limits("", &gates.limits, results, |_| true);
    let max_lost = gates.limits.max_lost.unwrap_or(crate::compare::MAX_LOST);
    gate_results.extend(
        gates.no_regression.as_ref().map(|gate| evaluate::no_regression(gate, max_lost, results, root)),
    );
    gate_results
        .extend(gates.no_case_dies.as_ref().map(|gate| cases::no_case_dies(gate, max_lost, results, root)));
    gate_results.extend(gates.per_case.as_ref().map(|gate| cases::per_case(gate, max_lost, results, root)));
    gate_results.extend(gates.min_lift.as_ref().map(|gate| lift::min_lift(gate, results)));
    gate_results.extend(lift::vary(results));
    for (tag, limits) in &gates.tags {
        gate_results.extend(evaluate::limits(&format!("tags.{tag}."), limits, results, |trial| {
            trial.tags.contains(tag)
        }));
    }
    for (variant, limits) in &gates.variants {
        let takes = |trial: &crate::run::TrialResults| trial.variant == *variant;
        gate_results.extend(evaluate::limits(&format!("variants.{variant}."), limits, results, takes));
    }
    for (name, limits) in &gates.evaluators {
        gate_results.push(evaluate::evaluator(name, *limits, max_lost, results));
    }
    let status = GateStatus::combined(&gate_results);
    Some(GateReport { status, gates: gate_results })
}
