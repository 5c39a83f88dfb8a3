//! Reads the events of `opencode run --format json` and its log on stderr.

use serde_json::{Map, Value};
use yb_claude::Message;

use super::super::bounds::{RecentMap, push_warning};
use super::super::reader::{
    self, Failure, FailureKind, McpFailure, MessageContext, Reader, ReportedUsage, RetryBehavior, RunEnd,
    api_retry, assistant_text, event, keep_alive, run_result, take_lines, thinking, tool_call, tool_result,
};

/// The reader of one execution.
#[derive(Debug, Default)]
pub(super) struct OpencodeReader {
    /// The model as `provider/name`: the requested one, or the one that its log names; the events have none.
    model: Option<String>,
    began: bool,
    calls: RecentMap<()>,
    last: String,
    turns: u64,
    attempts: u64,
    used: Option<ReportedUsage>,
    /// Whether the last step ended with an answer.
    done: bool,
    failure: Option<Failure>,
    error: Option<String>,
    /// The part of stderr after its last newline.
    rest: Vec<u8>,
    warnings: Vec<String>,
    mcp_failures: Vec<McpFailure>,
}

impl OpencodeReader {
    pub(super) fn new(model: Option<String>) -> Self {
        Self { model, ..Self::default() }
    }

    fn tool(&mut self, part: &Map<String, Value>, about: &MessageContext<'_>) -> Vec<Message> {
        let text = |key: &str| part.get(key).and_then(Value::as_str).unwrap_or_default();
        let (id, name) = (text("callID"), text("tool"));
        let state = part.get("state").and_then(Value::as_object);
        let field = |key: &str| state.and_then(|state| state.get(key));
        let words = |key: &str| field(key).and_then(Value::as_str);
        let mut messages = Vec::new();
        // An unknown tool or invalid arguments: the intended call is in the arguments.
        let invalid = name == "invalid";
        let meant = field("input").and_then(|input| input.get("tool")?.as_str()).filter(|_| invalid);
        let name = meant.unwrap_or(name);
        let time = |key: &str| timestamp(field("time").and_then(|time| time.get(key)?.as_i64()));
        let (started, ended) = (time("start"), time("end"));
        if !self.calls.contains(id) {
            self.calls.insert(id, ());
            let about = MessageContext { timestamp: started.as_deref().or(about.timestamp), ..*about };
            messages.extend(tool_call(id, name, field("input").unwrap_or(&Value::Null), &about));
        }
        let about = &MessageContext { timestamp: ended.as_deref().or(about.timestamp), ..*about };
        match words("status") {
            Some("completed") => {
                // The failure of a command is in its result.
                let exit = field("metadata").and_then(|more| more.get("exit")?.as_i64());
                let failed = invalid || exit.is_some_and(|code| code != 0);
                messages.extend(tool_result(id, words("output").unwrap_or_default(), failed, about));
            }
            Some("error") => {
                messages.extend(tool_result(id, words("error").unwrap_or_default(), true, about));
            }
            _ => {}
        }
        messages
    }

    fn step(&mut self, part: &Map<String, Value>) {
        let tokens = part.get("tokens").and_then(Value::as_object);
        let count = |key: &str| tokens.and_then(|tokens| tokens.get(key)?.as_u64()).unwrap_or_default();
        let cache = |key: &str| {
            let cache = tokens.and_then(|tokens| tokens.get("cache"));
            cache.and_then(|cache| cache.get(key)?.as_u64()).unwrap_or_default()
        };
        let used = self.used.get_or_insert_default();
        used.add_tokens(&ReportedUsage {
            input: count("input"),
            output: count("output").saturating_add(count("reasoning")),
            cache_read: cache("read"),
            cache_write: cache("write"),
            usd: None,
        });
        // The cost of a model without a price is 0, which is not a report.
        let cost = part.get("cost").and_then(Value::as_f64).filter(|cost| *cost > 0.0);
        used.usd = cost.map(|cost| used.usd.unwrap_or_default() + cost).or(used.usd);
        self.turns += 1;
        self.done = part.get("reason").and_then(Value::as_str) != Some("tool-calls");
    }

    fn take_error(&mut self, error: &Map<String, Value>) {
        let data = error.get("data");
        let message = data.and_then(|data| data.get("message")?.as_str());
        let name = error.get("name").and_then(Value::as_str).unwrap_or("error");
        let message = message.unwrap_or(name);
        let status =
            data.and_then(|data| data.get("statusCode")?.as_u64()).and_then(|code| u16::try_from(code).ok());
        match (name, status) {
            (_, Some(status)) => self.failure = Some(Failure::status(status, message)),
            ("ProviderAuthError", _) => {
                self.failure = Some(Failure::kind(FailureKind::Unauthenticated, message));
            }
            ("APIError", _) => self.failure = Some(failure(message)),
            _ => self.error = Some(format!("{name}: {message}")),
        }
    }

