//! What trials may cost and take, from what the same trials cost and took in earlier runs. Nothing is invented: what never
//! ran is unknown.

use std::collections::HashMap;
use std::path::Path;

use yb_engine::outcome::PassCredit;
use yb_engine::run::{PlannedTrial, RunInfo, TrialState, all_runs};

/// What is known of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Estimate {
    /// The median cost; none if nobody ever told one.
    pub(super) usd: Option<f64>,
    /// The median time; none if it never ran.
    pub(super) ms: Option<u64>,
    /// From how many trials.
    pub(super) from: usize,
}

/// What a trial cost, if it told, and how many milliseconds it took.
type Known = (Option<f64>, u64);

/// The trials of earlier runs.
#[derive(Default)]
pub(super) struct History {
    /// By what the agent saw: all repeats of it are the same.
    by_task: HashMap<String, Vec<Known>>,
    /// By case and variant, for those that were changed since.
    by_name: HashMap<(String, String), Vec<Known>>,
}

impl History {
    /// Of all runs in a workspace directory; those that can't be read are left out.
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

    /// What says nothing about the agent says nothing about its cost either.
    fn add(&mut self, trial: &PlannedTrial, state: &TrialState) {
        let counts = |counts| matches!(counts, PassCredit::One | PassCredit::Zero);
        let Some(result) = state.result().filter(|result| counts(result.outcome.pass_credit())) else {
            return;
        };
        let known = (result.spend.total(), result.duration_ms);
        self.by_task.entry(trial.task_digest.clone()).or_default().push(known);
        self.by_name.entry((trial.case.clone(), trial.variant.clone())).or_default().push(known);
    }

    /// Of the same task if it ever ran, else of its namesake.
    pub(super) fn of(&self, trial: &PlannedTrial) -> Estimate {
        let name = (trial.case.clone(), trial.variant.clone());
        let Some(known) = self.by_task.get(&trial.task_digest).or_else(|| self.by_name.get(&name)) else {
            return Estimate::default();
        };
        Estimate {
            usd: median(known.iter().filter_map(|(usd, _)| *usd).collect(), f64::total_cmp, |a, b| {
                (a + b) / 2.0
            }),
            ms: median(known.iter().map(|(_, ms)| *ms).collect(), u64::cmp, u64::midpoint),
            from: known.len(),
        }
    }
}

fn median<T: Copy>(
    mut values: Vec<T>,
    order: impl Fn(&T, &T) -> std::cmp::Ordering,
    between: impl Fn(T, T) -> T,
) -> Option<T> {
    values.sort_by(order);
    let upper = *values.get(values.len() / 2)?;
    let odd = values.len() % 2 == 1;
    Some(if odd { upper } else { between(values[values.len() / 2 - 1], upper) })
}

/// What all of them may cost and take.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Total {
    /// Of those of which it is known.
    pub(super) usd: Option<f64>,
    /// With so many at once, of those of which it is known.
    pub(super) ms: Option<u64>,
    /// Of how many the cost is not known.
    pub(super) unpriced: usize,
    /// Of how many the time is not known.
    pub(super) untimed: usize,
}

impl Total {
    pub(super) fn of(estimates: &[Estimate], jobs: usize) -> Self {
        let times: Vec<u64> = estimates.iter().filter_map(|one| one.ms).collect();
        let at_once = jobs.clamp(1, estimates.len().max(1)) as u64;
        // However many run at once, the longest has to be waited for.
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
    fn a_median_is_in_the_middle() {
        let of = |values: &[u64]| median(values.to_vec(), u64::cmp, u64::midpoint);
        assert_eq!([of(&[]), of(&[3]), of(&[9, 1, 5]), of(&[4, 1, 2, 9])], [None, Some(3), Some(5), Some(3)]);
    }

    #[test]
    fn what_is_not_known_is_counted_and_never_invented() {
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
