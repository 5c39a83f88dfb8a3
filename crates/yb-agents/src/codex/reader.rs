//! From the events of `codex exec --json` to messages.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use yb_claude::Message;

use super::super::reader::{
    self, About, Failure, Finish, Kind, Reader, Used, called, event, finished, retries, returned, said,
};

/// How it begins to say that it tries again.
const RETRY: &str = "Reconnecting...";

/// Follows one execution.
#[derive(Debug, Default)]
pub(super) struct CodexReader {
    /// As it was asked for; the events name none.
    model: Option<String>,
    /// Calls that were told of.
    calls: BTreeSet<String>,
    /// What was said last.
    last: String,
    attempts: u64,
    warnings: Vec<String>,
}

impl CodexReader {
    pub(super) fn new(model: Option<String>) -> Self {
        Self { model, ..Self::default() }
    }

    fn item(&mut self, item: &Map<String, Value>, completed: bool) -> Vec<Message> {
        let text = |key: &str| item.get(key).and_then(Value::as_str).unwrap_or_default();
        let id = text("id");
        let whole = About::default();
        match text("type") {
            "agent_message" if completed => {
                self.last = text("text").to_owned();
                said(&self.last, &whole).into_iter().collect()
            }
            "error" => {
                self.warnings.push(text("message").to_owned());
                Vec::new()
            }
            kind => {
                let Some((name, arguments)) = tool(kind, item) else { return Vec::new() };
                let mut messages = Vec::new();
                if self.calls.insert(id.to_owned()) {
                    messages.extend(called(id, &name, &arguments, &whole));
                }
                if completed {
                    let failed = text("status") == "failed" || !item.get("error").is_none_or(Value::is_null);
                    messages.extend(returned(id, &output(item), failed, &whole));
                }
                messages
            }
        }
    }

    fn finish(finish: &Finish) -> Vec<Message> {
        finished(finish).into_iter().collect()
    }
}

impl Reader for CodexReader {
    fn line(&mut self, line: &[u8]) -> Result<Vec<Message>, String> {
        let Some(event) = event(line)? else { return Ok(Vec::new()) };
        let text = |key: &str| event.get(key).and_then(Value::as_str).unwrap_or_default();
        let item = || event.get("item").and_then(Value::as_object);
        Ok(match text("type") {
            "thread.started" => reader::began(Some(text("thread_id")), None).into_iter().collect(),
            "item.started" => item().map(|item| self.item(item, false)).unwrap_or_default(),
            "item.completed" => item().map(|item| self.item(item, true)).unwrap_or_default(),
            "error" if text("message").starts_with(RETRY) => {
                self.attempts += 1;
                let why = text("message").split_once('(').map_or(text("message"), |(_, why)| why);
                retries(&failure(why.trim_end_matches(')')), self.attempts).into_iter().collect()
            }
            "turn.completed" => {
                let used = event.get("usage").and_then(Value::as_object).map(used);
                let by_model = self.model.clone().zip(used).into_iter().collect();
                Self::finish(&Finish { text: self.last.clone(), used, by_model, ..Finish::default() })
            }
            "turn.failed" => {
                let message = event.get("error").and_then(|error| error.get("message")?.as_str());
                Self::finish(&Finish {
                    failure: Some(failure(message.unwrap_or("without a reason"))),
                    ..Finish::default()
                })
            }
            _ => Vec::new(),
        })
    }

    fn warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }
}

/// What was read from the cache is counted among the input as well.
fn used(usage: &Map<String, Value>) -> Used {
    let count = |key: &str| usage.get(key).and_then(Value::as_u64).unwrap_or_default();
    let (cache_read, cache_write) = (count("cached_input_tokens"), count("cache_write_input_tokens"));
    Used {
        input: count("input_tokens").saturating_sub(cache_read).saturating_sub(cache_write),
        output: count("output_tokens"),
        cache_read,
        cache_write,
        usd: None,
    }
}

/// The name and the arguments of a call; none for what is no call.
fn tool(kind: &str, item: &Map<String, Value>) -> Option<(String, Value)> {
    let text = |key: &str| item.get(key).and_then(Value::as_str).unwrap_or_default();
    let field = |key: &str| item.get(key).cloned().unwrap_or_default();
    Some(match kind {
        "command_execution" => ("shell".to_owned(), json!({ "command": text("command") })),
        "file_change" => ("apply_patch".to_owned(), json!({ "changes": field("changes") })),
        "mcp_tool_call" => (format!("mcp__{}__{}", text("server"), text("tool")), field("arguments")),
        "web_search" => ("web_search".to_owned(), json!({ "query": text("query") })),
        "collab_tool_call" => (text("tool").to_owned(), json!({ "prompt": text("prompt") })),
        _ => return None,
    })
}

/// What came of a call, in words.
fn output(item: &Map<String, Value>) -> String {
    let error = item.get("error").and_then(|error| error.get("message")?.as_str());
    let content = item.get("result").and_then(|result| result.get("content")?.as_array());
    if let Some(text) = item.get("aggregated_output").and_then(Value::as_str) {
        return text.to_owned();
    }
    match (error, content) {
        (Some(error), _) => error.to_owned(),
        (None, Some(parts)) => {
            let texts = parts.iter().filter_map(|part| part.get("text")?.as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        (None, None) => item.get("status").and_then(Value::as_str).unwrap_or_default().to_owned(),
    }
}

/// What its words say about the API.
fn failure(message: &str) -> Failure {
    const WORDS: [(&str, Kind); 9] = [
        ("Missing environment variable", Kind::Unauthenticated),
        ("Not logged in", Kind::Unauthenticated),
        ("Connection failed", Kind::Network),
        ("error sending request", Kind::Network),
        ("stream disconnected", Kind::Network),
        ("timed out", Kind::Network),
        ("failed to lookup address", Kind::Network),
        ("experiencing high demand", Kind::Server),
        ("usage limit", Kind::RateLimited),
    ];
    if let Some(status) = status(message) {
        return Failure::status(status, message);
    }
    if let Some((_, kind)) = WORDS.into_iter().find(|(words, _)| message.contains(words)) {
        return Failure::kind(kind, message);
    }
    // A request that was refused is told by the API's own words.
    match serde_json::from_str::<Value>(message) {
        Ok(body) if body.get("error").is_some() => {
            let words = body["error"]["message"].as_str().unwrap_or(message);
            Failure::status(400, words)
        }
        _ => Failure { message: message.to_owned(), ..Failure::default() },
    }
}

/// The status in `unexpected status 503 Service Unavailable: …` and `…, last status: 429 Too Many Requests`.
fn status(message: &str) -> Option<u16> {
    let (_, after) = message.split_once("status ").or_else(|| message.split_once("status: "))?;
    after.trim_start().get(..3)?.parse().ok().filter(|status| (400..600).contains(status))
}
