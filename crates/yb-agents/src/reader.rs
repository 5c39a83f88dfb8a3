//! Readers: they convert the output of each agent to the messages of Claude Code, which transcripts, meters and verdicts are
//! folded from.

use serde_json::{Map, Value, json};
use yb_claude::Message;
use yb_claude::frame::SystemMessage;

use super::bounds::STDERR_LINE;

/// Converts the output of one execution to messages.
pub(super) trait Reader: Send {
    /// Converts one line of stdout. An error is a line that looks like a message and can't be parsed.
    fn parse_line(&mut self, line: &[u8]) -> Result<Vec<Message>, String>;

    /// The beginning of lines that only repeat, in pieces, what a later message says. They are not what the agent printed for people.
    fn partial_lines(&self) -> Option<&'static str> {
        None
    }

    /// Converts a chunk of stderr; called only if [`Reader::reads_stderr`].
    fn parse_stderr(&mut self, _piece: &[u8]) -> Vec<Message> {
        Vec::new()
    }

    /// Whether stderr is read while the agent runs.
    fn reads_stderr(&self) -> bool {
        false
    }

    /// Takes the bytes to write to the agent's stdin now, for a protocol that is interactive.
    fn take_input(&mut self) -> Vec<u8> {
        Vec::new()
    }

    /// Whether the agent got its prompt; until then an agent with an interactive protocol is starting.
    fn is_prompted(&self) -> bool {
        true
    }

    /// Whether an interactive protocol is complete, so that the agent may exit.
    fn is_done(&self) -> bool {
        false
    }

    /// Returns the messages that are known only after the exit: from the end of stderr, or from a file.
    fn finish(&mut self, _stderr: &str) -> Vec<Message> {
        Vec::new()
    }

    /// Returns the ids of tool calls whose failure is known only after the exit; called after [`Reader::finish`].
    fn failed_calls(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// Takes the MCP servers that did not start.
    fn mcp_failures(&mut self) -> Vec<McpFailure> {
        Vec::new()
    }

    /// Whether the first message of the agent lists everything that it loaded, and comes from the agent itself.
    fn lists_add_ons(&self) -> bool {
        false
    }

    /// Takes the warnings.
    fn warnings(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// How the agent behaves while its API fails.
    fn retry_behavior(&self) -> RetryBehavior {
        RetryBehavior::Reported
    }
}

/// An MCP server that did not start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct McpFailure {
    /// Its name, if the agent reports it.
    pub(super) server: Option<String>,
    /// The reason, as far as the agent reports it.
    pub(super) reason: String,
}

/// How an agent behaves while its API fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RetryBehavior {
    /// It stops by itself after a configured number of attempts.
    Bounded,
    /// It reports each retry, and may retry without a limit.
    Reported,
    /// It reports each retry, and stops by itself after a time that may exceed the patience.
    ReportedSlow,
    /// It retries without output.
    Silent,
}

/// The reader of an agent that prints Claude Code's messages.
#[derive(Debug, Default)]
pub(super) struct ClaudeReader {
    mcp_failures: Vec<McpFailure>,
    is_claude_code: bool,
}

impl ClaudeReader {
    /// The reader of Claude Code itself, rather than of a program that prints the same messages.
    pub(super) fn of_claude_code() -> Self {
        Self { is_claude_code: true, ..Self::default() }
    }
}

impl Reader for ClaudeReader {
    fn parse_line(&mut self, line: &[u8]) -> Result<Vec<Message>, String> {
        match Message::parse(line) {
            Ok(message) => {
                if let Message::System(SystemMessage::Init(init)) = &message {
                    let failed = init.mcp_servers.iter().filter(|server| server.status == "failed");
                    self.mcp_failures.extend(failed.map(|server| McpFailure {
                        server: Some(server.name.clone()),
                        reason: "Claude Code reports no reason".to_owned(),
                    }));
                }
                Ok(vec![message])
            }
            Err(error) if line.trim_ascii_start().starts_with(b"{") => Err(error.to_string()),
            Err(_) => Ok(Vec::new()),
        }
    }

