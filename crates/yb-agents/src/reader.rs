//! What an agent prints, told in the one language that transcripts, meters and verdicts are made from: the messages of
//! Claude Code. An agent that prints something else has a reader that translates it, line by line.

use serde_json::{Map, Value, json};
use yb_claude::Message;

/// Translates the output of one execution.
pub(super) trait Reader: Send {
    /// The messages that one line of stdout tells of; an error is a line that should have been readable.
    fn line(&mut self, line: &[u8]) -> Result<Vec<Message>, String>;

    /// The messages that a piece of stderr tells of; asked only of a reader that listens to it.
    fn stderr(&mut self, _piece: &[u8]) -> Vec<Message> {
        Vec::new()
    }

    /// Whether there is anything of use on stderr while the agent runs.
    fn listens_to_stderr(&self) -> bool {
        false
    }

    /// What is to be written to the agent's stdin now, for one that is talked to while it runs.
    fn say(&mut self) -> Vec<u8> {
        Vec::new()
    }

    /// Whether all is said and answered, so that an agent which is talked to may go.
    fn is_done(&self) -> bool {
        false
    }

    /// What is known only when the agent is gone: from the end of its stderr, or from a file that it left.
    fn end(&mut self, _stderr: &str) -> Vec<Message> {
        Vec::new()
    }

    /// What was said that is neither a message nor an error.
    fn warnings(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// How the agent behaves while its API fails.
    fn retries(&self) -> Retries {
        Retries::Aloud
    }
}

/// How an agent behaves while its API fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Retries {
    /// It gives up by itself, after as many attempts as it was told.
    Bounded,
    /// It says that it tries again, maybe for ever.
    Aloud,
    /// It says so, and gives up by itself after a while that may be longer than anybody's patience.
    Slowly,
    /// It says nothing: silence is all there is to see.
    Silently,
}

/// The reader of an agent that prints Claude Code's messages.
#[derive(Debug, Default)]
pub(super) struct ClaudeReader;

impl Reader for ClaudeReader {
    fn line(&mut self, line: &[u8]) -> Result<Vec<Message>, String> {
        match Message::parse(line) {
            Ok(message) => Ok(vec![message]),
            Err(error) if line.trim_ascii_start().starts_with(b"{") => Err(error.to_string()),
            Err(_) => Ok(Vec::new()),
        }
    }

    fn retries(&self) -> Retries {
        Retries::Bounded
    }
}

/// One line as a JSON object with a `type`; `None` for what is no event, such as a word of a library.
pub(super) fn event(line: &[u8]) -> Result<Option<Map<String, Value>>, String> {
    let line = line.trim_ascii();
    if !line.starts_with(b"{") {
        return Ok(None);
    }
    serde_json::from_slice(line).map(Some).map_err(|error| error.to_string())
}

/// Why an API did not answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Failure {
    /// The HTTP status, if the API was reached.
    pub(super) status: Option<u16>,
    /// The kind in a word, where the status does not tell it.
    pub(super) kind: Option<Kind>,
    /// The agent's words.
    pub(super) message: String,
}

/// What kind of failure it is, where no status tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Unauthenticated,
    RateLimited,
    Server,
    Network,
    TooLarge,
}

impl Kind {
    /// As the fold over messages knows it.
    fn code(self) -> &'static str {
        match self {
            Self::Unauthenticated => "authentication_error",
            Self::RateLimited => "rate_limit_error",
            // The fold takes this one for an API without capacity unless a status says otherwise.
            Self::Server => "server_error",
            Self::Network => "connection_failed",
            Self::TooLarge => "request_too_large",
        }
    }

    /// The status that the kind would have had.
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
    /// One that the API answered with.
    pub(super) fn status(status: u16, message: impl Into<String>) -> Self {
        Self { status: Some(status), kind: None, message: message.into() }
    }

    /// One that has no status.
    pub(super) fn kind(kind: Kind, message: impl Into<String>) -> Self {
        Self { status: None, kind: Some(kind), message: message.into() }
    }

    fn known_status(&self) -> Option<u16> {
        self.status.or_else(|| self.kind.and_then(Kind::status))
    }
}

/// Tokens of one model, or of all.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Used {
    /// Read at the full price, without what came from the cache.
    pub(super) input: u64,
    pub(super) output: u64,
    pub(super) cache_read: u64,
    pub(super) cache_write: u64,
    /// In US dollars, if the agent says so.
    pub(super) usd: Option<f64>,
}

/// The end of an execution, as the agent tells it.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Finish {
    /// The answer; what was said last, if nothing else is called that.
    pub(super) text: String,
    pub(super) failure: Option<Failure>,
    /// What went wrong that is no failure of the API.
    pub(super) error: Option<String>,
    /// The limit of turns was reached.
    pub(super) max_turns: bool,
    pub(super) turns: Option<u64>,
    pub(super) used: Option<Used>,
    /// By model, where the agent tells them apart.
    pub(super) by_model: Vec<(String, Used)>,
}

