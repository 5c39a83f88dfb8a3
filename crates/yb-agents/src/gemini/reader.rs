//! Reads the events of `gemini -o stream-json` and its retries on stderr.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use yb_claude::Message;

use super::super::bounds::{OpenText, RecentMap};
use super::super::reader::{
    self, Failure, FailureKind, McpFailure, MessageContext, Reader, ReportedUsage, RetryBehavior, RunEnd,
    api_retry, assistant_text, event, keep_alive, run_result, take_lines, tool_call, tool_result,
};

use yb_repo::read_inside;

/// The message of a reached turn limit.
const TURNS: &str = "FatalTurnLimitedError";
const TURNS_SAID: &str = "Reached max session turns";

/// The most bytes of its record of a conversation that are read.
const RECORD_LIMIT: u64 = 64 << 20;

/// The reader of one execution.
#[derive(Debug, Default)]
pub(super) struct GeminiReader {
    /// Its directory `.gemini`, in which it records conversations.
    home: PathBuf,
    /// Whether the model's current answer is counted as a turn.
    in_answer: bool,
    /// The chunks of text since the last call.
    open: OpenText,
    last: String,
    turns: u64,
    attempts: u64,
    /// The part of stderr after its last newline.
    rest: Vec<u8>,
    /// The end, whose reason may only be on stderr.
    end: Option<RunEnd>,
    /// The last status on stderr.
    status: Option<u16>,
    reached_limit: bool,
    calls: RecentMap<()>,
    mcp_failures: Vec<McpFailure>,
}

impl GeminiReader {
    pub(super) fn new(home: PathBuf) -> Self {
        Self { home, ..Self::default() }
    }

    /// Counts an answer of the model, which ends with the results of its calls.
    fn count_answer(&mut self) {
        self.turns += u64::from(!self.in_answer);
        self.in_answer = true;
    }

    /// Ends the current text.
    fn flush(&mut self, timestamp: Option<&str>) -> Vec<Message> {
        let text = self.open.take();
        let about = MessageContext { timestamp, ..MessageContext::default() };
        let message = assistant_text(&text, &about);
        if message.is_some() {
            self.last = text;
        }
        message.into_iter().collect()
    }

    fn result(&mut self, event: &Map<String, Value>) {
        let stats = event.get("stats").and_then(Value::as_object);
        let models = stats.and_then(|stats| stats.get("models")?.as_object());
        let by_model: Vec<(String, ReportedUsage)> = models
            .into_iter()
            .flatten()
            .filter_map(|(name, stats)| Some((name.clone(), used(stats.as_object()?))))
            .collect();
        let error = event.get("error").and_then(|error| error.get("message")?.as_str());
        let kind = event.get("error").and_then(|error| error.get("type")?.as_str());
        self.reached_limit |= kind == Some(TURNS) || error.is_some_and(|words| words.starts_with(TURNS_SAID));
        let failed = event.get("status").and_then(Value::as_str) == Some("error");
        // Without an answer, the reported usage is meaningless.
        let used = stats.map(used).filter(|used| !failed || *used != ReportedUsage::default());
        self.end = Some(RunEnd {
            text: self.last.clone(),
            failure: failed.then(|| failure(error.unwrap_or("without a reason"))),
            turns: Some(self.turns),
            by_model: if used.is_some() { by_model } else { Vec::new() },
            used,
            ..RunEnd::default()
        });
    }

    fn stderr_line(&mut self, line: &str) -> Option<Message> {
        if line.contains(TURNS) {
            self.reached_limit = true;
        }
        if line.starts_with("MCP issues detected") {
            let reason = "Gemini CLI says neither which nor why".to_owned();
            self.mcp_failures.push(McpFailure { server: None, reason });
        }
        let status = line.trim().strip_prefix("status: ").and_then(|rest| rest.get(..3)?.parse().ok());
        self.status = status.or(self.status);
        let rest = line.trim().strip_prefix("Attempt ")?;
        let (_, why) = rest.split_once(" failed")?;
        if !why.contains("Retrying with backoff") {
            return None;
        }
        self.attempts += 1;
        api_retry(&failure(why), self.attempts)
    }
}

impl Reader for GeminiReader {
    fn parse_line(&mut self, line: &[u8]) -> Result<Vec<Message>, String> {
        let Some(event) = event(line)? else { return Ok(Vec::new()) };
        let text = |key: &str| event.get(key).and_then(Value::as_str);
        let about = MessageContext { timestamp: text("timestamp"), ..MessageContext::default() };
        Ok(match text("type").unwrap_or_default() {
            "init" => reader::session_started(text("session_id"), text("model")).into_iter().collect(),
            "message" if text("role") == Some("assistant") => {
                self.count_answer();
                self.open.push(text("content").unwrap_or_default());
                keep_alive().into_iter().collect()
            }
            "tool_use" => {
                self.count_answer();
                let mut messages = self.flush(about.timestamp);
                let (id, name) = (text("tool_id").unwrap_or_default(), text("tool_name").unwrap_or_default());
                self.calls.insert(id, ());
                let arguments = event.get("parameters").cloned().unwrap_or_default();
                messages.extend(tool_call(id, name, &arguments, &about));
                messages
            }
            "tool_result" => {
                self.in_answer = false;
                let failed = text("status") == Some("error");
                let error = event.get("error").and_then(|error| error.get("message")?.as_str());
                let words = error.filter(|_| failed).or(text("output")).unwrap_or_default();
                tool_result(text("tool_id").unwrap_or_default(), words, failed, &about).into_iter().collect()
            }
            "result" => {
                let messages = self.flush(about.timestamp);
                self.result(&event);
                messages
            }
            _ => Vec::new(),
        })
    }

