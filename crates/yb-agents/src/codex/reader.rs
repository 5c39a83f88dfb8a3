//! Reads the events of `codex exec --json`.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use yb_claude::Message;

use super::super::bounds::{RecentMap, push_warning};
use super::super::reader::{
    self, Failure, FailureKind, McpFailure, MessageContext, Reader, ReportedUsage, RunEnd, api_retry,
    assistant_text, event, run_result, take_lines, thinking, tool_call, tool_result,
};

use yb_repo::read_inside;

/// The most bytes of its record of a session that are read.
const RECORD_LIMIT: u64 = 64 << 20;

/// The prefix of its retry messages.
const RETRY: &str = "Reconnecting...";

/// The reader of one execution.
#[derive(Debug, Default)]
pub(super) struct CodexReader {
    /// The requested model; the events have none.
    model: Option<String>,
    /// Calls that were reported.
    calls: RecentMap<()>,
    /// The last text.
    last: String,
    attempts: u64,
    warnings: Vec<String>,
    /// Where it records sessions.
    sessions: PathBuf,
    session: String,
    /// The part of stderr after its last newline.
    rest: Vec<u8>,
    mcp_failures: Vec<McpFailure>,
    /// The end; the number of turns is only in the recorded session.
    end: Option<RunEnd>,
}

impl CodexReader {
    pub(super) fn new(model: Option<String>, sessions: PathBuf) -> Self {
        Self { model, sessions, ..Self::default() }
    }

    /// The number of model calls, which its record of the session has.
    fn turns(&self) -> Option<u64> {
        let name = format!("-{}.jsonl", self.session);
        let mut folders = vec![PathBuf::new()];
        // Year, month and day.
        for _ in 0..3 {
            folders = folders.iter().flat_map(|folder| entries(&self.sessions, folder)).collect();
        }
        let mut files = folders.iter().flat_map(|folder| entries(&self.sessions, folder));
        let file = files.find(|file| file.to_string_lossy().ends_with(&name))?;
        let text = read_inside(&self.sessions, &file, RECORD_LIMIT).ok()??;
        let kinds = text.split(|byte| *byte == b'\n').filter_map(|line| {
            let entry: RecordEntry = serde_json::from_slice(line).ok()?;
            Some(entry.kind)
        });
        Some(kinds.filter(|kind| kind == "token_usage_record").count() as u64).filter(|count| *count > 0)
    }

    fn item(&mut self, item: &Map<String, Value>, completed: bool) -> Vec<Message> {
        let text = |key: &str| item.get(key).and_then(Value::as_str).unwrap_or_default();
        let id = text("id");
        let whole = MessageContext::default();
        match text("type") {
            "agent_message" if completed => {
                self.last = text("text").to_owned();
                assistant_text(&self.last, &whole).into_iter().collect()
            }
            "reasoning" if completed => thinking(text("text"), &whole).into_iter().collect(),
            "error" => {
                push_warning(&mut self.warnings, text("message"));
                Vec::new()
            }
            kind => {
                let Some((name, arguments)) = tool(kind, item) else { return Vec::new() };
                let mut messages = Vec::new();
                if !self.calls.contains(id) {
                    self.calls.insert(id, ());
                    messages.extend(tool_call(id, &name, &arguments, &whole));
                }
                if completed {
                    let failed = text("status") == "failed" || !item.get("error").is_none_or(Value::is_null);
                    messages.extend(tool_result(id, &output(item), failed, &whole));
                }
                messages
            }
        }
    }
}

