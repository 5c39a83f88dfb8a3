//! The recorded order of requests: conversations side by side are kept in step with each other.

use crate::matching::dialogue::Api;
use crate::tape::Tape;

/// Which exchanges were asked for.
#[derive(Debug)]
pub(super) struct Order {
    /// What no conversation depends on counts as asked from the beginning.
    asked: Vec<bool>,
    /// The first that was not.
    next: usize,
    is_kept: bool,
}

impl Order {
    /// Only exchanges with a number below `before` are waited for.
    pub(super) fn new(tape: &Tape, before: u64) -> Self {
        let asked = tape.exchanges().iter().map(|exchange| {
            exchange.api.is_none_or(|api| api == Api::CountTokens)
                || exchange.dialogue.is_none()
                || exchange.number() >= before
        });
        let mut order = Self { asked: asked.collect(), next: 0, is_kept: true };
        order.advance();
        order
    }

    pub(super) fn ask(&mut self, index: usize) {
        self.asked[index] = true;
        self.advance();
    }

    /// Whether everything before it was asked for, or nobody cares any more.
    pub(super) fn is_due(&self, index: usize) -> bool {
        !self.is_kept || self.next > index
    }

    /// No longer waits for anything; says whether it did until now.
    pub(super) fn give_up(&mut self) -> bool {
        std::mem::replace(&mut self.is_kept, false)
    }

    fn advance(&mut self) {
        while self.asked.get(self.next) == Some(&true) {
            self.next += 1;
        }
    }
}
