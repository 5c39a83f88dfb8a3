//! Bounds of a span tree: an agent may print any number of calls, subagents and ids.

use std::collections::{HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// The most open spans of tool calls, and of subagents. Further ones are counted and have no span.
pub(super) const OPEN_SPANS: usize = 1024;
/// The same if content is recorded.
pub(super) const OPEN_SPANS_WITH_CONTENT: usize = 128;
/// The most subagents.
pub(super) const SUBAGENTS: usize = 4096;
/// The most ids of each kind that are remembered.
pub(super) const IDS: usize = 8192;
/// The most models whose usage is compared with the totals.
pub(super) const MODELS: usize = 256;
/// The most bytes of content that wait for their spans.
pub(super) const WAITING_CONTENT: usize = 8 << 20;
/// The longest arguments of a tool call in a span.
pub(super) const ARGUMENTS: usize = 64 << 10;

/// Ids that were seen; the oldest is forgotten first.
#[derive(Debug, Default)]
pub(super) struct KnownIds {
    /// Hashes, because ids are of any length.
    ids: HashSet<u64>,
    order: VecDeque<u64>,
}

impl KnownIds {
    pub(super) fn insert(&mut self, id: &str) {
        let hash = hash(id);
        if !self.ids.insert(hash) {
            return;
        }
        self.order.push_back(hash);
        if self.order.len() > IDS
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
    }

    pub(super) fn contains(&self, id: &str) -> bool {
        self.ids.contains(&hash(id))
    }

    /// Forgets an id. Returns whether it was known.
    pub(super) fn remove(&mut self, id: &str) -> bool {
        let hash = hash(id);
        let known = self.ids.remove(&hash);
        if known {
            self.order.retain(|other| *other != hash);
        }
        known
    }
}

fn hash(id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_ids_are_limited_and_the_last_ones_kept() {
        let mut known = KnownIds::default();
        for number in 0..3 * IDS {
            known.insert(&number.to_string());
        }
        assert!(!known.contains("0") && known.contains(&(3 * IDS - 1).to_string()));
        assert_eq!((known.ids.len(), known.order.len()), (IDS, IDS));
        assert!(known.remove(&(3 * IDS - 1).to_string()) && !known.remove("0"));
    }
}
