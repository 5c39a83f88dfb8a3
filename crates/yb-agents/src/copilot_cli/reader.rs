//! Reads the events of `copilot --output-format json` and its usage file.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use yb_claude::Message;

use super::super::reader::{
    self, Failure, FailureKind, McpFailure, MessageContext, Reader, ReportedUsage, RunEnd, api_retry,
    assistant_text, event, permission_denied, run_result, thinking, tool_call, tool_result,
};
use yb_repo::read_inside;

/// The largest usage file that is read.
const USAGE_LIMIT: u64 = 1 << 20;

/// The reader of one execution.
#[derive(Debug)]
pub(super) struct CopilotReader {
    usage: PathBuf,
    turns: u64,
    attempts: u64,
    last: String,
    failure: Option<Failure>,
    /// Whether the agent reported its end.
    done: bool,
    session: bool,
    mcp_failures: Vec<McpFailure>,
}

impl CopilotReader {
    pub(super) fn new(usage: PathBuf) -> Self {
        Self {
            usage,
            turns: 0,
            attempts: 0,
            last: String::new(),
            failure: None,
            done: false,
            session: false,
            mcp_failures: Vec::new(),
        }
    }

    fn message(&mut self, data: &Map<String, Value>, timestamp: Option<&str>) -> Vec<Message> {
        let text = |key: &str| data.get(key).and_then(Value::as_str);
        let about = MessageContext {
            model: text("model"),
            parent: text("parentToolCallId"),
            timestamp,
            answer: text("messageId"),
        };
        let content = text("content").unwrap_or_default();
        if about.parent.is_none() && !content.trim().is_empty() {
            content.clone_into(&mut self.last);
        }
        let thought = thinking(text("reasoningText").unwrap_or_default(), &about);
        let mut messages: Vec<Message> = thought.into_iter().chain(assistant_text(content, &about)).collect();
        for call in data.get("toolRequests").and_then(Value::as_array).into_iter().flatten() {
            let text = |key: &str| call.get(key).and_then(Value::as_str).unwrap_or_default();
            let arguments = call.get("arguments").cloned().unwrap_or_default();
            messages.extend(tool_call(text("toolCallId"), text("name"), &arguments, &about));
        }
        messages
    }

    /// The sum over all models; cached tokens are included in the input tokens.
    fn used(&self) -> Option<Vec<(String, ReportedUsage)>> {
        let (folder, name) = (self.usage.parent()?, self.usage.file_name()?);
        let file = read_inside(folder, Path::new(name), USAGE_LIMIT).ok()??;
        let file: Value = serde_json::from_slice(&file).ok()?;
        let models = file.get("modelMetrics")?.as_object()?;
        let used = models.iter().filter_map(|(name, metrics)| {
            let usage = metrics.get("usage")?;
            let count = |key: &str| usage.get(key).and_then(Value::as_u64).unwrap_or_default();
            let (cache_read, cache_write) = (count("cacheReadTokens"), count("cacheWriteTokens"));
            let used = ReportedUsage {
                input: count("inputTokens").saturating_sub(cache_read).saturating_sub(cache_write),
                output: count("outputTokens"),
                cache_read,
                cache_write,
                usd: None,
            };
            Some((name.clone(), used))
        });
        Some(used.collect())
    }
}

