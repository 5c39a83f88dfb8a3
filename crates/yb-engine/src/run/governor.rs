//! Keeps all trials of one account below what its API allows: one that is told to wait slows all, not only itself.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The first pause when nobody says how long.
const FIRST: Duration = Duration::from_secs(5);
/// The longest pause, whatever anybody says.
const LONGEST: Duration = Duration::from_secs(300);

/// All accounts of a run.
#[derive(Debug, Default)]
pub(crate) struct Governor {
    accounts: HashMap<String, Account>,
}

#[derive(Debug, Default)]
struct Account {
    running: usize,
    /// How many may run at once; none is as many as there are jobs.
    limit: Option<usize>,
    /// Nothing starts before.
    closed_until: Option<Instant>,
    /// Refusals since the last success.
    strikes: u32,
}

impl Governor {
    /// When the account may have one more: now (`None`), or not before. An account at its limit waits for an end.
    pub(crate) fn wait(&self, account: &str, now: Instant) -> Wait {
        let Some(account) = self.accounts.get(account) else { return Wait::No };
        if let Some(until) = account.closed_until.filter(|until| *until > now) {
            return Wait::Until(until);
        }
        match account.limit {
            Some(limit) if account.running >= limit => Wait::ForAnEnd,
            _ => Wait::No,
        }
    }

    /// Whether any account has to wait for a moment in time.
    pub(crate) fn holds(&self, now: Instant) -> bool {
        self.accounts.values().any(|account| account.closed_until.is_some_and(|until| until > now))
    }

    pub(crate) fn started(&mut self, account: &str) {
        self.accounts.entry(account.to_owned()).or_default().running += 1;
    }

    pub(crate) fn ended(&mut self, account: &str) {
        if let Some(account) = self.accounts.get_mut(account) {
            account.running = account.running.saturating_sub(1);
        }
    }

    /// An agent of the account came through: one more may run than before.
    pub(crate) fn went_well(&mut self, account: &str) {
        if let Some(account) = self.accounts.get_mut(account) {
            account.strikes = 0;
            account.limit = account.limit.map(|limit| limit + 1);
        }
    }

    /// The API had no capacity. Returns how long nothing starts; none if that was known already.
    pub(crate) fn refused(
        &mut self,
        account: &str,
        retry_after: Option<Duration>,
        now: Instant,
    ) -> Option<Duration> {
        let account = self.accounts.entry(account.to_owned()).or_default();
        let known = account.closed_until.is_some_and(|until| until > now);
        if !known {
            account.strikes += 1;
            account.limit = Some((account.limit.unwrap_or(account.running).min(account.running) / 2).max(1));
        }
        let pause =
            retry_after.unwrap_or_else(|| FIRST * 2_u32.saturating_pow(account.strikes - 1)).min(LONGEST);
        let until = now + pause;
        if account.closed_until.is_some_and(|already| already >= until) {
            return None;
        }
        account.closed_until = Some(until);
        Some(pause)
    }
}

/// Whether an account may have one more trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Now.
    No,
    /// Not before.
    Until(Instant),
    /// When another of its trials has ended.
    ForAnEnd,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_running(running: usize) -> Governor {
        let mut governor = Governor::default();
        for _ in 0..running {
            governor.started("a");
        }
        governor
    }

    #[test]
    fn one_refusal_slows_all_of_the_account_and_nobody_else() {
        let now = Instant::now();
        let mut governor = with_running(4);
        assert_eq!(governor.refused("a", Some(Duration::from_secs(7)), now), Some(Duration::from_secs(7)));
        assert_eq!(governor.wait("a", now), Wait::Until(now + Duration::from_secs(7)));
        assert_eq!(governor.wait("b", now), Wait::No);
        assert!(governor.holds(now));
        // The others of the account are refused in the same breath: that is one strike, not four.
        for _ in 0..3 {
            assert_eq!(governor.refused("a", Some(Duration::from_secs(6)), now), None);
        }
        let later = now + Duration::from_secs(8);
        assert!(!governor.holds(later));
        assert_eq!(governor.wait("a", later), Wait::ForAnEnd);
        for _ in 0..3 {
            governor.ended("a");
        }
        assert_eq!(governor.wait("a", later), Wait::No);
        governor.started("a");
        assert_eq!(governor.wait("a", later), Wait::ForAnEnd);
        governor.went_well("a");
        assert_eq!(governor.wait("a", later), Wait::No);
    }

    #[test]
    fn without_a_word_the_pause_doubles_up_to_a_bound() {
        let mut now = Instant::now();
        let mut governor = with_running(1);
        let mut pauses = Vec::new();
        for _ in 0..9 {
            let pause = governor.refused("a", None, now).unwrap();
            pauses.push(pause.as_secs());
            now += pause;
        }
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 300, 300, 300]);
        governor.went_well("a");
        assert_eq!(governor.refused("a", None, now), Some(FIRST));
    }

    #[test]
    fn a_pause_that_is_asked_for_is_bounded() {
        let mut governor = with_running(1);
        let day = Duration::from_secs(86_400);
        assert_eq!(governor.refused("a", Some(day), Instant::now()), Some(LONGEST));
    }
}