impl Reader for CodexReader {
    fn parse_line(&mut self, line: &[u8]) -> Result<Vec<Message>, String> {
        let Some(event) = event(line)? else { return Ok(Vec::new()) };
        let text = |key: &str| event.get(key).and_then(Value::as_str).unwrap_or_default();
        let item = || event.get("item").and_then(Value::as_object);
        Ok(match text("type") {
            "thread.started" => {
                self.session = text("thread_id").to_owned();
                reader::session_started(Some(text("thread_id")), None).into_iter().collect()
            }
            "item.started" => item().map(|item| self.item(item, false)).unwrap_or_default(),
            "item.completed" => item().map(|item| self.item(item, true)).unwrap_or_default(),
            "error" if text("message").starts_with(RETRY) => {
                self.attempts += 1;
                let why = text("message").split_once('(').map_or(text("message"), |(_, why)| why);
                api_retry(&failure(why.trim_end_matches(')')), self.attempts).into_iter().collect()
            }
            "turn.completed" => {
                let used = event.get("usage").and_then(Value::as_object).map(used);
                let by_model = self.model.clone().zip(used).into_iter().collect();
                self.end = Some(RunEnd { text: self.last.clone(), used, by_model, ..RunEnd::default() });
                Vec::new()
            }
            "turn.failed" => {
                let message = event.get("error").and_then(|error| error.get("message")?.as_str());
                let failure = Some(failure(message.unwrap_or("without a reason")));
                self.end = Some(RunEnd { failure, ..RunEnd::default() });
                Vec::new()
            }
            _ => Vec::new(),
        })
    }

    /// Its events do not mention servers; its log does (see `RUST_LOG`).
    fn parse_stderr(&mut self, piece: &[u8]) -> Vec<Message> {
        for line in take_lines(&mut self.rest, piece).lines() {
            let Some((_, said)) = line.split_once("MCP server startup failed server_name=\"") else {
                continue;
            };
            let (server, reason) = said.split_once("\" error=").unwrap_or((said, ""));
            self.mcp_failures.push(McpFailure { server: Some(server.to_owned()), reason: reason.to_owned() });
        }
        Vec::new()
    }

    fn reads_stderr(&self) -> bool {
        true
    }

    fn mcp_failures(&mut self) -> Vec<McpFailure> {
        std::mem::take(&mut self.mcp_failures)
    }

    fn finish(&mut self, _stderr: &str) -> Vec<Message> {
        let Some(end) = self.end.take() else { return Vec::new() };
        run_result(&RunEnd { turns: self.turns(), ..end }).into_iter().collect()
    }

    fn warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }
}

/// One line of a recorded session.
#[derive(serde::Deserialize)]
struct RecordEntry {
    #[serde(rename = "type")]
    kind: String,
}

/// The entries of a folder below a root, as paths below the root.
fn entries(root: &Path, folder: &Path) -> Vec<PathBuf> {
    let found = std::fs::read_dir(root.join(folder)).into_iter().flatten().flatten();
    found.map(|entry| folder.join(entry.file_name())).collect()
}

/// Cached tokens are included in the input tokens.
fn used(usage: &Map<String, Value>) -> ReportedUsage {
    let count = |key: &str| usage.get(key).and_then(Value::as_u64).unwrap_or_default();
    let (cache_read, cache_write) = (count("cached_input_tokens"), count("cache_write_input_tokens"));
    ReportedUsage {
        input: count("input_tokens").saturating_sub(cache_read).saturating_sub(cache_write),
        output: count("output_tokens"),
        cache_read,
        cache_write,
        usd: None,
    }
}

/// The name and the arguments of a tool call; none for other items.
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

/// The text of a tool result.
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

/// Classifies an error message.
fn failure(message: &str) -> Failure {
    const WORDS: [(&str, FailureKind); 9] = [
        ("Missing environment variable", FailureKind::Unauthenticated),
        ("Not logged in", FailureKind::Unauthenticated),
        ("Connection failed", FailureKind::Network),
        ("error sending request", FailureKind::Network),
        ("stream disconnected", FailureKind::Network),
        ("timed out", FailureKind::Network),
        ("failed to lookup address", FailureKind::Network),
        ("experiencing high demand", FailureKind::Server),
        ("usage limit", FailureKind::RateLimited),
    ];
    if let Some(status) = status(message) {
        return Failure::status(status, message);
    }
    if let Some((_, kind)) = WORDS.into_iter().find(|(words, _)| message.contains(words)) {
        return Failure::kind(kind, message);
    }
    // A refused request has the API's error as JSON.
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
