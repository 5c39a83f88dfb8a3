//! The result message, which ends a turn, and its usage figures.

use std::collections::BTreeMap;

use serde::de::Deserializer;

use super::lenient::{LenientDeserialize, lenient_struct};
use super::raw::{RawJson, SourceText};

/// The subtype of a [`ResultMessage`]: how the turn ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ResultSubtype {
    /// The model finished, or an API error ended the turn: see [`ResultMessage::is_error`].
    Success,
    /// The turn was aborted, or never started.
    ErrorDuringExecution,
    /// The turn limit was reached.
    ErrorMaxTurns,
    /// The budget was exhausted.
    ErrorMaxBudgetUsd,
    /// The model did not produce output that matches the schema.
    ErrorMaxStructuredOutputRetries,
    /// A subtype that this version does not know.
    Other(String),
    /// The message has no subtype.
    #[default]
    Missing,
}

impl ResultSubtype {
    /// Returns the name used by the CLI; `unknown` if the message has none.
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

impl LenientDeserialize for ResultSubtype {
    fn read<'de, D: Deserializer<'de>>(input: D, source: &SourceText) -> Result<Option<Self>, D::Error> {
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

lenient_struct! {
    /// The end of one turn. A run may have several results; the last one counts.
    pub struct ResultMessage {
        raw,
        /// How the turn ended.
        subtype: ResultSubtype = "subtype",
        /// Whether the turn failed. API errors are reported as `success` with this set; 2.0 does not set it at the turn limit.
        is_error: bool = "is_error",
        /// The final text, or an API error message; absent if a limit was reached.
        result: Option<String> = "result",
        /// The error messages.
        errors: Vec<String> = "errors",
        /// The HTTP status, if the API responded.
        api_error_status: Option<u16> = "api_error_status",
        /// The API's error type, such as `rate_limit_error`.
        api_error_type: Option<String> = "api_error_type",
        /// The CLI's name for an error without HTTP status, such as `connection_failed`.
        api_error: Option<String> = "api_error",
        /// Why the CLI stopped: `completed`, `max_turns`, `api_error`, `aborted_tools` and others.
        terminal_reason: Option<String> = "terminal_reason",
        /// Why the model stopped: `end_turn`, `tool_use` and others.
        stop_reason: Option<String> = "stop_reason",
        /// Why the CLI could not start.
        startup_failure_reason: Option<String> = "startup_failure_reason",
        /// The duration of the turn in milliseconds.
        duration_ms: Option<u64> = "duration_ms",
        /// The time spent waiting for the API, in milliseconds.
        duration_api_ms: Option<u64> = "duration_api_ms",
        /// The time to the first token, in milliseconds.
        ttft_ms: Option<u64> = "ttft_ms",
        /// One more than the number of messages with tool results; not the number of API requests.
        num_turns: Option<u64> = "num_turns",
        /// The session ID, for resuming it.
        session_id: Option<String> = "session_id",
        /// The cost of the session so far, including earlier runs.
        total_cost_usd: Option<f64> = "total_cost_usd",
        /// The usage of the main thread in this turn, without subagents; all zero when the budget is exhausted.
        usage: Option<Usage> = "usage",
        /// The usage of the session so far by model, including subagents and earlier runs.
        model_usage: Option<BTreeMap<String, ModelUsage>> = "modelUsage",
        /// The part of `model_usage` that this turn added; only in streams of newer versions.
        model_usage_since_last_result: Option<BTreeMap<String, ModelUsage>> = "model_usage_since_last_result",
        /// Denied tool calls.
        permission_denials: Vec<PermissionDenial> = "permission_denials",
        /// The structured output; may be absent after a success.
        structured_output: Option<RawJson> = "structured_output",
        /// A tool call that was deferred to the host.
        deferred_tool_use: Option<RawJson> = "deferred_tool_use",
        /// The origin of the turn, if it was not the user.
        origin: Option<TurnOrigin> = "origin",
        /// The index of this result within the run, from 0.
        result_index: Option<u64> = "result_index",
        /// The number of queued prompts.
        queued_turn_count: Option<u64> = "queued_turn_count",
        /// The command that the CLI executed without the model.
        local_command: Option<String> = "local_command",
        /// The model; not set by any measured version.
        model: Option<String> = "model",
        /// The message's UUID.
        uuid: Option<String> = "uuid",
    }
}

lenient_struct! {
    /// The origin of a turn.
    pub struct TurnOrigin {
        /// The kind, such as `task-notification`.
        kind: String = "kind",
        /// The producer.
        producer: Option<String> = "producer",
    }
}

lenient_struct! {
    /// Token counts as reported by the API.
    pub struct Usage {
        /// Uncached input tokens.
        input_tokens: u64 = "input_tokens",
        /// Output tokens.
        output_tokens: u64 = "output_tokens",
        /// Input tokens written to the cache.
        cache_creation_input_tokens: u64 = "cache_creation_input_tokens",
        /// Input tokens read from the cache.
        cache_read_input_tokens: u64 = "cache_read_input_tokens",
        /// The tokens written to the cache, by lifetime.
        cache_creation: Option<CacheCreation> = "cache_creation",
        /// The service tier.
        service_tier: Option<String> = "service_tier",
    }
}

lenient_struct! {
    /// Tokens written to the cache, by lifetime.
    pub struct CacheCreation {
        /// Tokens with a lifetime of five minutes.
        ephemeral_5m_input_tokens: u64 = "ephemeral_5m_input_tokens",
        /// Tokens with a lifetime of one hour.
        ephemeral_1h_input_tokens: u64 = "ephemeral_1h_input_tokens",
    }
}

lenient_struct! {
    /// The usage of one model.
    pub struct ModelUsage {
        /// Uncached input tokens.
        input_tokens: u64 = "inputTokens",
        /// Output tokens.
        output_tokens: u64 = "outputTokens",
        /// Input tokens read from the cache.
        cache_read_input_tokens: u64 = "cacheReadInputTokens",
        /// Input tokens written to the cache.
        cache_creation_input_tokens: u64 = "cacheCreationInputTokens",
        /// Thinking tokens among the output tokens.
        thinking_tokens: Option<u64> = "thinkingTokens",
        /// The number of web searches.
        web_search_requests: u64 = "webSearchRequests",
        /// The cost in US dollars.
        cost_usd: Option<f64> = "costUSD",
        /// `list`, or `unknown` for a model without a known price.
        cost_basis: Option<String> = "costBasis",
        /// The size of the context window in tokens.
        context_window: Option<u64> = "contextWindow",
        /// The maximum number of output tokens.
        max_output_tokens: Option<u64> = "maxOutputTokens",
        /// The canonical model name.
        canonical_model: Option<String> = "canonicalModel",
        /// The provider.
        provider: Option<String> = "provider",
    }
}

lenient_struct! {
    /// A denied tool call.
    pub struct PermissionDenial {
        /// The tool's name.
        tool_name: String = "tool_name",
        /// The tool call's ID.
        tool_use_id: String = "tool_use_id",
        /// The arguments.
        tool_input: Option<RawJson> = "tool_input",
    }
}