    fn partial_lines(&self) -> Option<&'static str> {
        Some(r#"{"type":"stream_event""#)
    }

    fn retry_behavior(&self) -> RetryBehavior {
        RetryBehavior::Bounded
    }

    fn mcp_failures(&mut self) -> Vec<McpFailure> {
        std::mem::take(&mut self.mcp_failures)
    }

    fn lists_add_ons(&self) -> bool {
        self.is_claude_code
    }
}

/// Parses a line as a JSON object; `None` for a line that is no event, such as the output of a library.
pub(super) fn event(line: &[u8]) -> Result<Option<Map<String, Value>>, String> {
    let line = line.trim_ascii();
    if !line.starts_with(b"{") {
        return Ok(None);
    }
    serde_json::from_slice(line).map(Some).map_err(|error| error.to_string())
}

/// Adds a piece of stderr to the rest of the last one, and takes the whole lines. A very long line loses its beginning.
pub(super) fn take_lines(rest: &mut Vec<u8>, piece: &[u8]) -> String {
    rest.extend_from_slice(piece);
    let end = rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let lines: Vec<u8> = rest.drain(..end).collect();
    let surplus = rest.len().saturating_sub(STDERR_LINE);
    rest.drain(..surplus);
    String::from_utf8_lossy(&lines).into_owned()
}

/// A failed API request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Failure {
    /// The HTTP status, if the API was reached.
    pub(super) status: Option<u16>,
    /// The kind, if there is no status.
    pub(super) kind: Option<FailureKind>,
    /// The agent's message.
    pub(super) message: String,
}

/// The kind of a failure without a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FailureKind {
    Unauthenticated,
    RateLimited,
    Server,
    Network,
    TooLarge,
}

impl FailureKind {
    /// The error type in the messages of Claude Code.
    fn code(self) -> &'static str {
        match self {
            Self::Unauthenticated => "authentication_error",
            Self::RateLimited => "rate_limit_error",
            // Without a status, this type would be counted as an overloaded API.
            Self::Server => "server_error",
            Self::Network => "connection_failed",
            Self::TooLarge => "request_too_large",
        }
    }

    /// The status of this kind.
    fn status(self) -> Option<u16> {
        match self {
            Self::Unauthenticated => Some(401),
            Self::RateLimited => Some(429),
            Self::Server => Some(500),
            Self::TooLarge => Some(413),
            Self::Network => None,
        }
    }
}

impl Failure {
    /// A failure with an HTTP status.
    pub(super) fn status(status: u16, message: impl Into<String>) -> Self {
        Self { status: Some(status), kind: None, message: message.into() }
    }

    /// A failure without a status.
    pub(super) fn kind(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { status: None, kind: Some(kind), message: message.into() }
    }

    fn known_status(&self) -> Option<u16> {
        self.status.or_else(|| self.kind.and_then(FailureKind::status))
    }
}

/// Tokens of one model, or of all.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct ReportedUsage {
    /// Input tokens at the full price, without those from the cache.
    pub(super) input: u64,
    pub(super) output: u64,
    pub(super) cache_read: u64,
    pub(super) cache_write: u64,
    /// The cost in US dollars, if the agent reports it.
    pub(super) usd: Option<f64>,
}

impl ReportedUsage {
    /// Adds the tokens of another call or model. The numbers are the agent's, so they may be of any size.
    pub(super) fn add_tokens(&mut self, other: &Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
    }
}

/// The end of an execution, as the agent reports it.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct RunEnd {
    /// The answer, or the last text.
    pub(super) text: String,
    pub(super) failure: Option<Failure>,
    /// An error that is not from the API.
    pub(super) error: Option<String>,
    /// The turn limit was reached.
    pub(super) max_turns: bool,
    pub(super) turns: Option<u64>,
    pub(super) used: Option<ReportedUsage>,
    /// Usage by model, if the agent reports it.
    pub(super) by_model: Vec<(String, ReportedUsage)>,
}

