//! Ends the wait of an agent that asks a dead or overloaded API for ever: "retrying, and nothing else for so long".
//!
//! An agent that says that it retries is told by that. One that retries without a word is told by its silence, for which
//! it gets three times as long, and only while none of its tools runs: a model may think for minutes.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use yb_claude::frame::SystemMessage;
use yb_claude::{Block, Message};

use super::reader::Retries;

/// How long an agent may try to reach its model without getting anywhere, unless somebody says otherwise.
pub const DEFAULT_PATIENCE: Duration = Duration::from_secs(60);
/// How many times as long silence is borne.
const SILENCE: u32 = 3;

/// How long an agent may take to leave that was told to.
const FAREWELL: Duration = Duration::from_secs(20);

/// Watches one execution.
#[derive(Debug)]
pub(super) struct Watchdog {
    patience: Duration,
    retries: Retries,
    /// When there was last something else than a retry, or the first of the retries that are all there was since.
    progress: Instant,
    retrying: bool,
    /// Calls that have not returned.
    running: BTreeSet<String>,
    done: bool,
    /// Until when it may stay that was told to go.
    leaves: Option<Instant>,
}

impl Watchdog {
    pub(super) fn new(patience: Duration, retries: Retries, now: Instant) -> Self {
        Self {
            patience,
            retries,
            progress: now,
            retrying: false,
            running: BTreeSet::new(),
            done: false,
            leaves: None,
        }
    }

    /// Takes a message into account.
    pub(super) fn observe(&mut self, message: &Message, now: Instant) {
        match message {
            Message::System(SystemMessage::ApiRetry(_)) => {
                // What came before, such as a slow start, was no retry.
                if !self.retrying {
                    self.progress = now;
                }
                self.retrying = true;
                return;
            }
            Message::Assistant(said) => {
                for block in &said.message.content {
                    if let Block::ToolUse(call) = block {
                        self.running.insert(call.id.clone());
                    }
                }
            }
            Message::User(told) => {
                for block in told.message.content.blocks() {
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

    /// A line that means nothing to us is a sign of life all the same, though not of an API that answers.
    pub(super) fn heard(&mut self, now: Instant) {
        if !self.retrying {
            self.progress = now;
        }
    }

    /// When patience ends, if nothing happens until then.
    pub(super) fn deadline(&self) -> Option<Instant> {
        if self.leaves.is_some() {
            return self.leaves;
        }
        if self.done || self.patience.is_zero() || self.retries == Retries::Bounded {
            return None;
        }
        let limit = if self.retrying && self.retries == Retries::Slowly {
            self.patience * SILENCE
        } else if self.retrying {
            self.patience
        } else if self.retries == Retries::Silently && self.running.is_empty() {
            self.patience * SILENCE
        } else {
            return None;
        };
        self.progress.checked_add(limit)
    }

    /// Watches no more: the agent is being ended.
    pub(super) fn rest(&mut self) {
        self.done = true;
        self.leaves = None;
    }

    /// The agent has said all that it was asked for, and may go.
    pub(super) fn dismiss(&mut self, now: Instant) {
        if !self.done || self.leaves.is_none() {
            self.leaves = now.checked_add(FAREWELL);
        }
    }

    /// Time that the agent was held does not count.
    pub(super) fn held(&mut self, now: Instant) {
        self.progress = now;
    }

    /// How long there was nothing but retries.
    pub(super) fn waited(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.progress)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::reader::{self, About, Failure, Finish, Kind};
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    fn at(dog: &Watchdog, began: Instant) -> Option<u64> {
        dog.deadline().map(|deadline| deadline.duration_since(began).as_secs())
    }

    #[test]
    fn retries_use_up_patience_and_anything_else_renews_it() {
        let began = Instant::now();
        let after = |seconds| began + Duration::from_secs(seconds);
        let retry = reader::retries(&Failure::kind(Kind::Network, "x"), 1).unwrap();
        let mut dog = Watchdog::new(PATIENCE, Retries::Aloud, began);
        assert_eq!(at(&dog, began), None);
        dog.observe(&retry, after(2));
        dog.observe(&retry, after(6));
        // A word that is no message changes nothing while it retries.
        dog.heard(after(7));
        assert_eq!(at(&dog, began), Some(12));
        dog.observe(&reader::said("Hello.", &About::default()).unwrap(), after(8));
        assert_eq!(at(&dog, began), None);
        dog.observe(&retry, after(9));
        assert_eq!(at(&dog, began), Some(19));
        dog.held(after(20));
        assert_eq!(at(&dog, began), Some(30));
        dog.observe(&reader::finished(&Finish::default()).unwrap(), after(21));
        assert_eq!(at(&dog, began), None);
    }

    #[test]
    fn silence_counts_for_who_retries_silently_and_while_no_tool_runs() {
        let began = Instant::now();
        let after = |seconds| began + Duration::from_secs(seconds);
        let mut dog = Watchdog::new(PATIENCE, Retries::Silently, began);
        assert_eq!(at(&dog, began), Some(30));
        dog.observe(&reader::called("c", "bash", &json!({}), &About::default()).unwrap(), after(5));
        assert_eq!(at(&dog, began), None);
        dog.observe(&reader::returned("c", "", false, &About::default()).unwrap(), after(40));
        assert_eq!(at(&dog, began), Some(70));
        assert_eq!(dog.waited(after(50)), Duration::from_secs(10));
        let mut slow = Watchdog::new(PATIENCE, Retries::Slowly, began);
        assert_eq!(slow.deadline(), None);
        slow.observe(&reader::retries(&Failure::kind(Kind::Network, "x"), 1).unwrap(), after(1));
        assert_eq!(at(&slow, began), Some(31));
        let mut bounded = Watchdog::new(PATIENCE, Retries::Bounded, began);
        bounded.observe(&reader::retries(&Failure::kind(Kind::Network, "x"), 1).unwrap(), began);
        assert_eq!(bounded.deadline(), None);
        assert_eq!(Watchdog::new(Duration::ZERO, Retries::Silently, began).deadline(), None);
    }
}
