//! Estimates cost and time of trials from earlier runs. Trials that never ran stay unknown.

use std::collections::HashMap;
use std::path::Path;

use yb_engine::outcome::PassCredit;
use yb_engine::run::{PlannedTrial, RunInfo, TrialState, all_runs};
use yb_figures::{median, median_ms};

/// The estimate of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Estimate {
    /// The median cost; `None` if never reported.
    pub(super) usd: Option<f64>,
    /// The median time; `None` if it never ran.
    pub(super) ms: Option<u64>,
    /// The number of samples.
    pub(super) from: usize,
}

/// Cost, if reported, and milliseconds of an earlier trial.
type Sample = (Option<f64>, u64);

/// The trials of earlier runs.
#[derive(Default)]
pub(super) struct History {
    /// By task digest, which all repeats share.
    by_task: HashMap<String, Vec<Sample>>,
    /// By case and variant, for tasks that changed since.
    by_name: HashMap<(String, String), Vec<Sample>>,
}

impl History {
    /// Reads all runs of a workspace directory, without unreadable ones.
    pub(super) fn read(root: &Path) -> Self {
        let mut history = Self::default();
        for info in all_runs(root).unwrap_or_default().into_iter().filter_map(|run| RunInfo::read(run).ok()) {
            for trial in &info.plan.trials {
                if let Some(state) = info.state.get(&trial.folder) {
                    history.add(trial, state);
                }
            }
        }
        history
    }

    /// Adds a trial, unless it was excluded.
    fn add(&mut self, trial: &PlannedTrial, state: &TrialState) {
        let counts = |counts| matches!(counts, PassCredit::One | PassCredit::Zero);
        let Some(result) = state.result().filter(|result| counts(result.outcome.pass_credit())) else {
            return;
        };
        let sample = (result.spend.total(), result.duration_ms);
        self.by_task.entry(trial.task_digest.clone()).or_default().push(sample);
        self.by_name.entry((trial.case.clone(), trial.variant.clone())).or_default().push(sample);
    }

    /// Estimates from the same task, or else from the same case and variant.
    pub(super) fn of(&self, trial: &PlannedTrial) -> Estimate {
        let name = (trial.case.clone(), trial.variant.clone());
        let Some(samples) = self.by_task.get(&trial.task_digest).or_else(|| self.by_name.get(&name)) else {
            return Estimate::default();
        };
        Estimate {
            usd: median(samples.iter().filter_map(|(usd, _)| *usd)),
            ms: median_ms(samples.iter().map(|(_, ms)| *ms)),
            from: samples.len(),
        }
    }
}

/// The estimate of all trials.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Total {
    /// The known costs.
    pub(super) usd: Option<f64>,
    /// The known times, with `jobs` trials at once.
    pub(super) ms: Option<u64>,
    /// The number of trials with unknown cost.
    pub(super) unpriced: usize,
    /// The number of trials with unknown time.
    pub(super) untimed: usize,
}

impl Total {
    pub(super) fn of(estimates: &[Estimate], jobs: usize) -> Self {
        let times: Vec<u64> = estimates.iter().filter_map(|one| one.ms).collect();
        let at_once = jobs.clamp(1, estimates.len().max(1)) as u64;
        // The longest trial is a lower bound.
        let ms = times.iter().max().map(|longest| (times.iter().sum::<u64>() / at_once).max(*longest));
        Self {
            usd: estimates.iter().filter_map(|one| one.usd).reduce(|one, two| one + two),
            ms,
            unpriced: estimates.iter().filter(|one| one.usd.is_none()).count(),
            untimed: estimates.len() - times.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_values_are_counted() {
        let known = |usd, ms| Estimate { usd, ms, from: 1 };
        let estimates = [
            known(Some(0.5), Some(10)),
            known(None, Some(30)),
            Estimate::default(),
            known(Some(1.0), Some(20)),
        ];
        let total = Total { usd: Some(1.5), ms: Some(30), unpriced: 2, untimed: 1 };
        assert_eq!(Total::of(&estimates, 3), total);
        assert_eq!(Total::of(&estimates, 2).ms, Some(30));
        assert_eq!(Total::of(&estimates, 1).ms, Some(60));
        assert_eq!(Total::of(&[], 4), Total::default());
    }
}
