//! Detects an agent that only retries requests to an API that does not answer.
//!
//! An agent that reports its retries is detected by them. One that retries silently is detected by the absence of output, for which
//! it gets three times as long, and only while none of its tools runs: a model may think for minutes.

use std::time::{Duration, Instant};

use yb_claude::frame::SystemMessage;
use yb_claude::{Block, Message};

use super::bounds::RecentMap;
use super::reader::RetryBehavior;

/// The default time that an agent may only retry requests to its API.
pub const DEFAULT_PATIENCE: Duration = Duration::from_secs(60);
/// The factor by which the patience is longer without output.
const SILENT_FACTOR: u32 = 3;

/// The least time that an agent may need to start without output.
const START_PATIENCE: Duration = Duration::from_secs(60);

/// The time in which an agent that is done has to exit.
const EXIT_GRACE: Duration = Duration::from_secs(20);

/// Watches one execution.
#[derive(Debug)]
pub(super) struct Watchdog {
    patience: Duration,
    retries: RetryBehavior,
    /// The last event that was no retry, or the first retry after it.
    progress: Instant,
    retrying: bool,
    /// The agent has no prompt yet.
    starting: bool,
    /// Tool calls without a result.
    running: RecentMap<()>,
    done: bool,
    /// The deadline for the exit of an agent that is done.
    leaves: Option<Instant>,
}

impl Watchdog {
    pub(super) fn new(patience: Duration, retries: RetryBehavior, now: Instant) -> Self {
        Self {
            patience,
            retries,
            progress: now,
            retrying: false,
            starting: false,
            running: RecentMap::default(),
            done: false,
            leaves: None,
        }
    }

    /// Observes a message.
    pub(super) fn observe(&mut self, message: &Message, now: Instant) {
        match message {
            Message::System(SystemMessage::ApiRetry(_)) => {
                // The time before the first retry, such as a slow start, does not count.
                if !self.retrying {
                    self.progress = now;
                }
                self.retrying = true;
                return;
            }
            Message::Assistant(said) => {
                for block in &said.message.content {
                    if let Block::ToolUse(call) = block {
                        self.running.insert(&call.id, ());
                    }
                }
            }
            Message::User(user) => {
                for block in user.message.content.blocks() {
                    if let Block::ToolResult(result) = block {
                        self.running.remove(&result.tool_use_id);
                    }
                }
            }
            Message::Result(_) => self.done = true,
            _ => {}
        }
        self.retrying = false;
        self.progress = now;
    }

    /// Observes a line without a message: a sign of life of the agent, but not of the API.
    pub(super) fn output(&mut self, now: Instant) {
        if !self.retrying {
            self.progress = now;
        }
    }

    /// The time at which the agent is stopped if nothing happens until then.
    pub(super) fn deadline(&self) -> Option<Instant> {
        if self.leaves.is_some() {
            return self.leaves;
        }
        if self.done || self.patience.is_zero() || self.retries == RetryBehavior::Bounded {
            return None;
        }
        let limit = if self.retrying && self.retries == RetryBehavior::ReportedSlow {
            self.patience * SILENT_FACTOR
        } else if self.retrying {
            self.patience
        } else if self.retries == RetryBehavior::Silent && self.running.is_empty() {
            let patience = self.patience * SILENT_FACTOR;
            if self.starting { patience.max(START_PATIENCE) } else { patience }
        } else {
            return None;
        };
        self.progress.checked_add(limit)
    }

    /// Sets whether the agent is starting: it can't have called its API without a prompt.
    pub(super) fn set_starting(&mut self, starting: bool) {
        self.starting = starting;
    }

    /// Stops watching: the agent is being stopped.
    pub(super) fn stop(&mut self) {
        self.done = true;
        self.leaves = None;
    }

    /// Starts the deadline for the exit of an agent that is done.
    pub(super) fn dismiss(&mut self, now: Instant) {
        if !self.done || self.leaves.is_none() {
            self.leaves = now.checked_add(EXIT_GRACE);
        }
    }

    /// Excludes the time in which the agent was suspended.
    pub(super) fn suspended(&mut self, now: Instant) {
        self.progress = now;
    }

    /// The time since the last progress.
    pub(super) fn waited(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.progress)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::reader::{self, Failure, FailureKind, MessageContext, RunEnd};
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    fn at(dog: &Watchdog, began: Instant) -> Option<u64> {
        dog.deadline().map(|deadline| deadline.duration_since(began).as_secs())
    }

    #[test]
    fn retries_consume_the_retry_budget_and_other_messages_reset_it() {
        let began = Instant::now();
        let after = |seconds| began + Duration::from_secs(seconds);
        let retry = reader::api_retry(&Failure::kind(FailureKind::Network, "x"), 1).unwrap();
        let mut dog = Watchdog::new(PATIENCE, RetryBehavior::Reported, began);
        assert_eq!(at(&dog, began), None);
        dog.observe(&retry, after(2));
        dog.observe(&retry, after(6));
        // A line without a message changes nothing while the agent retries.
        dog.output(after(7));
        assert_eq!(at(&dog, began), Some(12));
        dog.observe(&reader::assistant_text("Hello.", &MessageContext::default()).unwrap(), after(8));
        assert_eq!(at(&dog, began), None);
        dog.observe(&retry, after(9));
        assert_eq!(at(&dog, began), Some(19));
        dog.suspended(after(20));
        assert_eq!(at(&dog, began), Some(30));
        dog.observe(&reader::run_result(&RunEnd::default()).unwrap(), after(21));
        assert_eq!(at(&dog, began), None);
    }

    #[test]
    fn silence_counts_only_for_silent_retries_without_a_running_tool() {
        let began = Instant::now();
        let after = |seconds| began + Duration::from_secs(seconds);
        let mut dog = Watchdog::new(PATIENCE, RetryBehavior::Silent, began);
        assert_eq!(at(&dog, began), Some(30));
        dog.set_starting(true);
        assert_eq!(at(&dog, began), Some(START_PATIENCE.as_secs()));
        dog.set_starting(false);
        dog.observe(
            &reader::tool_call("c", "bash", &json!({}), &MessageContext::default()).unwrap(),
            after(5),
        );
        assert_eq!(at(&dog, began), None);
        dog.observe(&reader::tool_result("c", "", false, &MessageContext::default()).unwrap(), after(40));
        assert_eq!(at(&dog, began), Some(70));
        assert_eq!(dog.waited(after(50)), Duration::from_secs(10));
        let mut slow = Watchdog::new(PATIENCE, RetryBehavior::ReportedSlow, began);
        assert_eq!(slow.deadline(), None);
        slow.observe(&reader::api_retry(&Failure::kind(FailureKind::Network, "x"), 1).unwrap(), after(1));
        assert_eq!(at(&slow, began), Some(31));
        let mut bounded = Watchdog::new(PATIENCE, RetryBehavior::Bounded, began);
        bounded.observe(&reader::api_retry(&Failure::kind(FailureKind::Network, "x"), 1).unwrap(), began);
        assert_eq!(bounded.deadline(), None);
        assert_eq!(Watchdog::new(Duration::ZERO, RetryBehavior::Silent, began).deadline(), None);
    }
}
