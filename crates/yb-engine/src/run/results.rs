//! `results.json` of a run, derived from the plan and the journal.

use std::collections::BTreeMap;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::RunError;
use super::event::{AttemptRecord, Spend, StopReason};
use super::plan::{Plan, PlannedTrial};
use super::state::RunState;
use crate::check::Proof;
use crate::compare::VariantSummary;
use crate::gates::GateReport;
use yb_model::outcome::Outcome;
use yb_model::verdict::EvaluatorStatus;
use yb_stats::{ExcludedTrials, Interval, Observation, ObservedOutcome, PassCount};

/// The version of the format. Newer major versions are rejected.
const VERSION: &str = "1.1.0";

/// The confidence of the interval of a pass rate.
const CONFIDENCE: f64 = 0.95;

/// The results of a run and of each of its trials.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct RunResults {
    /// Version of this format.
    pub version: String,
    /// The run's id.
    pub run: String,
    /// The suite's or the case's name.
    pub name: String,
    /// Start time, ISO 8601.
    pub started_at: Option<String>,
    /// Time of the last event, ISO 8601.
    pub last_at: Option<String>,
    /// Whether all trials have a result.
    pub finished: bool,
    /// Why the run was stopped, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<StopReason>,
    /// Number of planned trials.
    pub planned: usize,
    /// Number of trials with a result.
    pub done: usize,
    /// Number of trials by outcome.
    pub outcomes: BTreeMap<Outcome, usize>,
    /// Cost of all attempts.
    pub spend: Spend,
    /// Number of trials with a result and an unknown cost.
    pub unpriced: usize,
    /// Results of the gates at the end of the run; absent without gates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gates: Option<GateReport>,
    /// The design, if the variants are combinations of factor levels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub design: Option<yb_stats::FactorialDesign>,
    /// What variants may differ in; absent if it is not declared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vary: Vec<String>,
    /// Totals and comparison of the variants at the end of the run; absent with a single variant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variants: Option<VariantSummary>,
    /// Digest of the last line of the journal, which covers all lines before it; absent in results of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal_head: Option<String>,
    /// The trials, in plan order.
    pub trials: Vec<TrialResults>,
}

/// The results of one trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct TrialResults {
    /// Id of the trial; the same trial has the same id in other runs.
    pub id: String,
    /// Folder of the trial.
    pub trial: String,
    /// The case.
    pub case: String,
    /// The variant.
    pub variant: String,
    /// Number of the repeat, from 1.
    pub repeat: u32,
    /// The case's tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Digest of the evaluators and their settings.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub grade_digest: String,
    /// What the last check of the case (`yb check`) had shown when the run started; absent in runs of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<Proof>,
    /// Outcome; absent while the trial is pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// All finished attempts, in order.
    pub attempts: Vec<AttemptRecord>,
}

impl TrialResults {
    /// Returns the observation for statistics. Replays of one tape count as one observation.
    #[must_use]
    pub fn observation(&self) -> Observation {
        self.observed(ObservedOutcome::of(self.outcome))
    }

    /// Returns the observation of one evaluator; `None` if the trial was graded without it. A verdict counts only if the
    /// agent ended by itself, and a trial without any verdict counts as its outcome does.
    pub(crate) fn observation_by(&self, evaluator: &str) -> Option<Observation> {
        let verdicts = self.result().map(|attempt| attempt.evaluators.as_slice()).unwrap_or_default();
        let verdict = verdicts.iter().find(|verdict| verdict.name == evaluator);
        let seen = match (self.outcome, verdict) {
            (Some(Outcome::Passed | Outcome::Failed | Outcome::GraderError), Some(verdict)) => {
                match verdict.status {
                    EvaluatorStatus::Passed => ObservedOutcome::Passed,
                    EvaluatorStatus::Failed => ObservedOutcome::Failed,
                    EvaluatorStatus::Skipped => ObservedOutcome::Unknown,
                }
            }
            (_, None) if !verdicts.is_empty() => return None,
            (outcome, _) => ObservedOutcome::of(outcome),
        };
        Some(self.observed(seen))
    }

    fn observed(&self, seen: ObservedOutcome) -> Observation {
        let tape = self.result().and_then(|attempt| attempt.tape.as_deref());
        match tape.filter(|tape| tape.how.is_replay()).and_then(|tape| tape.digest.as_ref()) {
            Some(digest) => Observation::replay(seen, digest),
            None => Observation::live(seen),
        }
    }

    /// Returns the attempt that decided the outcome, if there is one.
    #[must_use]
    pub fn result(&self) -> Option<&AttemptRecord> {
        self.outcome.and(self.attempts.last())
    }
}

impl TrialResults {
    /// Returns the current results of one trial.
    #[must_use]
    pub fn of(trial: &PlannedTrial, state: &RunState) -> Self {
        let attempts = state.get(&trial.folder).map(|state| state.attempts.clone());
        Self::with_attempts(trial, state, attempts.unwrap_or_default())
    }