/// The start of an execution.
pub(super) fn session_started(session: Option<&str>, model: Option<&str>) -> Option<Message> {
    message(&json!({"type": "system", "subtype": "init", "session_id": session, "model": model}))
}

/// A text of the agent.
pub(super) fn assistant_text(text: &str, about: &MessageContext<'_>) -> Option<Message> {
    if text.trim().is_empty() {
        return None;
    }
    assistant(&json!([{"type": "text", "text": text}]), about)
}

/// The thinking of the model, as far as the agent shows it.
pub(super) fn thinking(text: &str, about: &MessageContext<'_>) -> Option<Message> {
    if text.trim().is_empty() {
        return None;
    }
    assistant(&json!([{"type": "thinking", "thinking": text, "signature": ""}]), about)
}

/// A tool call, with its arguments as an object.
pub(super) fn tool_call(
    id: &str,
    name: &str,
    arguments: &Value,
    about: &MessageContext<'_>,
) -> Option<Message> {
    assistant(&json!([{"type": "tool_use", "id": id, "name": name, "input": arguments}]), about)
}

/// The result of a tool call.
pub(super) fn tool_result(
    id: &str,
    text: &str,
    is_error: bool,
    about: &MessageContext<'_>,
) -> Option<Message> {
    let content = json!([{"type": "tool_result", "tool_use_id": id, "content": text, "is_error": is_error}]);
    message(&json!({
        "type": "user", "message": {"role": "user", "content": content},
        "parent_tool_use_id": about.parent, "timestamp": about.timestamp,
    }))
}

/// A tool call that was denied.
pub(super) fn permission_denied(id: &str, name: &str) -> Option<Message> {
    message(&json!({"type": "system", "subtype": "permission_denied", "tool_name": name, "tool_use_id": id}))
}

/// A failed API request that the agent retries.
pub(super) fn api_retry(failure: &Failure, attempt: u64) -> Option<Message> {
    let name = failure.kind.map_or(failure.message.clone(), |kind| kind.code().to_owned());
    message(&json!({
        "type": "system", "subtype": "api_retry", "attempt": attempt,
        "error_status": failure.known_status(), "error": name,
    }))
}

/// A sign that the API answers, without content.
pub(super) fn keep_alive() -> Option<Message> {
    message(&json!({"type": "stream_event", "event": {"type": "ping"}}))
}

/// The end of the execution.
pub(super) fn run_result(finish: &RunEnd) -> Option<Message> {
    let usage = |used: &ReportedUsage| {
        json!({"input_tokens": used.input, "output_tokens": used.output,
            "cache_read_input_tokens": used.cache_read, "cache_creation_input_tokens": used.cache_write})
    };
    let of_model = |used: &ReportedUsage| {
        json!({"inputTokens": used.input, "outputTokens": used.output, "cacheReadInputTokens": used.cache_read,
            "cacheCreationInputTokens": used.cache_write, "costUSD": used.usd})
    };
    let mut result =
        json!({"type": "result", "subtype": "success", "is_error": false, "result": finish.text});
    let Value::Object(fields) = &mut result else { return None };
    if let Some(turns) = finish.turns {
        fields.insert("num_turns".to_owned(), turns.into());
    }
    if let Some(used) = &finish.used {
        fields.insert("usage".to_owned(), usage(used));
        if let Some(usd) = used.usd {
            fields.insert("total_cost_usd".to_owned(), usd.into());
        }
        if !finish.by_model.is_empty() {
            let models = finish.by_model.iter().map(|(name, used)| (name.clone(), of_model(used)));
            fields.insert("modelUsage".to_owned(), Value::Object(models.collect()));
        }
    }
    if let Some(failure) = &finish.failure {
        fields.insert("is_error".to_owned(), true.into());
        fields.insert("result".to_owned(), failure.message.clone().into());
        fields.insert("terminal_reason".to_owned(), "api_error".into());
        fields.insert("api_error_status".to_owned(), failure.known_status().into());
        fields.insert("api_error_type".to_owned(), failure.kind.map(FailureKind::code).into());
    } else if finish.max_turns {
        fields.insert("subtype".to_owned(), "error_max_turns".into());
        fields.insert("is_error".to_owned(), true.into());
    } else if let Some(error) = &finish.error {
        fields.insert("subtype".to_owned(), "error_during_execution".into());
        fields.insert("is_error".to_owned(), true.into());
        fields.insert("errors".to_owned(), json!([error]));
    }
    message(&result)
}

