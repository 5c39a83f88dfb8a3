//! `results.json` of a run: made from the plan and the journal, and can be made again at any time.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use super::error::RunError;
use super::event::{AttemptRecord, Spend, StopReason};
use super::plan::Plan;
use super::state::RunState;
use crate::outcome::Outcome;

/// The format; a newer major is not read.
const VERSION: &str = "1.0.0";

/// A run and what each of its trials came to.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct RunResults {
    /// Of this format.
    pub version: &'static str,
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
    #[serde(skip_serializing_if = "Option::is_none")]
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
    /// Each trial, in the order of the plan.
    pub trials: Vec<TrialResults>,
}

/// One trial.
#[derive(Debug, Clone, Serialize)]
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
    /// What it came to; absent while it is still to be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// Every attempt, in order.
    pub attempts: Vec<AttemptRecord>,
}

impl RunResults {
    /// Folds a run.
    #[must_use]
    pub fn of(plan: &Plan, state: &RunState) -> Self {
        let tally = state.tally();
        Self {
            version: VERSION,
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
                        outcome: state.and_then(|state| state.result()).map(|result| result.outcome),
                        attempts: state.map(|state| state.attempts.clone()).unwrap_or_default(),
                    }
                })
                .collect(),
        }
    }

    pub(super) fn write(&self, path: &Path) -> Result<(), RunError> {
        let mut text =
            serde_json::to_vec_pretty(self).map_err(|error| RunError::io("write", path)(error.into()))?;
        text.push(b'\n');
        super::open::replace(path, &text)
    }
}
