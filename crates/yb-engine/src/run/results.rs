//! `results.json` of a run: made from the plan and the journal, and can be made again at any time.

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

/// The format; a newer major is not read.
const VERSION: &str = "1.1.0";

/// A run and what each of its trials came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct RunResults {
    /// Of this format.
    pub version: String,
    /// The run's id.
    pub run: String,
    /// The suite's or the case's name.
    pub name: String,
    /// When it began, ISO 8601.
    pub started_at: Option<String>,
    /// When the last thing happened, ISO 8601.
    pub last_at: Option<String>,
    /// Whether all was done.
    pub finished: bool,
    /// Why not, if it was stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<StopReason>,
    /// How many trials were planned.
    pub planned: usize,
    /// How many have a result.
    pub done: usize,
    /// How many came to what.
    pub outcomes: BTreeMap<Outcome, usize>,
    /// What all attempts cost.
    pub spend: Spend,
    /// How many trials told nothing of their cost.
    pub unpriced: usize,
    /// What the gates said at its end; absent if there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gates: Option<GateReport>,
    /// Each trial, in the order of the plan.
    pub trials: Vec<TrialResults>,
}

/// One trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct TrialResults {
    /// The same trial in another run has the same.
    pub id: String,
    /// Its folder.
    pub trial: String,
    /// The case.
    pub case: String,
    /// The variant.
    pub variant: String,
    /// Counts from 1.
    pub repeat: u32,
    /// The case's tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// How it is judged: the same digest, the same judgement.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub grade_digest: String,
    /// What it came to; absent while it is still to be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// Every attempt, in order.
    pub attempts: Vec<AttemptRecord>,
}

impl TrialResults {
    /// What it says in statistics: replays of one tape say one thing together.
    pub(crate) fn observation(&self) -> Observation {
        let seen = ObservedOutcome::of(self.outcome);
        let tape = self.result().and_then(|attempt| attempt.tape.as_deref());
        match tape.filter(|tape| tape.how.is_replay()).and_then(|tape| tape.digest.as_ref()) {
            Some(digest) => Observation::replay(seen, digest),
            None => Observation::live(seen),
        }
    }

    /// The attempt that decided, if there is a result.
    #[must_use]
    pub fn result(&self) -> Option<&AttemptRecord> {
        self.outcome.and(self.attempts.last())
    }
}

impl RunResults {
    /// Folds a run; what gates say is left open.
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

    /// Reads what another run, perhaps of another version, has written.
    ///
    /// # Errors
    /// When it can't be read, or is too new.
    pub fn read(path: &Path) -> Result<Self, RunError> {
        let wrong = |reason: String| RunError::Results { path: path.to_owned(), reason };
        let bytes = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
        let value = serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
        Self::from_json(value).map_err(wrong)
    }

    /// The version first: what a newer program wrote need not have our fields.
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

    /// The JSON Schema, as pretty JSON that ends with a line break.
    #[must_use]
    pub fn schema() -> String {
        format!("{:#}\n", schemars::schema_for!(Self).to_value())
    }

    pub(super) fn write(&self, path: &Path) -> Result<(), RunError> {
        let mut text =
            serde_json::to_vec_pretty(self).map_err(|error| RunError::io("write", path)(error.into()))?;
        text.push(b'\n');
        super::open::replace(path, &text)
    }
}
