//! What `budget` asserts: how much an agent may have used.

use std::time::Duration;

use super::{count, number};
use crate::time::milliseconds;
use yb_yaml::Node;

/// Limits for what an agent may use.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Budget {
    /// The most tokens read and written, without the cache.
    pub max_tokens: Option<u64>,
    /// The most tokens read at the full price.
    pub max_input_tokens: Option<u64>,
    /// The most tokens written.
    pub max_output_tokens: Option<u64>,
    /// The most that it may cost.
    pub max_cost_usd: Option<f64>,
    /// The longest that it may take.
    pub max_duration: Option<Duration>,
    /// The most turns.
    pub max_turns: Option<u64>,
}

pub(super) fn read(assertions: &Node) -> Budget {
    Budget {
        max_tokens: count(assertions, "max_tokens"),
        max_input_tokens: count(assertions, "max_input_tokens"),
        max_output_tokens: count(assertions, "max_output_tokens"),
        max_cost_usd: assertions.get("max_cost_usd").and_then(number),
        max_duration: assertions.get("max_duration").and_then(milliseconds).map(Duration::from_millis),
        max_turns: count(assertions, "max_turns"),
    }
}