/// The beginning of an execution; what is not known stays away.
pub(super) fn began(session: Option<&str>, model: Option<&str>) -> Option<Message> {
    message(&json!({"type": "system", "subtype": "init", "session_id": session, "model": model}))
}

/// What the agent said.
pub(super) fn said(text: &str, about: &About<'_>) -> Option<Message> {
    if text.trim().is_empty() {
        return None;
    }
    assistant(&json!([{"type": "text", "text": text}]), about)
}

/// A tool that was called, with its arguments as an object.
pub(super) fn called(id: &str, name: &str, arguments: &Value, about: &About<'_>) -> Option<Message> {
    assistant(&json!([{"type": "tool_use", "id": id, "name": name, "input": arguments}]), about)
}

/// What came of a call.
pub(super) fn returned(id: &str, text: &str, is_error: bool, about: &About<'_>) -> Option<Message> {
    let content = json!([{"type": "tool_result", "tool_use_id": id, "content": text, "is_error": is_error}]);
    message(&json!({
        "type": "user", "message": {"role": "user", "content": content},
        "parent_tool_use_id": about.parent, "timestamp": about.timestamp,
    }))
}

/// A call that nobody allowed.
pub(super) fn denied(id: &str, name: &str) -> Option<Message> {
    message(&json!({"type": "system", "subtype": "permission_denied", "tool_name": name, "tool_use_id": id}))
}

/// The agent failed to reach its model, and tries again.
pub(super) fn retries(failure: &Failure, attempt: u64) -> Option<Message> {
    let name = failure.kind.map_or(failure.message.clone(), |kind| kind.code().to_owned());
    message(&json!({
        "type": "system", "subtype": "api_retry", "attempt": attempt,
        "error_status": failure.known_status(), "error": name,
    }))
}

/// The agent got an answer, of which nothing is told yet.
pub(super) fn alive() -> Option<Message> {
    message(&json!({"type": "stream_event", "event": {"type": "ping"}}))
}

/// The end of the execution.
pub(super) fn finished(finish: &Finish) -> Option<Message> {
    let usage = |used: &Used| {
        json!({"input_tokens": used.input, "output_tokens": used.output,
            "cache_read_input_tokens": used.cache_read, "cache_creation_input_tokens": used.cache_write})
    };
    let of_model = |used: &Used| {
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
        fields.insert("api_error_type".to_owned(), failure.kind.map(Kind::code).into());
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

/// Whose words they are, and when they were said.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct About<'a> {
    pub(super) model: Option<&'a str>,
    /// The call of the subagent that speaks.
    pub(super) parent: Option<&'a str>,
    pub(super) timestamp: Option<&'a str>,
    /// Parts of one answer share it.
    pub(super) answer: Option<&'a str>,
}

fn assistant(content: &Value, about: &About<'_>) -> Option<Message> {
    message(&json!({
        "type": "assistant",
        "message": {"role": "assistant", "id": about.answer, "model": about.model, "content": content},
        "parent_tool_use_id": about.parent, "timestamp": about.timestamp,
    }))
}

/// An object is always a message.
fn message(value: &Value) -> Option<Message> {
    Message::parse(value.to_string().as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use yb_claude::{ApiFailureKind, RunSummary, UsageBaseline};

    use super::*;

    fn ended(finish: &Finish) -> RunSummary {
        finished(finish).iter().collect()
    }

    #[test]
    fn a_failure_has_its_kind_with_and_without_a_status() {
        let kind = |failure| {
            let finish = Finish { failure: Some(failure), ..Finish::default() };
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
            (Kind::Unauthenticated, Is::Unauthenticated),
            (Kind::RateLimited, Is::RateLimited),
            (Kind::Server, Is::ServerError),
            (Kind::Network, Is::Network),
            (Kind::TooLarge, Is::TooLarge),
        ] {
            assert_eq!(kind(Failure::kind(word, "x")), expected, "{word:?}");
            let retry: RunSummary = retries(&Failure::kind(word, "x"), 1).iter().collect();
            assert_eq!(retry.pending_failure().unwrap().kind, expected, "{word:?}");
        }
    }

    #[test]
    fn what_was_used_is_what_was_told_and_nothing_costs_that_has_no_price() {
        let used = Used { input: 10, output: 5, cache_read: 3, cache_write: 1, usd: None };
        let finish = Finish { used: Some(used), by_model: vec![("m".to_owned(), used)], ..Finish::default() };
        let spent = ended(&finish).usage(UsageBaseline::NewSession).unwrap();
        assert_eq!((spent.tokens.input, spent.tokens.output, spent.tokens.cache_read), (10, 5, 3));
        assert_eq!(spent.cost_usd, None);
        assert!(ended(&Finish::default()).usage(UsageBaseline::NewSession).is_none());
    }

    #[test]
    fn lines_that_are_no_events_are_told_apart_from_broken_ones() {
        assert_eq!(event(b"hello"), Ok(None));
        assert!(event(b"{\"type\":").is_err());
        assert_eq!(event(b" {\"type\":\"a\"}\r").unwrap().unwrap()["type"], "a");
    }
}
