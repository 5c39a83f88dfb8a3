//! Gates: what a run's results have to hold, so that a CI job can act on one exit code.

mod answer;
mod setting;

use std::collections::BTreeMap;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::baseline::Recorded;
use crate::case::Isolation;
use crate::run::{RunError, RunResults};
use crate::stats::Estimand;

pub use setting::Setting;

/// What a gate may demand of the isolation, strongest first.
pub(crate) const LEVELS: &[&str] = &["bubblewrap", "landlock", "external"];
pub(crate) const ESTIMANDS: &[&str] = &["suite", "new-cases"];
pub(crate) const ON_INCONCLUSIVE: &[&str] = &["cannot_tell", "pass", "fail"];

/// What the results have to hold.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Gates {
    /// Of all trials.
    #[serde(default)]
    pub limits: Limits,
    /// Not lower than another run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_regression: Option<NoRegression>,
    /// Of the trials whose case has a tag.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, Limits>,
}

/// What some trials have to hold.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Limits {
    /// At least this share passes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_pass_rate: Option<f64>,
    /// All of them cost no more than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<f64>,
    /// No more than this share is lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_lost: Option<f64>,
    /// This, or something stronger, stood between every agent and the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Isolation>,
}

/// Which run the results are compared with, and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NoRegression {
    /// A baseline or a run.
    pub against: String,
    /// A loss up to this is no regression.
    pub tolerance: f64,
    /// How often the answer may be wrong.
    pub alpha: f64,
    /// What the answer is about.
    pub estimand: Estimand,
    /// What it counts as when nobody can tell.
    pub on_inconclusive: OnInconclusive,
}

/// What a comparison counts as when nobody can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OnInconclusive {
    /// As that: exit code 5.
    #[default]
    CannotTell,
    /// The gate holds.
    Pass,
    /// It does not.
    Fail,
}

impl OnInconclusive {
    /// As a suite writes it.
    #[must_use]
    pub fn read(word: &str) -> Option<Self> {
        match word {
            "cannot_tell" => Some(Self::CannotTell),
            "pass" => Some(Self::Pass),
            "fail" => Some(Self::Fail),
            _ => None,
        }
    }
}

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

impl Gates {
    /// Whether nothing is demanded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the run that is compared with is there; asked before anything is spent. Without it nobody can tell, which is an error
    /// unless that counts as a pass: so a first run can become the baseline.
    ///
    /// # Errors
    /// When it is not there, or can't be read.
    pub fn check(&self, root: &Path) -> Result<(), RunError> {
        match &self.no_regression {
            Some(gate) if gate.on_inconclusive != OnInconclusive::Pass => {
                Recorded::before(root, &gate.against, None).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// What the gates say to these results; baselines and runs to compare with are below `root`. `None` without gates.
    #[must_use]
    pub fn evaluate(&self, results: &RunResults, root: &Path) -> Option<GateReport> {
        if self.is_empty() {
            return None;
        }
        let mut gates = answer::limits("", &self.limits, results, |_| true);
        let max_lost = self.limits.max_lost.unwrap_or(crate::compare::MAX_LOST);
        gates.extend(
            self.no_regression.as_ref().map(|gate| answer::no_regression(gate, max_lost, results, root)),
        );
        for (tag, limits) in &self.tags {
            gates.extend(answer::limits(&format!("tags.{tag}."), limits, results, |trial| {
                trial.tags.contains(tag)
            }));
        }
        let answer = Answer::strongest(&gates);
        Some(GateReport { answer, gates })
    }
}
