//! What is known of an agent while it runs.

use std::time::Duration;

use yb_supervise::TreeRecord;

/// What is known of a running agent; each is a snapshot.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Live {
    /// Answers of its model so far.
    pub turns: u32,
    /// What it did last.
    pub last_tool: Option<String>,
    /// What it cost so far, without its subagents.
    pub agent_usd: Option<f64>,
    /// What its subagents cost so far.
    pub subagents_usd: Option<f64>,
    /// Tokens that went in.
    pub input_tokens: u64,
    /// Tokens that came out.
    pub output_tokens: u64,
    /// The API refused its last call, which will be tried again.
    pub api_retry: Option<ApiRetry>,
}

/// A call that the API refused.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ApiRetry {
    /// The HTTP status.
    pub status: Option<u16>,
    /// How long to wait, if it said.
    pub retry_after: Option<Duration>,
}

/// Looks on while an agent runs.
pub trait Observer: std::fmt::Debug + Send + Sync {
    /// Its processes exist.
    fn started(&self, record: TreeRecord) {
        let _ = record;
    }

    /// More is known of it.
    fn changed(&self, live: &Live) {
        let _ = live;
    }
}
