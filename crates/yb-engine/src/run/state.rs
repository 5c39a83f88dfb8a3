//! The state of a run as a fold over its journal: finished trials, attempts in flight, and cost.

use std::collections::BTreeMap;

use yb_supervise::TreeRecord;

use super::event::{
    AttemptRecord, EvaluatorVerdict, JournalEntry, RetryDecision, RunEvent, Spend, StopReason,
};
use yb_model::outcome::{Outcome, PassCredit, Retry};

/// The state of a run.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct RunState {
    /// Time of the first journal entry, ISO 8601.
    pub started_at: Option<String>,
    /// Time of the last journal entry, ISO 8601.
    pub last_at: Option<String>,
    /// Whether all trials have a result.
    pub finished: bool,
    /// Why the run was stopped, if it was and has not been resumed since.
    pub stopped: Option<StopReason>,
    /// The number of planned trials.
    pub planned: usize,
    /// The digest of the gates in `results.json`, if it was recorded.
    pub(super) gates_digest: Option<String>,
    trials: BTreeMap<String, TrialState>,
}

/// The state of a started trial.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct TrialState {
    /// The finished attempts, in order.
    pub attempts: Vec<AttemptRecord>,
    /// The attempt that has started and not ended.
    pub in_flight: Option<InFlightAttempt>,
    /// The trial is being rerun: its previous result does not count.
    reopened: bool,
}

/// An attempt that has started and not ended.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct InFlightAttempt {
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// Start time, ISO 8601.
    pub started_at: String,
    /// The process tree of the agent, once spawned.
    pub tree: Option<TreeRecord>,
    /// The process trees of hooks, evaluators and judges.
    pub other_trees: Vec<TreeRecord>,
}

impl TrialState {
    /// Returns the attempt that decided the trial.
    #[must_use]
    pub fn result(&self) -> Option<&AttemptRecord> {
        let last = self.attempts.last().filter(|_| self.in_flight.is_none() && !self.reopened)?;
        (last.then == RetryDecision::Final && last.outcome != Outcome::Cancelled).then_some(last)
    }

    /// Returns the number of the next attempt.
    #[must_use]
    pub fn next_attempt(&self) -> u32 {
        let ended = self.attempts.iter().map(|record| record.attempt);
        ended.chain(self.in_flight.as_ref().map(|one| one.attempt)).max().unwrap_or(0).saturating_add(1)
    }

    /// Returns how many of the last attempts, in a row, were retried with a bounded number of retries.
    #[must_use]
    pub fn consecutive_retries(&self) -> u32 {
        let again = |record: &&AttemptRecord| {
            record.outcome.retried() == Retry::Bounded && record.then == RetryDecision::Retry
        };
        u32::try_from(self.attempts.iter().rev().take_while(again).count()).unwrap_or(u32::MAX)
    }
}

