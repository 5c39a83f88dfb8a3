//! From the events of `gemini -o stream-json`, and the retries that it tells on stderr, to messages.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use yb_claude::Message;

use super::super::reader::{
    self, About, Failure, Finish, Kind, Reader, Retries, Used, alive, called, event, finished, retries,
    returned, said,
};

/// How it says that the limit of turns was reached.
const TURNS: &str = "FatalTurnLimitedError";
const TURNS_SAID: &str = "Reached max session turns";

/// Follows one execution.
#[derive(Debug, Default)]
pub(super) struct GeminiReader {
    /// What was said since the last call: it comes in pieces.
    open: String,
    last: String,
    turns: u64,
    attempts: u64,
    /// The part of stderr after its last newline.
    rest: Vec<u8>,
    /// The end, whose reason may only be told on stderr.
    end: Option<Finish>,
    /// The last status that stderr told of.
    status: Option<u16>,
    reached_limit: bool,
    calls: BTreeMap<String, String>,
}

impl GeminiReader {
    /// Ends the pieces of one answer.
    fn flush(&mut self, timestamp: Option<&str>) -> Vec<Message> {
        let text = std::mem::take(&mut self.open);
        let about = About { timestamp, ..About::default() };
        let message = said(&text, &about);
        if message.is_some() {
            self.turns += 1;
            self.last = text;
        }
        message.into_iter().collect()
    }

    fn result(&mut self, event: &Map<String, Value>) {
        let stats = event.get("stats").and_then(Value::as_object);
        let models = stats.and_then(|stats| stats.get("models")?.as_object());
        let by_model: Vec<(String, Used)> = models
            .into_iter()
            .flatten()
            .filter_map(|(name, stats)| Some((name.clone(), used(stats.as_object()?))))
            .collect();
        let error = event.get("error").and_then(|error| error.get("message")?.as_str());
        let kind = event.get("error").and_then(|error| error.get("type")?.as_str());
        self.reached_limit |= kind == Some(TURNS) || error.is_some_and(|words| words.starts_with(TURNS_SAID));
        let failed = event.get("status").and_then(Value::as_str) == Some("error");
        // Figures of a run that never got an answer are nobody's.
        let used = stats.map(used).filter(|used| !failed || *used != Used::default());
        self.end = Some(Finish {
            text: self.last.clone(),
            failure: failed.then(|| failure(error.unwrap_or("without a reason"))),
            turns: Some(self.turns),
            by_model: if used.is_some() { by_model } else { Vec::new() },
            used,
            ..Finish::default()
        });
    }

    fn stderr_line(&mut self, line: &str) -> Option<Message> {
        if line.contains(TURNS) {
            self.reached_limit = true;
        }
        let status = line.trim().strip_prefix("status: ").and_then(|rest| rest.get(..3)?.parse().ok());
        self.status = status.or(self.status);
        let rest = line.trim().strip_prefix("Attempt ")?;
        let (_, why) = rest.split_once(" failed")?;
        if !why.contains("Retrying with backoff") {
            return None;
        }
        self.attempts += 1;
        retries(&failure(why), self.attempts)
    }
}

impl Reader for GeminiReader {
    fn line(&mut self, line: &[u8]) -> Result<Vec<Message>, String> {
        let Some(event) = event(line)? else { return Ok(Vec::new()) };
        let text = |key: &str| event.get(key).and_then(Value::as_str);
        let about = About { timestamp: text("timestamp"), ..About::default() };
        Ok(match text("type").unwrap_or_default() {
            "init" => reader::began(text("session_id"), text("model")).into_iter().collect(),
            "message" if text("role") == Some("assistant") => {
                self.open.push_str(text("content").unwrap_or_default());
                alive().into_iter().collect()
            }
            "tool_use" => {
                let mut messages = self.flush(about.timestamp);
                let (id, name) = (text("tool_id").unwrap_or_default(), text("tool_name").unwrap_or_default());
                self.calls.insert(id.to_owned(), name.to_owned());
                let arguments = event.get("parameters").cloned().unwrap_or_default();
                messages.extend(called(id, name, &arguments, &about));
                messages
            }
            "tool_result" => {
                let failed = text("status") == Some("error");
                let error = event.get("error").and_then(|error| error.get("message")?.as_str());
                let words = error.filter(|_| failed).or(text("output")).unwrap_or_default();
                returned(text("tool_id").unwrap_or_default(), words, failed, &about).into_iter().collect()
            }
            "result" => {
                let messages = self.flush(about.timestamp);
                self.result(&event);
                messages
            }
            _ => Vec::new(),
        })
    }

    fn stderr(&mut self, piece: &[u8]) -> Vec<Message> {
        self.rest.extend_from_slice(piece);
        let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else { return Vec::new() };
        let lines: Vec<u8> = self.rest.drain(..=end).collect();
        String::from_utf8_lossy(&lines).lines().filter_map(|line| self.stderr_line(line)).collect()
    }

    fn end(&mut self, stderr: &str) -> Vec<Message> {
        let mut messages = self.flush(None);
        self.rest.clear();
        for line in stderr.lines() {
            // Retries were told as they came.
            let _ = self.stderr_line(line);
        }
        let no_key = stderr.contains("Invalid auth method selected")
            || stderr.contains("you must specify the GEMINI_API_KEY");
        let mut end = self.end.take();
        if self.reached_limit {
            end.get_or_insert_default().failure = None;
        } else if no_key && end.is_none() {
            let failure = Failure::kind(Kind::Unauthenticated, "there are no credentials");
            end = Some(Finish { failure: Some(failure), ..Finish::default() });
        }
        if let Some(end) = &mut end {
            end.max_turns = self.reached_limit;
            if let Some(failure) = end.failure.as_mut().filter(|failure| failure.kind.is_none()) {
                failure.status = failure.status.or(self.status);
            }
            messages.extend(finished(end));
        }
        messages
    }

    fn retries(&self) -> Retries {
        Retries::Aloud
    }

    fn listens_to_stderr(&self) -> bool {
        true
    }
}

/// What came from the cache is counted among `input_tokens` as well; `input` is the rest.
fn used(stats: &Map<String, Value>) -> Used {
    let count = |key: &str| stats.get(key).and_then(Value::as_u64).unwrap_or_default();
    let cache_read = count("cached");
    let input = stats.get("input").and_then(Value::as_u64);
    Used {
        input: input.unwrap_or_else(|| count("input_tokens").saturating_sub(cache_read)),
        output: count("output_tokens"),
        cache_read,
        ..Used::default()
    }
}

/// What its words say about the API.
fn failure(message: &str) -> Failure {
    let code = ["\"code\":", "status "].into_iter().find_map(|before| {
        let (_, after) = message.split_once(before)?;
        after.trim_start().get(..3)?.parse().ok().filter(|status| (400..600).contains(status))
    });
    let words = words(message);
    match code {
        Some(status) => Failure::status(status, words),
        None if message.contains("fetch failed") || message.contains("ECONN") => {
            Failure::kind(Kind::Network, words)
        }
        None => Failure { message: words, ..Failure::default() },
    }
}

/// The API's own words, which come as JSON in brackets.
fn words(message: &str) -> String {
    let inner = message.trim().strip_prefix("[API Error: ").unwrap_or(message.trim());
    let inner = inner.split("]\n").next().unwrap_or(inner).trim_end_matches(']');
    let parsed: Option<Value> = inner.find('{').and_then(|at| serde_json::from_str(&inner[at..]).ok());
    let told = parsed.as_ref().and_then(|body| body.pointer("/error/message")?.as_str());
    told.unwrap_or(inner).trim().to_owned()
}
