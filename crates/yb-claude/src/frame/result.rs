//! The message that ends a turn, and what it counts.

use std::collections::BTreeMap;

use serde::de::Deserializer;

use super::lax::{Lax, lax_struct};
use super::raw::{RawJson, Source};

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ResultSubtype {
    /// The model finished; or an API error ended the turn, see [`ResultMessage::is_error`].
    Success,
    /// The turn was aborted, or never began.
    ErrorDuringExecution,
    /// The limit on turns was reached.
    ErrorMaxTurns,
    /// The limit on cost was reached.
    ErrorMaxBudgetUsd,
    /// The model never gave output that fits the schema.
    ErrorMaxStructuredOutputRetries,
    /// One that this version does not know.
    Other(String),
    /// The message has none.
    #[default]
    Missing,
}

impl ResultSubtype {
    /// The name that the CLI uses; `unknown` when the message has none.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Success => "success",
            Self::ErrorDuringExecution => "error_during_execution",
            Self::ErrorMaxTurns => "error_max_turns",
            Self::ErrorMaxBudgetUsd => "error_max_budget_usd",
            Self::ErrorMaxStructuredOutputRetries => "error_max_structured_output_retries",
            Self::Other(name) => name,
            Self::Missing => "unknown",
        }
    }
}

impl Lax for ResultSubtype {
    fn read<'de, D: Deserializer<'de>>(input: D, source: &Source) -> Result<Option<Self>, D::Error> {
        let known = [
            Self::Success,
            Self::ErrorDuringExecution,
            Self::ErrorMaxTurns,
            Self::ErrorMaxBudgetUsd,
            Self::ErrorMaxStructuredOutputRetries,
        ];
        let Some(name) = String::read(input, source)? else { return Ok(None) };
        Ok(Some(known.into_iter().find(|known| known.as_str() == name).unwrap_or(Self::Other(name))))
    }
}

lax_struct! {
    /// The end of one turn. A run may have several; the last one counts.
    pub struct ResultMessage {
        raw,
        /// How the turn ended.
        subtype: ResultSubtype = "subtype",
        /// Something failed. API errors come as `success` with this set; 2.0 does not set it at the turn limit.
        is_error: bool = "is_error",
        /// The answer, or the words of an API error; absent at every limit.
        result: Option<String> = "result",
        /// What went wrong.
        errors: Vec<String> = "errors",
        /// The HTTP status of the API, if it was reached.
        api_error_status: Option<u16> = "api_error_status",
        /// The API's name for its error, `rate_limit_error` for example.
        api_error_type: Option<String> = "api_error_type",
        /// The CLI's name for an error without a status, `connection_failed` for example.
        api_error: Option<String> = "api_error",
        /// Why the CLI stopped: `completed`, `max_turns`, `api_error`, `aborted_tools` and others.
        terminal_reason: Option<String> = "terminal_reason",
        /// Why the model stopped: `end_turn`, `tool_use` and others.
        stop_reason: Option<String> = "stop_reason",
        /// Why the CLI could not start.
        startup_failure_reason: Option<String> = "startup_failure_reason",
        /// How long the turn took.
        duration_ms: Option<u64> = "duration_ms",
        /// How much of it was spent waiting for the API.
        duration_api_ms: Option<u64> = "duration_api_ms",
        /// Until the first token came.
        ttft_ms: Option<u64> = "ttft_ms",
        /// One more than the number of messages with tool results; not the number of API calls.
        num_turns: Option<u64> = "num_turns",
        /// The session, to resume it.
        session_id: Option<String> = "session_id",
        /// The cost of the session so far, earlier runs of it included.
        total_cost_usd: Option<f64> = "total_cost_usd",
        /// The main loop of this turn, without subagents; all zero when the budget is exhausted.
        usage: Option<Usage> = "usage",
        /// The session so far, by model, subagents and earlier runs of it included.
        model_usage: Option<BTreeMap<String, ModelUsage>> = "modelUsage",
        /// What this turn added to `model_usage`; in streams of newer versions only.
        model_usage_since_last_result: Option<BTreeMap<String, ModelUsage>> = "model_usage_since_last_result",
        /// Tools that were not allowed.
        permission_denials: Vec<PermissionDenial> = "permission_denials",
        /// The answer in the shape that was asked for; may be absent after a success.
        structured_output: Option<RawJson> = "structured_output",
        /// A tool call that waits for its host.
        deferred_tool_use: Option<RawJson> = "deferred_tool_use",
        /// What started the turn, when it was not the user.
        origin: Option<Origin> = "origin",
        /// The number of this result within the run, from 0.
        result_index: Option<u64> = "result_index",
        /// Prompts that still wait.
        queued_turn_count: Option<u64> = "queued_turn_count",
        /// The command that the CLI ran itself, without the model.
        local_command: Option<String> = "local_command",
        /// The model; no version that was measured writes it here.
        model: Option<String> = "model",
        /// The message's own id.
        uuid: Option<String> = "uuid",
    }
}

lax_struct! {
    /// What started a turn.
    pub struct Origin {
        /// `task-notification` for example.
        kind: String = "kind",
        /// Who.
        producer: Option<String> = "producer",
    }
}

lax_struct! {
    /// Tokens as the API counts them.
    pub struct Usage {
        /// Read at the full price.
        input_tokens: u64 = "input_tokens",
        /// Written.
        output_tokens: u64 = "output_tokens",
        /// Written to the cache.
        cache_creation_input_tokens: u64 = "cache_creation_input_tokens",
        /// Read from the cache.
        cache_read_input_tokens: u64 = "cache_read_input_tokens",
        /// What was written to the cache, by how long it is kept; the sum is above.
        cache_creation: Option<CacheCreation> = "cache_creation",
        /// How the API treated the request.
        service_tier: Option<String> = "service_tier",
    }
}

lax_struct! {
    /// What was written to the cache, by how long it is kept: the longer, the dearer.
    pub struct CacheCreation {
        /// For five minutes.
        ephemeral_5m_input_tokens: u64 = "ephemeral_5m_input_tokens",
        /// For an hour.
        ephemeral_1h_input_tokens: u64 = "ephemeral_1h_input_tokens",
    }
}

lax_struct! {
    /// What one model used.
    pub struct ModelUsage {
        /// Read at the full price.
        input_tokens: u64 = "inputTokens",
        /// Written.
        output_tokens: u64 = "outputTokens",
        /// Read from the cache.
        cache_read_input_tokens: u64 = "cacheReadInputTokens",
        /// Written to the cache.
        cache_creation_input_tokens: u64 = "cacheCreationInputTokens",
        /// Thoughts among the output.
        thinking_tokens: Option<u64> = "thinkingTokens",
        /// Searches on the web.
        web_search_requests: u64 = "webSearchRequests",
        /// What it cost.
        cost_usd: Option<f64> = "costUSD",
        /// `list`, or `unknown` for a model that the CLI has no price for.
        cost_basis: Option<String> = "costBasis",
        /// How much fits into the model.
        context_window: Option<u64> = "contextWindow",
        /// How much it may write at once.
        max_output_tokens: Option<u64> = "maxOutputTokens",
        /// The model's plain name.
        canonical_model: Option<String> = "canonicalModel",
        /// Who runs the model.
        provider: Option<String> = "provider",
    }
}

lax_struct! {
    /// A tool that was not allowed.
    pub struct PermissionDenial {
        /// The tool.
        tool_name: String = "tool_name",
        /// The call.
        tool_use_id: String = "tool_use_id",
        /// Its arguments.
        tool_input: Option<RawJson> = "tool_input",
    }
}