    fn stderr_line(&mut self, line: &str) -> Option<Message> {
        if let Some((_, said)) =
            line.split_once("agent \"").filter(|_| line.contains("not found. Falling back"))
        {
            push_warning(&mut self.warnings, &format!("agent \"{said}"));
        }
        let server = line.split_once("message=\"server unavailable\" key=").map(|(_, server)| server);
        if let Some(server) = server.filter(|_| line.contains("status=failed")) {
            let name = server.split(' ').next().unwrap_or(server).trim_matches('"').to_owned();
            let reason = "opencode reports no reason".to_owned();
            self.mcp_failures.push(McpFailure { server: Some(name), reason });
        }
        if self.model.is_none() {
            self.model = model_in_log(line);
        }
        let is_stream_error = line.contains("message=\"stream error\"") && !line.contains("small=true");
        let why = line.split_once("error.error=\"").map(|(_, why)| why).filter(|_| is_stream_error)?;
        self.attempts += 1;
        api_retry(&failure(why.trim_end_matches('"')), self.attempts)
    }
}

impl Reader for OpencodeReader {
    fn parse_line(&mut self, line: &[u8]) -> Result<Vec<Message>, String> {
        let Some(event) = event(line)? else { return Ok(Vec::new()) };
        let mut messages = Vec::new();
        if !self.began {
            self.began = true;
            let session = event.get("sessionID").and_then(Value::as_str);
            messages.extend(reader::session_started(session, None));
        }
        let timestamp = timestamp(event.get("timestamp").and_then(Value::as_i64));
        let empty = Map::new();
        let part = event.get("part").and_then(Value::as_object).unwrap_or(&empty);
        let model = self.model.clone();
        let about = MessageContext {
            model: model.as_deref(),
            timestamp: timestamp.as_deref(),
            answer: part.get("messageID").and_then(Value::as_str),
            ..MessageContext::default()
        };
        match event.get("type").and_then(Value::as_str).unwrap_or_default() {
            "text" => {
                let text = part.get("text").and_then(Value::as_str).unwrap_or_default();
                text.clone_into(&mut self.last);
                messages.extend(assistant_text(text, &about));
            }
            "reasoning" => {
                let text = part.get("text").and_then(Value::as_str).unwrap_or_default();
                messages.extend(thinking(text, &about));
            }
            "tool_use" => messages.extend(self.tool(part, &about)),
            "step_start" => messages.extend(keep_alive()),
            "step_finish" => self.step(part),
            "error" => {
                if let Some(error) = event.get("error").and_then(Value::as_object) {
                    self.take_error(error);
                }
                messages.extend(keep_alive());
            }
            _ => {}
        }
        Ok(messages)
    }

    fn parse_stderr(&mut self, piece: &[u8]) -> Vec<Message> {
        take_lines(&mut self.rest, piece).lines().filter_map(|line| self.stderr_line(line)).collect()
    }

    /// Its exit is the end; a stopped agent has not finished.
    fn finish(&mut self, _stderr: &str) -> Vec<Message> {
        if !self.done && self.failure.is_none() && self.error.is_none() {
            return Vec::new();
        }
        let by_model = self.model.clone().zip(self.used).into_iter().collect();
        let finish = RunEnd {
            text: self.last.clone(),
            failure: self.failure.take(),
            error: self.error.take(),
            turns: Some(self.turns),
            used: self.used,
            by_model,
            ..RunEnd::default()
        };
        run_result(&finish).into_iter().collect()
    }

    fn warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    /// It stops after about a minute and then reports the status, which is not in its log.
    fn mcp_failures(&mut self) -> Vec<McpFailure> {
        std::mem::take(&mut self.mcp_failures)
    }

    fn retry_behavior(&self) -> RetryBehavior {
        RetryBehavior::ReportedSlow
    }

    fn reads_stderr(&self) -> bool {
        true
    }
}

/// The model of a request in its log, except for those that write titles.
fn model_in_log(line: &str) -> Option<String> {
    let (_, request) = line.split_once("message=stream ")?;
    let field = |name: &str| request.split(' ').find_map(|word| word.strip_prefix(name));
    let (provider, model) = (field("providerID=")?, field("modelID=")?);
    (field("small=") != Some("true")).then(|| format!("{provider}/{model}"))
}

/// Milliseconds since 1970 as ISO 8601.
fn timestamp(millis: Option<i64>) -> Option<String> {
    let time = jiff::Timestamp::from_millisecond(millis?).ok()?;
    Some(format!("{time:.3}"))
}

/// Classifies an error message without a status.
fn failure(message: &str) -> Failure {
    const WORDS: [(&str, FailureKind); 8] = [
        ("cannot connect to api", FailureKind::Network),
        ("timed out", FailureKind::Network),
        ("rate limit", FailureKind::RateLimited),
        ("too many requests", FailureKind::RateLimited),
        ("overloaded", FailureKind::RateLimited),
        ("quota", FailureKind::RateLimited),
        ("api key", FailureKind::Unauthenticated),
        ("server error", FailureKind::Server),
    ];
    let message = message.trim_start_matches("AI_APICallError: ");
    let lower = message.to_lowercase();
    match WORDS.into_iter().find(|(words, _)| lower.contains(words)) {
        Some((_, kind)) => Failure::kind(kind, message),
        None => Failure { message: message.to_owned(), ..Failure::default() },
    }
}