    fn parse_stderr(&mut self, piece: &[u8]) -> Vec<Message> {
        take_lines(&mut self.rest, piece).lines().filter_map(|line| self.stderr_line(line)).collect()
    }

    fn finish(&mut self, stderr: &str) -> Vec<Message> {
        let mut messages = self.flush(None);
        self.rest.clear();
        for line in stderr.lines() {
            // Retries were reported already.
            let _ = self.stderr_line(line);
        }
        let no_key = stderr.contains("Invalid auth method selected")
            || stderr.contains("you must specify the GEMINI_API_KEY");
        let mut end = self.end.take();
        if self.reached_limit {
            end.get_or_insert_default().failure = None;
        } else if no_key && end.is_none() {
            let failure = Failure::kind(FailureKind::Unauthenticated, "there are no credentials");
            end = Some(RunEnd { failure: Some(failure), ..RunEnd::default() });
        }
        if let Some(end) = &mut end {
            end.max_turns = self.reached_limit;
            if let Some(failure) = end.failure.as_mut().filter(|failure| failure.kind.is_none()) {
                failure.status = failure.status.or(self.status);
            }
            messages.extend(run_result(end));
        }
        messages
    }

    /// Its events have no exit code of a command; its record of the conversation has.
    fn failed_calls(&mut self) -> Vec<String> {
        let conversations = std::fs::read_dir(self.home.join("tmp")).into_iter().flatten().flatten();
        let folders = conversations.map(|project| Path::new("tmp").join(project.file_name()).join("chats"));
        let files = folders.flat_map(|folder| {
            let files = std::fs::read_dir(self.home.join(&folder)).into_iter().flatten().flatten();
            files.map(move |file| folder.join(file.file_name())).collect::<Vec<_>>()
        });
        let texts = files.filter_map(|file| read_inside(&self.home, &file, RECORD_LIMIT).ok().flatten());
        texts.flat_map(|text| failed_commands(&text)).filter(|id| self.calls.contains(id)).collect()
    }

    fn mcp_failures(&mut self) -> Vec<McpFailure> {
        std::mem::take(&mut self.mcp_failures)
    }

    fn retry_behavior(&self) -> RetryBehavior {
        RetryBehavior::Reported
    }

    fn reads_stderr(&self) -> bool {
        true
    }
}

/// The ids of calls in a recorded conversation whose command failed. The tool result ends with the exit code.
fn failed_commands(record: &[u8]) -> Vec<String> {
    let lines = record.split(|byte| *byte == b'\n');
    let entries = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let calls = entries.flat_map(|mut entry| match entry["toolCalls"].take() {
        Value::Array(calls) => calls,
        _ => Vec::new(),
    });
    let failed = calls.filter(|call| {
        let told = call.pointer("/result/0/functionResponse/response/output").and_then(Value::as_str);
        let ends = told.unwrap_or_default().lines().rev().take(6);
        ends.filter_map(|line| line.strip_prefix("Exit Code: ").or_else(|| line.strip_prefix("Signal: ")))
            .any(|code| code != "0" && code != "(none)")
    });
    failed.filter_map(|call| Some(call["id"].as_str()?.to_owned())).collect()
}

/// `input_tokens` includes cached tokens; `input` does not.
fn used(stats: &Map<String, Value>) -> ReportedUsage {
    let count = |key: &str| stats.get(key).and_then(Value::as_u64).unwrap_or_default();
    let cache_read = count("cached");
    let input = stats.get("input").and_then(Value::as_u64);
    ReportedUsage {
        input: input.unwrap_or_else(|| count("input_tokens").saturating_sub(cache_read)),
        output: count("output_tokens"),
        cache_read,
        ..ReportedUsage::default()
    }
}

/// Classifies an error message.
fn failure(message: &str) -> Failure {
    let code = ["\"code\":", "status "].into_iter().find_map(|before| {
        let (_, after) = message.split_once(before)?;
        after.trim_start().get(..3)?.parse().ok().filter(|status| (400..600).contains(status))
    });
    let words = words(message);
    match code {
        Some(status) => Failure::status(status, words),
        None if message.contains("fetch failed") || message.contains("ECONN") => {
            Failure::kind(FailureKind::Network, words)
        }
        None => Failure { message: words, ..Failure::default() },
    }
}

/// The API's message, which is JSON in brackets.
fn words(message: &str) -> String {
    let inner = message.trim().strip_prefix("[API Error: ").unwrap_or(message.trim());
    let inner = inner.split("]\n").next().unwrap_or(inner).trim_end_matches(']');
    let parsed: Option<Value> = inner.find('{').and_then(|at| serde_json::from_str(&inner[at..]).ok());
    let message = parsed.as_ref().and_then(|body| body.pointer("/error/message")?.as_str());
    message.unwrap_or(inner).trim().to_owned()
}
