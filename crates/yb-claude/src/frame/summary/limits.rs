//! Bounds of a summary: whatever the CLI prints, a summary has a limited size and exact counts.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::frame::result::PermissionDenial;

/// The most denials that are kept.
const DENIALS: usize = 1024;
/// The most bytes of their arguments.
const DENIED_BYTES: usize = 1 << 20;
/// The most denied calls whose repetition is recognized.
const DENIED_IDS: usize = 1 << 16;

/// The most bytes that a [`RunSummary`](super::RunSummary) keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SummaryLimits {
    /// Tool calls: the first ones and the last ones, each up to this size.
    pub tools: usize,
    /// Results: the first ones and the last ones, each up to this size.
    pub results: usize,
    /// The partial text.
    pub text: usize,
}

impl Default for SummaryLimits {
    fn default() -> Self {
        Self { tools: 64 << 20, results: 16 << 20, text: 64 << 20 }
    }
}

/// The denied tool calls.
#[derive(Debug, Clone, Default)]
pub(super) struct Denials {
    first: Vec<PermissionDenial>,
    /// Hashes of their ids: a denial is reported when it happens, and again in the result.
    ids: HashSet<u64>,
    bytes: usize,
    count: u64,
}

impl Denials {
    pub(super) fn add(&mut self, denial: &PermissionDenial) {
        let id = &denial.tool_use_id;
        if !id.is_empty() {
            let mut hasher = DefaultHasher::new();
            id.hash(&mut hasher);
            let hash = hasher.finish();
            if self.ids.contains(&hash) {
                if denial.tool_input.is_some()
                    && let Some(at) = self.first.iter().position(|known| known.tool_use_id == *id)
                    && let Some(detached) = self.detached(denial)
                {
                    self.first[at] = detached;
                }
                return;
            }
            if self.ids.len() < DENIED_IDS {
                self.ids.insert(hash);
            }
        }
        self.count += 1;
        if self.first.len() < DENIALS
            && let Some(detached) = self.detached(denial)
        {
            self.first.push(detached);
        }
    }

    /// Copies a denial, so that it does not keep its message in memory; `None` if there is no room for it.
    fn detached(&mut self, denial: &PermissionDenial) -> Option<PermissionDenial> {
        let input = denial.tool_input.as_ref();
        let size =
            input.map_or(0, |input| input.as_str().len()) + denial.tool_name.len() + denial.tool_use_id.len();
        if self.bytes + size > DENIED_BYTES {
            return None;
        }
        self.bytes += size;
        let mut copy = denial.clone();
        copy.tool_input = input.map(crate::frame::raw::RawJson::detached);
        Some(copy)
    }

    pub(super) fn first(&self) -> &[PermissionDenial] {
        &self.first
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }
}
