//! The run's money: what ended trials cost, and what running ones have cost so far.

use std::collections::HashMap;

use super::event::Spend;

/// All that was spent, against what may be.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    max_usd: Option<f64>,
    ended_usd: f64,
    running: HashMap<String, f64>,
}

impl Budget {
    /// What earlier sessions of the run spent counts too.
    pub(crate) fn new(max_usd: Option<f64>, spent: Spend) -> Self {
        Self { max_usd, ended_usd: spent.total().unwrap_or(0.0), running: HashMap::new() }
    }

    /// What a running trial has cost so far; it never becomes less.
    pub(crate) fn so_far(&mut self, trial: &str, usd: f64) {
        let known = self.running.entry(trial.to_owned()).or_default();
        *known = known.max(usd);
    }

    /// A trial's attempt ended; its own account replaces what was metered.
    pub(crate) fn ended(&mut self, trial: &str, spend: Spend) {
        let metered = self.running.remove(trial).unwrap_or(0.0);
        let own = Spend { judge_usd: None, ..spend }.total().unwrap_or(metered);
        self.ended_usd += own + spend.judge_usd.unwrap_or(0.0);
    }

    pub(crate) fn spent_usd(&self) -> f64 {
        self.ended_usd + self.running.values().sum::<f64>()
    }

    /// Whether the limit is reached.
    pub(crate) fn is_spent(&self) -> bool {
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
    fn running_and_ended_trials_count_together() {
        let mut budget = Budget::new(Some(1.0), spend(0.25));
        budget.so_far("a", 0.25);
        budget.so_far("b", 0.25);
        budget.so_far("b", 0.125);
        assert!(!budget.is_spent());
        budget.so_far("a", 0.5);
        assert!(budget.is_spent());
        // The agent's own account says less than was metered.
        budget.ended("a", spend(0.25));
        assert!(!budget.is_spent());
        // Nobody told: what was metered stands.
        budget.ended("b", Spend::default());
        assert!((budget.spent_usd() - 0.75).abs() < 1e-9);
        // A judge's money is the run's too, and says nothing about the agent's.
        budget.so_far("c", 0.5);
        budget.ended("c", Spend { judge_usd: Some(0.25), ..Spend::default() });
        assert!((budget.spent_usd() - 1.5).abs() < 1e-9);
    }

    #[test]
    fn without_a_limit_it_is_never_spent() {
        let mut budget = Budget::new(None, Spend::default());
        budget.so_far("a", 1e9);
        assert!(!budget.is_spent());
    }
}
