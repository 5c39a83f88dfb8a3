//! The output of a provider.

/// An answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OutgoingMessage {
    /// The text.
    pub text: String,
    /// Metadata of the answer.
    pub metadata: MessageMetadata,
    /// The recipient; set by the caller.
    pub reply_target: Option<String>,
}

/// Metadata of an answer. Nothing is estimated: figures that were not reported are `None`.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct MessageMetadata {
    /// The name of the provider that answered.
    pub provider_used: String,
    /// The total tokens of this call: input, output and cache.
    pub tokens_used: Option<u64>,
    /// The duration of the call in milliseconds.
    pub processing_time_ms: u64,
    /// The model that answered.
    pub model: Option<String>,
    /// The session ID, for resuming it.
    pub session_id: Option<String>,
    /// The cost of this call in US dollars.
    pub cost_usd: Option<f64>,
    /// The cost of the session so far, including earlier calls.
    pub session_cost_usd: Option<f64>,
    /// The number of turns.
    pub turns: Option<u64>,
    /// Why the run stopped.
    pub stop_reason: StopReason,
    /// The number of continuations after the turn limit.
    pub continuations: u32,
}

/// Why a run stopped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopReason {
    /// The agent finished.
    #[default]
    Done,
    /// The turn limit was reached; the text is partial.
    MaxTurns,
    /// The budget was exhausted; the text is partial.
    MaxBudget,
    /// Another reason, as reported by the CLI.
    Other(String),
}