impl Reader for CopilotReader {
    fn parse_line(&mut self, line: &[u8]) -> Result<Vec<Message>, String> {
        let Some(event) = event(line)? else { return Ok(Vec::new()) };
        let timestamp = event.get("timestamp").and_then(Value::as_str);
        let kind = event.get("type").and_then(Value::as_str).unwrap_or_default();
        if kind == "result" {
            self.done = true;
            let session = event.get("sessionId").and_then(Value::as_str);
            // The model is unknown until then.
            return Ok(reader::session_started(session, None)
                .filter(|_| !self.session)
                .into_iter()
                .collect());
        }
        let Some(data) = event.get("data").and_then(Value::as_object) else { return Ok(Vec::new()) };
        let text = |key: &str| data.get(key).and_then(Value::as_str).unwrap_or_default();
        let status =
            data.get("statusCode").and_then(Value::as_u64).and_then(|status| u16::try_from(status).ok());
        Ok(match kind {
            "assistant.turn_start" => {
                // Turns of subagents do not count.
                self.turns += u64::from(!event.contains_key("agentId"));
                Vec::new()
            }
            "assistant.message" => self.message(data, timestamp),
            "tool.execution_complete" => {
                let error = data.get("error").and_then(Value::as_object);
                let part = |map: Option<&Map<String, Value>>, key: &str| {
                    map.and_then(|map| map.get(key)?.as_str()).unwrap_or_default().to_owned()
                };
                let result = data.get("result").and_then(Value::as_object);
                let words = if error.is_some() { part(error, "message") } else { part(result, "content") };
                let parent = data.get("parentToolCallId").and_then(Value::as_str);
                let about = MessageContext { parent, timestamp, ..MessageContext::default() };
                let failed = data.get("success").and_then(Value::as_bool) == Some(false);
                let shell = data.get("shellExecution").and_then(|shell| shell.get("exitCode")?.as_i64());
                let failed = failed || shell.is_some_and(|code| code != 0);
                let mut messages: Vec<Message> =
                    tool_result(text("toolCallId"), &words, failed, &about).into_iter().collect();
                if part(error, "code") == "denied" {
                    messages.extend(permission_denied(text("toolCallId"), text("toolName")));
                }
                messages
            }
            "session.mcp_server_status_changed" if text("status") == "failed" => {
                self.mcp_failures.push(McpFailure {
                    server: Some(text("serverName").to_owned()),
                    reason: text("error").to_owned(),
                });
                Vec::new()
            }
            "model.call_failure" => {
                self.attempts += 1;
                api_retry(&failure(status, text("failureKind"), text("errorMessage")), self.attempts)
                    .into_iter()
                    .collect()
            }
            "session.error" => {
                self.failure = Some(failure(status, text("errorType"), text("message")));
                Vec::new()
            }
            _ => Vec::new(),
        })
    }

    fn finish(&mut self, _stderr: &str) -> Vec<Message> {
        // A stopped agent has reported no usage.
        if !self.done {
            return Vec::new();
        }
        let by_model = self.used().unwrap_or_default();
        let mut total = ReportedUsage::default();
        by_model.iter().for_each(|(_, used)| total.add_tokens(used));
        let finish = RunEnd {
            text: self.last.clone(),
            failure: self.failure.take(),
            turns: Some(self.turns),
            used: (!by_model.is_empty()).then_some(total),
            by_model,
            ..RunEnd::default()
        };
        run_result(&finish).into_iter().collect()
    }

    fn mcp_failures(&mut self) -> Vec<McpFailure> {
        std::mem::take(&mut self.mcp_failures)
    }
}

fn failure(status: Option<u16>, kind: &str, message: &str) -> Failure {
    let words = ["Could not connect", "fetch failed", "ECONNREFUSED", "Connection error", "network"];
    match status {
        Some(status) => Failure::status(status, message),
        None if kind == "authentication" => Failure::kind(FailureKind::Unauthenticated, message),
        None if kind == "rate_limit" => Failure::kind(FailureKind::RateLimited, message),
        None if message.contains("exceeds the model's prompt budget") => {
            Failure::kind(FailureKind::TooLarge, message)
        }
        None if kind == "connection" || words.iter().any(|words| message.contains(words)) => {
            Failure::kind(FailureKind::Network, message)
        }
        None => match last_status(message) {
            Some(status) => Failure::status(status, message),
            None => Failure { message: message.to_owned(), ..Failure::default() },
        },
    }
}

/// The status in `…; retried 5 times (…) Last error: 429 …`.
fn last_status(message: &str) -> Option<u16> {
    let (_, after) = message.split_once("Last error: ")?;
    after.get(..3)?.parse().ok().filter(|status| (400..600).contains(status))
}
