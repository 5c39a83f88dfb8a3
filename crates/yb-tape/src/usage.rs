//! Token usage read from the traffic itself, as opposed to usage reported by the agent.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::sse;

/// The tokens of one exchange, or of many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TokenUsage {
    /// Input tokens, neither read from nor written to a cache.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Input tokens read from a cache.
    #[serde(default)]
    pub cache_read: u64,
    /// Input tokens written to a cache.
    #[serde(default)]
    pub cache_write: u64,
    /// The part of `cache_write` with a lifetime of one hour.
    #[serde(default)]
    pub cache_write_1h: u64,
}

impl TokenUsage {
    /// Adds another usage to this one.
    pub fn add(&mut self, other: &Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
        self.cache_write_1h = self.cache_write_1h.saturating_add(other.cache_write_1h);
    }
}

/// Requests and tokens of the observed traffic.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObservedUsage {
    /// Number of exchanges, including failed ones.
    pub exchanges: u64,
    /// Token usage by model.
    pub models: BTreeMap<String, TokenUsage>,
}

impl ObservedUsage {
    /// Returns the usage that one response reports.
    #[must_use]
    pub fn of_response(body: &[u8]) -> Self {
        let mut observed = Self::default();
        observed.count(extract_usage(body).as_ref());
        observed
    }

    /// Returns the token usage of all models together.
    #[must_use]
    pub fn total(&self) -> TokenUsage {
        let mut total = TokenUsage::default();
        self.models.values().for_each(|usage| total.add(usage));
        total
    }

    pub(crate) fn count(&mut self, response: Option<&ResponseUsage>) {
        self.exchanges += 1;
        if let Some(response) = response {
            self.models.entry(response.model.clone()).or_default().add(&response.usage);
        }
    }
}

/// Model and token usage that a response reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResponseUsage {
    pub(crate) model: String,
    pub(crate) usage: TokenUsage,
}

/// Extracts model and usage from a response of any supported API; in a stream, later values replace earlier ones.
pub(crate) fn extract_usage(body: &[u8]) -> Option<ResponseUsage> {
    let mut model = None;
    let mut usage = None;
    if let Ok(whole) = serde_json::from_slice::<Value>(body) {
        // Gemini streams a JSON array unless the client requests events.
        for value in whole.as_array().map_or(std::slice::from_ref(&whole), Vec::as_slice) {
            read_fields(value, &mut model, &mut usage);
        }
    } else {
        for event in sse::split_events(body) {
            // Skip parsing most deltas, which have no usage.
            let Some(data) = event.data().filter(|data| data.contains("sage")) else { continue };
            if let Ok(value) = serde_json::from_str(&data) {
                read_fields(&value, &mut model, &mut usage);
            }
        }
    }
    Some(ResponseUsage { model: model.unwrap_or_else(|| "unknown".to_owned()), usage: usage? })
}

fn read_fields(value: &Value, model: &mut Option<String>, usage: &mut Option<TokenUsage>) {
    // Messages: the message itself or `message_start`; Responses: `response.completed`.
    let holders = [Some(value), value.get("message"), value.get("response")];
    for holder in holders.into_iter().flatten() {
        let named = ["model", "modelVersion"].iter().find_map(|key| holder.get(key)?.as_str());
        if let Some(name) = named {
            *model = Some(name.to_owned());
        }
        let found =
            ["usage", "usageMetadata"].iter().find_map(|key| holder.get(key)).filter(|u| u.is_object());
        if let Some(found) = found {
            *usage = Some(read_usage(found, usage.unwrap_or_default()));
        }
    }
}

/// Reads the usage fields; a missing field keeps its previous value.
fn read_usage(from: &Value, before: TokenUsage) -> TokenUsage {
    let number = |pointers: &[&str]| pointers.iter().find_map(|pointer| from.pointer(pointer)?.as_u64());
    // OpenAI and Gemini include cached tokens in the input.
    let cached = number(&[
        "/input_tokens_details/cached_tokens",
        "/prompt_tokens_details/cached_tokens",
        "/cachedContentTokenCount",
    ]);
    let input = number(&["/input_tokens", "/prompt_tokens", "/promptTokenCount"]);
    let thoughts = number(&["/thoughtsTokenCount"]).unwrap_or(0);
    TokenUsage {
        input: input.map_or(before.input, |input| input.saturating_sub(cached.unwrap_or(0))),
        output: number(&["/output_tokens", "/completion_tokens", "/candidatesTokenCount"])
            .map_or(before.output, |output| output.saturating_add(thoughts)),
        cache_read: cached.or_else(|| number(&["/cache_read_input_tokens"])).unwrap_or(before.cache_read),
        cache_write: number(&["/cache_creation_input_tokens"]).unwrap_or(before.cache_write),
        cache_write_1h: number(&["/cache_creation/ephemeral_1h_input_tokens"])
            .unwrap_or(before.cache_write_1h),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &str, model: &str, numbers: [u64; 5]) {
        let found = extract_usage(body.as_bytes()).unwrap();
        let usage = found.usage;
        assert_eq!(found.model, model);
        let found = [usage.input, usage.output, usage.cache_read, usage.cache_write, usage.cache_write_1h];
        assert_eq!(found, numbers, "{body}");
    }

    #[test]
    fn extract_usage_supports_every_api() {
        check(
            "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"m\",\"usage\":{\"input_tokens\":7,\"output_tokens\":1,\"cache_read_input_tokens\":3,\"cache_creation_input_tokens\":4,\"cache_creation\":{\"ephemeral_1h_input_tokens\":2}}}}\n\n\
             event: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":20}}\n\n",
            "m",
            [7, 20, 3, 4, 2],
        );
        check(r#"{"model":"m","usage":{"input_tokens":1,"output_tokens":2}}"#, "m", [1, 2, 0, 0, 0]);
        check(
            "data: {\"type\":\"response.completed\",\"response\":{\"model\":\"g\",\"usage\":{\"input_tokens\":10,\"input_tokens_details\":{\"cached_tokens\":4},\"output_tokens\":5}}}\n\n",
            "g",
            [6, 5, 4, 0, 0],
        );
        check(
            "data: {\"model\":\"c\",\"choices\":[]}\n\ndata: {\"model\":\"c\",\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}}\n\ndata: [DONE]\n\n",
            "c",
            [3, 4, 0, 0, 0],
        );
        check(
            r#"[{"modelVersion":"x","usageMetadata":{"promptTokenCount":9,"cachedContentTokenCount":2,"candidatesTokenCount":1,"thoughtsTokenCount":5}}]"#,
            "x",
            [7, 6, 2, 0, 0],
        );
        assert_eq!(extract_usage(b"not a response"), None);
    }
}