impl RunState {
    /// Returns the state after these journal entries.
    #[must_use]
    pub fn of<'a>(entries: impl IntoIterator<Item = &'a JournalEntry>) -> Self {
        let mut state = Self::default();
        for entry in entries {
            state.apply(entry);
        }
        state
    }

    /// Applies one more entry.
    pub fn apply(&mut self, entry: &JournalEntry) {
        self.started_at.get_or_insert_with(|| entry.at.clone());
        self.last_at = Some(entry.at.clone());
        match &entry.event {
            RunEvent::RunStarted { trials, .. } => self.planned = *trials,
            RunEvent::RunResumed { again, .. } => {
                self.stopped = None;
                self.finished = false;
                self.gates_digest = None;
                for trial in again {
                    self.trial(trial).reopened = true;
                }
            }
            RunEvent::AttemptStarted { trial, attempt } => {
                let started_at = entry.at.clone();
                self.trial(trial).in_flight = Some(InFlightAttempt {
                    attempt: *attempt,
                    started_at,
                    tree: None,
                    other_trees: Vec::new(),
                });
            }
            RunEvent::AgentStarted { trial, attempt, tree } => {
                if let Some(one) = &mut self.trial(trial).in_flight
                    && one.attempt == *attempt
                {
                    one.tree = Some(tree.clone());
                }
            }
            RunEvent::ProcessStarted { trial, attempt, tree, .. } => {
                if let Some(one) = &mut self.trial(trial).in_flight
                    && one.attempt == *attempt
                {
                    one.other_trees.push(tree.clone());
                }
            }
            RunEvent::AttemptFinished(record) => {
                let trial = self.trial(&record.trial);
                trial.in_flight = None;
                trial.reopened = false;
                trial.attempts.push(record.clone());
            }
            RunEvent::RunStopped { reason, gates } => {
                self.stopped = Some(reason.clone());
                self.gates_digest.clone_from(gates);
            }
            RunEvent::RunFinished { gates } => {
                self.finished = true;
                self.stopped = None;
                self.gates_digest.clone_from(gates);
            }
            RunEvent::Graded { .. } => {}
        }
    }

    fn trial(&mut self, folder: &str) -> &mut TrialState {
        self.trials.entry(folder.to_owned()).or_default()
    }

    /// Returns the state of a trial, if it was started.
    #[must_use]
    pub fn get(&self, folder: &str) -> Option<&TrialState> {
        self.trials.get(folder)
    }

    /// Returns the started trials with their folders.
    pub fn trials(&self) -> impl Iterator<Item = (&str, &TrialState)> {
        self.trials.iter().map(|(folder, state)| (folder.as_str(), state))
    }

    /// Replaces the verdict on a trial.
    pub(crate) fn regrade(
        &mut self,
        folder: &str,
        outcome: Outcome,
        evaluators: &[EvaluatorVerdict],
        judge_usd: Option<f64>,
        error: Option<&str>,
    ) {
        let last = self.trials.get_mut(folder).and_then(|trial| trial.attempts.last_mut());
        if let Some(record) = last {
            record.outcome = outcome;
            record.evaluators = evaluators.to_vec();
            record.spend.judge_usd = judge_usd;
            if let Some(error) = error {
                record.error = Some(error.to_owned());
            }
        }
    }

    /// Returns counts and total cost.
    #[must_use]
    pub fn tally(&self) -> RunTally {
        let mut tally = RunTally { planned: self.planned, ..RunTally::default() };
        for trial in self.trials.values() {
            for attempt in &trial.attempts {
                tally.spend = tally.spend.plus(attempt.spend);
                tally.attempts += 1;
            }
            if let Some(result) = trial.result() {
                tally.done += 1;
                *tally.outcomes.entry(result.outcome).or_default() += 1;
                let own = Spend { judge_usd: None, ..result.spend };
                tally.unpriced += usize::from(own.total().is_none());
            }
        }
        tally
    }
}

/// Counts and cost of a run.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct RunTally {
    /// Planned trials.
    pub planned: usize,
    /// Trials with a result.
    pub done: usize,
    /// The number of trials by outcome.
    pub outcomes: BTreeMap<Outcome, usize>,
    /// Finished attempts, including retried ones.
    pub attempts: usize,
    /// The cost of all attempts.
    pub spend: Spend,
    /// Trials with a result and an unknown cost.
    pub unpriced: usize,
}

impl RunTally {
    /// Returns the number of trials without a result.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.planned.saturating_sub(self.done)
    }

    /// Returns the number of passed trials.
    #[must_use]
    pub fn passed(&self) -> usize {
        self.count(PassCredit::One)
    }

    /// Returns the number of trials that count as failed.
    #[must_use]
    pub fn failed(&self) -> usize {
        self.count(PassCredit::Zero)
    }

    /// Returns the number of trials excluded from the pass rate.
    #[must_use]
    pub fn excluded(&self) -> usize {
        self.count(PassCredit::Excluded) + self.count(PassCredit::Unknown)
    }

    fn count(&self, counts: PassCredit) -> usize {
        self.outcomes.iter().filter(|(outcome, _)| outcome.pass_credit() == counts).map(|(_, n)| n).sum()
    }
}
