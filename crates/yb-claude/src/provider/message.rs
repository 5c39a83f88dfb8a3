//! What a provider answers.

/// An answer, ready to be sent to whoever asked.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OutgoingMessage {
    /// The text.
    pub text: String,
    /// How it came about.
    pub metadata: MessageMetadata,
    /// Where it goes; set by whoever routes it.
    pub reply_target: Option<String>,
}

/// How an answer came about. Nothing here is estimated: what was not reported is `None`.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct MessageMetadata {
    /// Who answered.
    pub provider_used: String,
    /// All tokens of this call: input, output and cache.
    pub tokens_used: Option<u64>,
    /// From the question to the answer, in milliseconds.
    pub processing_time_ms: u64,
    /// The model that answered.
    pub model: Option<String>,
    /// The session, for going on with it.
    pub session_id: Option<String>,
    /// What this call cost, in US dollars.
    pub cost_usd: Option<f64>,
    /// What the whole session has cost so far, earlier calls included.
    pub session_cost_usd: Option<f64>,
    /// How many turns the agent took.
    pub turns: Option<u64>,
    /// Why the answer ends where it does.
    pub stop: Stop,
    /// How often the agent was asked to go on after it had reached its limit of turns.
    pub continuations: u32,
}

/// Why an answer ends where it does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stop {
    /// The agent was done.
    #[default]
    Done,
    /// It reached its limit of turns; the text is what it had said by then.
    MaxTurns,
    /// It reached its budget; the text is what it had said by then.
    MaxBudget,
    /// It ended for another reason, in its own words.
    Other(String),
}
