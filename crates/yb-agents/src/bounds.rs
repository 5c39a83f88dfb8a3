//! Bounds of what is kept in memory of an agent's output, all in one place. The file of frames has everything.
//!
//! They hold whatever an agent prints: each list keeps its first and its last items and counts the others, texts lose their ends, and
//! ids are remembered for a limited number of calls. See `docs/design/output.md`.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use yb_claude::frame::SummaryLimits;
use yb_supervise::{LineLimits, full_length, truncation_note};

/// The longest line that is read as it is. A longer one is shortened first.
pub(super) const LINE: usize = 256 << 10;
/// Files of frames from this size on are compressed.
pub(super) const COMPRESS_FROM: u64 = 1 << 20;
/// The most calls, answers and subagents whose ids are remembered.
pub(super) const IDS: usize = 4096;
/// The most warnings of one execution.
pub(super) const WARNINGS: usize = 100;
/// The longest warning.
const WARNING: usize = 4096;
/// The longest unfinished line of stderr.
pub(super) const STDERR_LINE: usize = 64 << 10;

/// What a log keeps of an agent's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// The most bytes of one message, and of the arguments of one tool call.
    pub message: usize,
    /// Messages: the first ones and the last ones, each up to this size in memory.
    pub messages: usize,
    /// Tool calls: the first ones and the last ones, each up to this size in memory.
    pub tool_calls: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { message: 256 << 10, messages: 3 << 20, tool_calls: 2 << 20 }
    }
}

impl Bounds {
    /// Limits of lines that are longer than [`LINE`].
    pub(super) fn line(&self) -> LineLimits {
        // Slightly more, so that the log counts what it keeps itself.
        LineLimits { string: self.message + 64, structure: 512 << 10, line: 4 << 20 }
    }

    pub(super) fn summary(&self) -> SummaryLimits {
        SummaryLimits { tools: self.tool_calls, results: 256 << 10, text: 1 << 20 }
    }
}

/// A text that arrives in pieces, of which the beginning is kept.
#[derive(Debug, Clone, Default)]
pub(super) struct OpenText {
    text: String,
    length: usize,
}

impl OpenText {
    pub(super) fn push(&mut self, piece: &str) {
        self.length += piece.len();
        let limit = Bounds::default().message + 64;
        let room = limit.saturating_sub(self.text.len());
        self.text.push_str(&piece[..piece.floor_char_boundary(room)]);
    }

    /// Takes the text, with a note about its length if its end is missing.
    pub(super) fn take(&mut self) -> String {
        let Self { mut text, length } = std::mem::take(self);
        if text.len() < length {
            text.push_str(&truncation_note(text.len(), length));
        }
        text
    }

    /// The kept beginning of the text.
    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// The beginning of a text, with a note about its length if its end is missing.
pub(super) fn shortened(text: &str, limit: usize) -> String {
    let length = full_length(text);
    let end = text.floor_char_boundary(limit);
    if end == text.len() {
        return text.to_owned();
    }
    format!("{}{}", &text[..end], truncation_note(end, length))
}

/// Adds a warning, unless there are too many.
pub(super) fn push_warning(warnings: &mut Vec<String>, warning: &str) {
    if warnings.len() < WARNINGS {
        warnings.push(shortened(warning, WARNING));
    } else if warnings.len() == WARNINGS {
        warnings.push("there were more warnings".to_owned());
    }
}

/// Values by id, for a limited number of ids: the oldest is forgotten first.
#[derive(Debug, Clone)]
pub(super) struct RecentMap<V> {
    limit: usize,
    /// By hash, because ids are of any length.
    values: HashMap<u64, V>,
    order: VecDeque<u64>,
}

impl<V> Default for RecentMap<V> {
    fn default() -> Self {
        Self::new(IDS)
    }
}

impl<V> RecentMap<V> {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, values: HashMap::new(), order: VecDeque::new() }
    }

    /// Sets a value. Returns the value that is forgotten for it, if another id's.
    pub(super) fn insert(&mut self, id: &str, value: V) -> Option<V> {
        let key = hash(id);
        if self.values.insert(key, value).is_some() {
            return None;
        }
        self.order.push_back(key);
        if self.order.len() > 2 * self.limit {
            let values = &self.values;
            self.order.retain(|key| values.contains_key(key));
        }
        while self.values.len() > self.limit {
            let oldest = self.order.pop_front()?;
            if let Some(value) = self.values.remove(&oldest) {
                return Some(value);
            }
        }
        None
    }

    pub(super) fn get(&self, id: &str) -> Option<&V> {
        self.values.get(&hash(id))
    }

    pub(super) fn get_mut(&mut self, id: &str) -> Option<&mut V> {
        self.values.get_mut(&hash(id))
    }

    pub(super) fn remove(&mut self, id: &str) -> Option<V> {
        self.values.remove(&hash(id))
    }

    pub(super) fn contains(&self, id: &str) -> bool {
        self.values.contains_key(&hash(id))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.values.values()
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
    fn recent_map_forgets_the_oldest_id() {
        let mut map = RecentMap::new(3);
        for number in 0..3 {
            assert_eq!(map.insert(&number.to_string(), number), None);
        }
        assert_eq!(map.insert("1", 10), None);
        assert_eq!(map.insert("3", 3), Some(0));
        assert!(!map.contains("0") && map.get("1") == Some(&10));
        for number in 0..1000 {
            map.remove(&number.to_string());
            map.insert(&(number + 4).to_string(), number);
        }
        assert!(map.values.len() <= 3 && map.order.len() <= 7);
    }

    #[test]
    fn open_text_keeps_its_beginning_and_its_length() {
        let mut text = OpenText::default();
        let piece = "é".repeat(1000);
        (0..1000).for_each(|_| text.push(&piece));
        let taken = text.take();
        assert!(taken.len() < Bounds::default().message + 200);
        assert_eq!(full_length(&taken), 2_000_000);
        assert!(text.as_str().is_empty() && full_length(&shortened(&taken, 100)) == 2_000_000);
    }
}
