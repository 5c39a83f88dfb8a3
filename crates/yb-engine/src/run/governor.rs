//! Rate limiting by account: when the API refuses one trial, all trials of that account are delayed.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The first pause when the API gives no `retry-after`.
const INITIAL_PAUSE: Duration = Duration::from_secs(5);
/// The longest pause, also when the API asks for more.
const MAX_PAUSE: Duration = Duration::from_secs(300);

/// The rate limits of all accounts of a run.
#[derive(Debug, Default)]
pub(crate) struct Governor {
    accounts: HashMap<String, AccountState>,
}

#[derive(Debug, Default)]
struct AccountState {
    running: usize,
    /// The maximum number of concurrent trials; `None` means no limit beyond the number of jobs.
    limit: Option<usize>,
    /// No trial starts before this time.
    closed_until: Option<Instant>,
    /// Refusals since the last success.
    refusals: u32,
}

impl Governor {
    /// Returns whether one more trial of the account may start.
    pub(crate) fn start_delay(&self, account: &str, now: Instant) -> StartDelay {
        let Some(account) = self.accounts.get(account) else { return StartDelay::None };
        if let Some(until) = account.closed_until.filter(|until| *until > now) {
            return StartDelay::Until(until);
        }
        match account.limit {
            Some(limit) if account.running >= limit => StartDelay::UntilCompletion,
            _ => StartDelay::None,
        }
    }

    /// Whether any account is paused.
    pub(crate) fn is_paused(&self, now: Instant) -> bool {
        self.accounts.values().any(|account| account.closed_until.is_some_and(|until| until > now))
    }

    pub(crate) fn start(&mut self, account: &str) {
        self.accounts.entry(account.to_owned()).or_default().running += 1;
    }

    pub(crate) fn finish(&mut self, account: &str) {
        if let Some(account) = self.accounts.get_mut(account) {
            account.running = account.running.saturating_sub(1);
        }
    }

    /// Records a success: the limit of the account grows by one.
    pub(crate) fn record_success(&mut self, account: &str) {
        if let Some(account) = self.accounts.get_mut(account) {
            account.refusals = 0;
            account.limit = account.limit.map(|limit| limit + 1);
        }
    }

    /// Records a refusal by the API. Returns the length of the pause, or `None` if the account was already paused for
    /// that long.
    pub(crate) fn record_rate_limit(
        &mut self,
        account: &str,
        retry_after: Option<Duration>,
        now: Instant,
    ) -> Option<Duration> {
        let account = self.accounts.entry(account.to_owned()).or_default();
        let known = account.closed_until.is_some_and(|until| until > now);
        if !known {
            account.refusals += 1;
            account.limit = Some((account.limit.unwrap_or(account.running).min(account.running) / 2).max(1));
        }
        let pause = retry_after
            .unwrap_or_else(|| INITIAL_PAUSE * 2_u32.saturating_pow(account.refusals - 1))
            .min(MAX_PAUSE);
        let until = now + pause;
        if account.closed_until.is_some_and(|already| already >= until) {
            return None;
        }
        account.closed_until = Some(until);
        Some(pause)
    }
}

/// Whether one more trial of an account may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartDelay {
    /// It may start now.
    None,
    /// It may start at this time.
    Until(Instant),
    /// It may start when another trial of the account has ended.
    UntilCompletion,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_running(running: usize) -> Governor {
        let mut governor = Governor::default();
        for _ in 0..running {
            governor.start("a");
        }
        governor
    }

    #[test]
    fn rate_limit_delays_all_trials_of_one_account_only() {
        let now = Instant::now();
        let mut governor = with_running(4);
        assert_eq!(
            governor.record_rate_limit("a", Some(Duration::from_secs(7)), now),
            Some(Duration::from_secs(7))
        );
        assert_eq!(governor.start_delay("a", now), StartDelay::Until(now + Duration::from_secs(7)));
        assert_eq!(governor.start_delay("b", now), StartDelay::None);
        assert!(governor.is_paused(now));
        // Refusals of other trials during the pause do not count again.
        for _ in 0..3 {
            assert_eq!(governor.record_rate_limit("a", Some(Duration::from_secs(6)), now), None);
        }
        let later = now + Duration::from_secs(8);
        assert!(!governor.is_paused(later));
        assert_eq!(governor.start_delay("a", later), StartDelay::UntilCompletion);
        for _ in 0..3 {
            governor.finish("a");
        }
        assert_eq!(governor.start_delay("a", later), StartDelay::None);
        governor.start("a");
        assert_eq!(governor.start_delay("a", later), StartDelay::UntilCompletion);
        governor.record_success("a");
        assert_eq!(governor.start_delay("a", later), StartDelay::None);
    }

    #[test]
    fn pause_without_retry_after_doubles_up_to_a_maximum() {
        let mut now = Instant::now();
        let mut governor = with_running(1);
        let mut pauses = Vec::new();
        for _ in 0..9 {
            let pause = governor.record_rate_limit("a", None, now).unwrap();
            pauses.push(pause.as_secs());
            now += pause;
        }
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 300, 300, 300]);
        governor.record_success("a");
        assert_eq!(governor.record_rate_limit("a", None, now), Some(INITIAL_PAUSE));
    }

    #[test]
    fn requested_pause_is_bounded() {
        let mut governor = with_running(1);
        let day = Duration::from_secs(86_400);
        assert_eq!(governor.record_rate_limit("a", Some(day), Instant::now()), Some(MAX_PAUSE));
    }
}
