//! The budget of a run: the cost of finished attempts, and the metered cost of running ones.

use std::collections::HashMap;

use super::event::Spend;

/// The cost so far and its limit.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    max_usd: Option<f64>,
    finished_usd: f64,
    running: HashMap<String, f64>,
}

impl Budget {
    /// Returns a budget of which earlier sessions of the run have already used `spent`.
    pub(crate) fn new(max_usd: Option<f64>, spent: Spend) -> Self {
        Self { max_usd, finished_usd: spent.total().unwrap_or(0.0), running: HashMap::new() }
    }

    /// Updates the metered cost of a running trial. The cost never decreases.
    pub(crate) fn update_running(&mut self, trial: &str, usd: f64) {
        let known = self.running.entry(trial.to_owned()).or_default();
        *known = known.max(usd);
    }

    /// Adds a finished attempt. Its reported cost replaces the metered one.
    pub(crate) fn finish_attempt(&mut self, trial: &str, spend: Spend) {
        let metered = self.running.remove(trial).unwrap_or(0.0);
        let own = Spend { judge_usd: None, ..spend }.total().unwrap_or(metered);
        self.finished_usd += own + spend.judge_usd.unwrap_or(0.0);
    }

    pub(crate) fn spent_usd(&self) -> f64 {
        self.finished_usd + self.running.values().sum::<f64>()
    }

    /// Whether the limit is reached.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.max_usd.is_some_and(|max| self.spent_usd() >= max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spend(usd: f64) -> Spend {
        Spend { agent_usd: Some(usd), ..Spend::default() }
    }

    #[test]
    fn running_and_finished_trials_count_together() {
        let mut budget = Budget::new(Some(1.0), spend(0.25));
        budget.update_running("a", 0.25);
        budget.update_running("b", 0.25);
        budget.update_running("b", 0.125);
        assert!(!budget.is_exhausted());
        budget.update_running("a", 0.5);
        assert!(budget.is_exhausted());
        // The agent reports less than was metered.
        budget.finish_attempt("a", spend(0.25));
        assert!(!budget.is_exhausted());
        // Without a reported cost, the metered cost counts.
        budget.finish_attempt("b", Spend::default());
        assert!((budget.spent_usd() - 0.75).abs() < 1e-9);
        // The cost of a judge counts too, and does not replace the metered cost of the agent.
        budget.update_running("c", 0.5);
        budget.finish_attempt("c", Spend { judge_usd: Some(0.25), ..Spend::default() });
        assert!((budget.spent_usd() - 1.5).abs() < 1e-9);
    }

    #[test]
    fn budget_without_limit_is_never_exhausted() {
        let mut budget = Budget::new(None, Spend::default());
        budget.update_running("a", 1e9);
        assert!(!budget.is_exhausted());
    }
}
