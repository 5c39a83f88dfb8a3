//! Enforces the recorded order of requests across parallel conversations.

use crate::matching::dialogue::Api;
use crate::tape::Tape;

/// Tracks which exchanges were requested.
#[derive(Debug)]
pub(super) struct RequestOrder {
    /// Whether each exchange was requested. Exchanges outside of conversations always count as requested.
    requested: Vec<bool>,
    /// Index of the first exchange that was not requested.
    next: usize,
    is_enforced: bool,
}

impl RequestOrder {
    /// Tracks the exchanges with a number below `before`.
    pub(super) fn new(tape: &Tape, before: u64) -> Self {
        let requested = tape.exchanges().iter().map(|exchange| {
            exchange.api.is_none_or(|api| api == Api::CountTokens)
                || exchange.dialogue.is_none()
                || exchange.number() >= before
        });
        let mut order = Self { requested: requested.collect(), next: 0, is_enforced: true };
        order.advance();
        order
    }

    pub(super) fn set_requested(&mut self, index: usize) {
        self.requested[index] = true;
        self.advance();
    }

    /// Returns whether all earlier exchanges were requested, or the order is no longer enforced.
    pub(super) fn is_due(&self, index: usize) -> bool {
        !self.is_enforced || self.next > index
    }

    /// Stops enforcing the order; returns whether it was enforced until now.
    pub(super) fn give_up(&mut self) -> bool {
        std::mem::replace(&mut self.is_enforced, false)
    }

    fn advance(&mut self) {
        while self.requested.get(self.next) == Some(&true) {
            self.next += 1;
        }
    }
}
