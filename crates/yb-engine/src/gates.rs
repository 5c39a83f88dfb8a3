//! Gates: evaluates the results of a run against the gates of its suite, so that a CI job can act on one exit code.

mod answer;

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::baseline::Recorded;
use crate::run::{RunError, RunResults};

pub use yb_case::gates::{GateLimits, Gates, NoRegression, OnInconclusive, Setting};

/// Whether a gate holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Answer {
    /// It does.
    Held,
    /// It does not.
    Failed,
    /// Nobody knows.
    CannotTell,
}

impl Answer {
    /// In words.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Held => "passed",
            Self::Failed => "failed",
            Self::CannotTell => "inconclusive",
        }
    }

    /// The one that counts for several.
    fn strongest(all: &[GateAnswer]) -> Self {
        let any = |answer| all.iter().any(|one| one.answer == answer);
        if any(Self::Failed) {
            Self::Failed
        } else if any(Self::CannotTell) {
            Self::CannotTell
        } else {
            Self::Held
        }
    }
}

/// What all gates of a run say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct GateReport {
    /// All together: one that failed is stronger than one that nobody can tell.
    pub answer: Answer,
    /// Each, in the order of the file.
    pub gates: Vec<GateAnswer>,
}

/// What one gate says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct GateAnswer {
    /// Its key, such as `min_pass_rate` or `tags.slow.min_pass_rate`.
    pub gate: String,
    /// Whether it holds.
    pub answer: Answer,
    /// Why, in one sentence.
    pub reason: String,
    /// What was measured, if that is a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// What it was compared with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<f64>,
}

/// Checks that the run to compare with exists, before anything is spent. A missing one is an error unless an inconclusive
/// comparison counts as a pass: then a first run can become the baseline.
///
/// # Errors
/// When it does not exist or can't be read.
pub fn check(gates: &Gates, root: &Path) -> Result<(), RunError> {
    match &gates.no_regression {
        Some(gate) if gate.on_inconclusive != OnInconclusive::Pass => {
            Recorded::before(root, &gate.against, None).map(drop)
        }
        _ => Ok(()),
    }
}

/// Evaluates the gates against these results; baselines and runs to compare with are below `root`. `None` without gates.
#[must_use]
pub fn evaluate(gates: &Gates, results: &RunResults, root: &Path) -> Option<GateReport> {
    if gates.is_empty() {
        return None;
    }
    let mut answers = answer::limits("", &gates.limits, results, |_| true);
    let max_lost = gates.limits.max_lost.unwrap_or(crate::compare::MAX_LOST);
    answers.extend(
        gates.no_regression.as_ref().map(|gate| answer::no_regression(gate, max_lost, results, root)),
    );
    for (tag, limits) in &gates.tags {
        answers.extend(answer::limits(&format!("tags.{tag}."), limits, results, |trial| {
            trial.tags.contains(tag)
        }));
    }
    let answer = Answer::strongest(&answers);
    Some(GateReport { answer, gates: answers })
}