    fn figures_of(trial: &PlannedTrial, state: &RunState) -> Self {
        let light = |record: &AttemptRecord| record.without_artifacts();
        let attempts = state.get(&trial.folder).map(|state| state.attempts.iter().map(light).collect());
        Self::with_attempts(trial, state, attempts.unwrap_or_default())
    }

    fn with_attempts(trial: &PlannedTrial, state: &RunState, attempts: Vec<AttemptRecord>) -> Self {
        Self {
            id: trial.id.clone(),
            trial: trial.folder.clone(),
            case: trial.case.clone(),
            variant: trial.variant.clone(),
            repeat: trial.repeat,
            tags: trial.tags.clone(),
            grade_digest: trial.grade_digest.clone(),
            proof: trial.proof,
            outcome: state.get(&trial.folder).and_then(|state| state.result()).map(|result| result.outcome),
            attempts,
        }
    }
}

impl RunResults {
    /// Returns the results of a run, without gates.
    #[must_use]
    pub fn of(plan: &Plan, state: &RunState) -> Self {
        let trials = plan.trials.iter().map(|trial| TrialResults::of(trial, state)).collect();
        Self { trials, ..Self::without_trials(plan, state) }
    }

    /// Returns the results without the lists of artifacts, which are most of their size and which no statistics need.
    #[must_use]
    pub fn figures_of(plan: &Plan, state: &RunState) -> Self {
        let trials = plan.trials.iter().map(|trial| TrialResults::figures_of(trial, state)).collect();
        Self { trials, ..Self::without_trials(plan, state) }
    }

    /// Returns the results of the run as a whole.
    #[must_use]
    pub fn without_trials(plan: &Plan, state: &RunState) -> Self {
        let tally = state.tally();
        Self {
            version: VERSION.to_owned(),
            run: plan.run.clone(),
            name: plan.name.clone(),
            started_at: state.started_at.clone(),
            last_at: state.last_at.clone(),
            finished: state.finished,
            stopped: state.stopped.clone(),
            planned: plan.trials.len(),
            done: tally.done,
            outcomes: tally.outcomes,
            spend: tally.spend,
            unpriced: tally.unpriced,
            gates: None,
            design: plan.design.clone(),
            vary: plan.vary.clone(),
            variants: None,
            journal_head: None,
            trials: Vec::new(),
        }
    }

    /// Returns the passes and their number, and the mean pass rate of the cases with its 95% interval; excluded and ungraded trials
    /// do not count.
    #[must_use]
    pub fn pass_rate(&self) -> (PassCount, Option<(f64, Interval)>) {
        let mut cases: BTreeMap<(&str, &str), Vec<Observation>> = BTreeMap::new();
        for trial in &self.trials {
            cases.entry((&trial.case, &trial.variant)).or_default().push(trial.observation());
        }
        let counts: Vec<PassCount> = cases
            .values()
            .map(|seen| yb_stats::count_outcomes(seen).passes(false, ExcludedTrials::Omit))
            .collect();
        let sum = |of: fn(&PassCount) -> u64| counts.iter().map(of).sum();
        let total = PassCount { passed: sum(|one| one.passed), of: sum(|one| one.of) };
        (total, yb_stats::mean_pass_rate(&counts, CONFIDENCE))
    }

    /// Reads a results file, which may have been written by another version.
    ///
    /// # Errors
    /// Returns an error when the file can't be read or is too new.
    pub fn read(path: &Path) -> Result<Self, RunError> {
        let invalid = |reason: String| RunError::Results { path: path.to_owned(), reason };
        let bytes = std::fs::read(path).map_err(|error| invalid(error.to_string()))?;
        let value = serde_json::from_slice(&bytes).map_err(|error| invalid(error.to_string()))?;
        Self::from_json(value).map_err(invalid)
    }

    /// Checks the version first: a newer format may lack the fields of this one.
    pub(crate) fn from_json(value: serde_json::Value) -> Result<Self, String> {
        let major = |version: &str| version.split('.').next().and_then(|major| major.parse::<u32>().ok());
        match value["version"].as_str().and_then(major) {
            Some(found) if Some(found) <= major(VERSION) => {}
            Some(_) => {
                return Err(format!(
                    "it has version {}; this version reads up to {VERSION}",
                    value["version"]
                ));
            }
            None => return Err("it has no version".to_owned()),
        }
        serde_json::from_value(value).map_err(|error| error.to_string())
    }

    /// Returns the JSON Schema as pretty-printed JSON with a final line break.
    #[must_use]
    pub fn schema() -> String {
        format!("{:#}\n", schemars::schema_for!(Self).to_value())
    }

    pub(super) fn write(&self, path: &Path) -> Result<(), RunError> {
        let mut text =
            serde_json::to_vec_pretty(self).map_err(|error| RunError::io("write", path)(error.into()))?;
        text.push(b'\n');
        super::resume::replace(path, &text)
    }
}