/// The origin of a message.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MessageContext<'a> {
    pub(super) model: Option<&'a str>,
    /// The tool call that started the subagent.
    pub(super) parent: Option<&'a str>,
    pub(super) timestamp: Option<&'a str>,
    /// The id of the answer, which its parts share.
    pub(super) answer: Option<&'a str>,
}

fn assistant(content: &Value, about: &MessageContext<'_>) -> Option<Message> {
    message(&json!({
        "type": "assistant",
        "message": {"role": "assistant", "id": about.answer, "model": about.model, "content": content},
        "parent_tool_use_id": about.parent, "timestamp": about.timestamp,
    }))
}

/// Parses an object, which is always a message.
fn message(value: &Value) -> Option<Message> {
    Message::parse(value.to_string().as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use yb_claude::{ApiFailureKind, RunSummary, UsageBaseline};

    use super::*;

    fn ended(finish: &RunEnd) -> RunSummary {
        run_result(finish).iter().collect()
    }

    #[test]
    fn failure_has_its_kind_with_and_without_a_status() {
        let kind = |failure| {
            let finish = RunEnd { failure: Some(failure), ..RunEnd::default() };
            ended(&finish).api_failure().unwrap().kind
        };
        use ApiFailureKind as Is;
        for (status, expected) in [
            (401, Is::Unauthenticated),
            (429, Is::RateLimited),
            (500, Is::ServerError),
            (503, Is::ServerError),
            (400, Is::InvalidRequest),
            (404, Is::ModelNotFound),
        ] {
            assert_eq!(kind(Failure::status(status, "x")), expected, "{status}");
        }
        for (word, expected) in [
            (FailureKind::Unauthenticated, Is::Unauthenticated),
            (FailureKind::RateLimited, Is::RateLimited),
            (FailureKind::Server, Is::ServerError),
            (FailureKind::Network, Is::Network),
            (FailureKind::TooLarge, Is::TooLarge),
        ] {
            assert_eq!(kind(Failure::kind(word, "x")), expected, "{word:?}");
            let retry: RunSummary = api_retry(&Failure::kind(word, "x"), 1).iter().collect();
            assert_eq!(retry.pending_failure().unwrap().kind, expected, "{word:?}");
        }
    }

    #[test]
    fn usage_is_kept_and_no_cost_is_invented() {
        let used = ReportedUsage { input: 10, output: 5, cache_read: 3, cache_write: 1, usd: None };
        let finish = RunEnd { used: Some(used), by_model: vec![("m".to_owned(), used)], ..RunEnd::default() };
        let spent = ended(&finish).usage(UsageBaseline::NewSession).unwrap();
        assert_eq!((spent.tokens.input, spent.tokens.output, spent.tokens.cache_read), (10, 5, 3));
        assert_eq!(spent.cost_usd, None);
        assert!(ended(&RunEnd::default()).usage(UsageBaseline::NewSession).is_none());
    }

    #[test]
    fn line_without_an_event_is_no_parse_error() {
        assert_eq!(event(b"hello"), Ok(None));
        assert!(event(b"{\"type\":").is_err());
        assert_eq!(event(b" {\"type\":\"a\"}\r").unwrap().unwrap()["type"], "a");
    }
}
