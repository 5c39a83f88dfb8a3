//! What a journal comes to: which trials are done, which were in flight, what was spent.

use std::collections::BTreeMap;

use yb_supervise::TreeRecord;

use super::event::{AttemptRecord, Entry, Graded, RunEvent, Spend, StopReason, Then};
use yb_model::outcome::{Outcome, PassCredit, Retry};

/// A run, folded.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct RunState {
    /// When its first line was written, ISO 8601.
    pub started_at: Option<String>,
    /// When its last line was written, ISO 8601.
    pub last_at: Option<String>,
    /// Whether all was done.
    pub finished: bool,
    /// Why it was stopped, if it was and nobody went on with it.
    pub stopped: Option<StopReason>,
    /// How many trials are planned.
    pub planned: usize,
    trials: BTreeMap<String, TrialState>,
}

/// A trial that was begun.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct TrialState {
    /// The attempts that ended, in order.
    pub attempts: Vec<AttemptRecord>,
    /// The attempt that began and has not ended.
    pub in_flight: Option<InFlight>,
    /// It had a result that is set aside.
    reopened: bool,
}

/// An attempt that began and has not ended.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct InFlight {
    /// Which.
    pub attempt: u32,
    /// When it began, ISO 8601.
    pub started_at: String,
    /// The agent's processes, as soon as there are some.
    pub tree: Option<TreeRecord>,
}

impl TrialState {
    /// The attempt that decided the trial.
    #[must_use]
    pub fn result(&self) -> Option<&AttemptRecord> {
        let last = self.attempts.last().filter(|_| self.in_flight.is_none() && !self.reopened)?;
        (last.then == Then::Done && last.outcome != Outcome::Cancelled).then_some(last)
    }

    /// The number that the next attempt gets.
    #[must_use]
    pub fn next_attempt(&self) -> u32 {
        let ended = self.attempts.iter().map(|record| record.attempt);
        ended.chain(self.in_flight.as_ref().map(|one| one.attempt)).max().unwrap_or(0) + 1
    }

    /// The last attempts that ended in a way for which there is a bounded number of further ones.
    #[must_use]
    pub fn lost_in_a_row(&self) -> u32 {
        let again = |record: &&AttemptRecord| {
            record.outcome.retried() == Retry::Bounded && record.then == Then::Again
        };
        u32::try_from(self.attempts.iter().rev().take_while(again).count()).unwrap_or(u32::MAX)
    }
}

impl RunState {
    /// Folds a whole journal.
    #[must_use]
    pub fn of<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Self {
        let mut state = Self::default();
        for entry in entries {
            state.apply(entry);
        }
        state
    }

    /// Takes one more entry.
    pub fn apply(&mut self, entry: &Entry) {
        self.started_at.get_or_insert_with(|| entry.at.clone());
        self.last_at = Some(entry.at.clone());
        match &entry.event {
            RunEvent::RunStarted { trials, .. } => self.planned = *trials,
            RunEvent::RunResumed { again, .. } => {
                self.stopped = None;
                self.finished = false;
                for trial in again {
                    self.trial(trial).reopened = true;
                }
            }
            RunEvent::AttemptStarted { trial, attempt } => {
                let started_at = entry.at.clone();
                self.trial(trial).in_flight = Some(InFlight { attempt: *attempt, started_at, tree: None });
            }
            RunEvent::AgentStarted { trial, attempt, tree } => {
                if let Some(one) = &mut self.trial(trial).in_flight
                    && one.attempt == *attempt
                {
                    one.tree = Some(tree.clone());
                }
            }
            RunEvent::AttemptFinished(record) => {
                let trial = self.trial(&record.trial);
                trial.in_flight = None;
                trial.reopened = false;
                trial.attempts.push(record.clone());
            }
            RunEvent::RunStopped { reason } => self.stopped = Some(reason.clone()),
            RunEvent::RunFinished => {
                self.finished = true;
                self.stopped = None;
            }
        }
    }

    fn trial(&mut self, folder: &str) -> &mut TrialState {
        self.trials.entry(folder.to_owned()).or_default()
    }

    /// A trial that was begun.
    #[must_use]
    pub fn get(&self, folder: &str) -> Option<&TrialState> {
        self.trials.get(folder)
    }

    /// The trials that were begun, by folder.
    pub fn trials(&self) -> impl Iterator<Item = (&str, &TrialState)> {
        self.trials.iter().map(|(folder, state)| (folder.as_str(), state))
    }

    /// The same with another verdict on a trial.
    pub(crate) fn regrade(
        &mut self,
        folder: &str,
        outcome: Outcome,
        evaluators: &[Graded],
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

    /// All in numbers.
    #[must_use]
    pub fn tally(&self) -> Tally {
        let mut tally = Tally { planned: self.planned, ..Tally::default() };
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

/// A run in numbers.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Tally {
    /// Trials that are planned.
    pub planned: usize,
    /// Trials that have a result.
    pub done: usize,
    /// How many came to what.
    pub outcomes: BTreeMap<Outcome, usize>,
    /// Attempts that ended, those that came to nothing included.
    pub attempts: usize,
    /// What all attempts cost.
    pub spend: Spend,
    /// Trials with a result of which nobody knows what they cost.
    pub unpriced: usize,
}

impl Tally {
    /// Trials that are still to be done.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.planned.saturating_sub(self.done)
    }

    /// Trials that passed.
    #[must_use]
    pub fn passed(&self) -> usize {
        self.count(PassCredit::One)
    }

    /// Trials that count against the agent.
    #[must_use]
    pub fn failed(&self) -> usize {
        self.count(PassCredit::Zero)
    }

    /// Trials that say nothing about the agent.
    #[must_use]
    pub fn left_out(&self) -> usize {
        self.count(PassCredit::Excluded) + self.count(PassCredit::Unknown)
    }

    fn count(&self, counts: PassCredit) -> usize {
        self.outcomes.iter().filter(|(outcome, _)| outcome.pass_credit() == counts).map(|(_, n)| n).sum()
    }
}
