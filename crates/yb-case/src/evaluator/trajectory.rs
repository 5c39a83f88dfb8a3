//! What `trajectory` asserts: which tools an agent called, how often, and in which order.

use super::{count, texts};
use yb_yaml::Node;

/// What an agent's way must be like.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Trajectory {
    /// Tools that must have been called.
    pub tools_used: Vec<String>,
    /// Tools that must not have been called.
    pub tools_forbidden: Vec<String>,
    /// Tools that must have been called in this order; others may stand between.
    pub order: Vec<String>,
    /// How often a tool may be called.
    pub counts: Vec<(String, CallCount)>,
    /// The most calls of tools.
    pub max_tool_calls: Option<u64>,
    /// The most calls that failed.
    pub max_failed_calls: Option<u64>,
    /// The most calls that an earlier one equals.
    pub max_repeated_calls: Option<u64>,
    /// The most calls that were not allowed.
    pub max_denials: Option<u64>,
    /// The most turns.
    pub max_turns: Option<u64>,
}

/// How often a tool may be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CallCount {
    /// At least so often.
    pub min: Option<u64>,
    /// At most so often.
    pub max: Option<u64>,
}

pub(super) fn read(assertions: &Node) -> Trajectory {
    let counts = assertions.get("counts").map(Node::entries).unwrap_or_default();
    Trajectory {
        tools_used: texts(assertions.get("tools_used")),
        tools_forbidden: texts(assertions.get("tools_forbidden")),
        order: texts(assertions.get("order")),
        counts: counts
            .iter()
            .map(|entry| {
                let range = CallCount { min: count(&entry.node, "min"), max: count(&entry.node, "max") };
                (entry.key.name.clone(), range)
            })
            .collect(),
        max_tool_calls: count(assertions, "max_tool_calls"),
        max_failed_calls: count(assertions, "max_failed_calls"),
        max_repeated_calls: count(assertions, "max_repeated_calls"),
        max_denials: count(assertions, "max_denials"),
        max_turns: count(assertions, "max_turns"),
    }
}
