//! `results.json` of a run, derived from the plan and the journal.

use std::collections::BTreeMap;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::RunError;
use super::event::{AttemptRecord, Spend, StopReason};
use super::plan::Plan;
use super::state::RunState;
use crate::gates::GateReport;
use yb_model::outcome::Outcome;
use yb_stats::{Observation, ObservedOutcome};

/// The version of the format. Newer major versions are rejected.
const VERSION: &str = "1.1.0";

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
    /// Outcome; absent while the trial is pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// All finished attempts, in order.
    pub attempts: Vec<AttemptRecord>,
}

impl TrialResults {
    /// Returns the observation for statistics. Replays of one tape count as one observation.
    pub(crate) fn observation(&self) -> Observation {
        let seen = ObservedOutcome::of(self.outcome);
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

impl RunResults {
    /// Returns the results of a run, without gates.
    #[must_use]
    pub fn of(plan: &Plan, state: &RunState) -> Self {
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
            journal_head: None,
            trials: plan
                .trials
                .iter()
                .map(|trial| {
                    let state = state.get(&trial.folder);
                    TrialResults {
                        id: trial.id.clone(),
                        trial: trial.folder.clone(),
                        case: trial.case.clone(),
                        variant: trial.variant.clone(),
                        repeat: trial.repeat,
                        tags: trial.tags.clone(),
                        grade_digest: trial.grade_digest.clone(),
                        outcome: state.and_then(|state| state.result()).map(|result| result.outcome),
                        attempts: state.map(|state| state.attempts.clone()).unwrap_or_default(),
                    }
                })
                .collect(),
        }
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
