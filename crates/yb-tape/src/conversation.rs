//! Reads the conversation of a request without injected reminders and system messages.

use std::borrow::Cow;

use hyper::HeaderMap;
use serde_json::Value;

use crate::format::BlobId;

/// Opening and closing tags of the reminders that agents inject into user messages.
const REMINDERS: [(&str, &str); 4] = [
    ("<system-reminder>", "</system-reminder>"),
    ("<environment_context>", "</environment_context>"),
    ("<session_context>", "</session_context>"),
    ("<current_datetime>", "</current_datetime>"),
];

/// A request body in the shape of the Messages API, with the request headers.
pub(crate) struct Conversation<'b> {
    body: &'b Value,
    messages: &'b [Value],
    headers: &'b HeaderMap,
}

/// The part of the agent that sent a request, derived from the request alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestOrigin {
    /// The main loop of the agent, or an unknown client.
    AgentLoop,
    /// The loop of a subagent.
    Subagent,
    /// A side request outside of any loop, such as a probe or a web search.
    SideRequest,
    /// Looks like a side request, but an agent without tools and thinking looks the same.
    PossibleSideRequest,
}

impl<'b> Conversation<'b> {
    /// Returns `None` when the body has no list of messages.
    pub(crate) fn from_request(body: &'b Value, headers: &'b HeaderMap) -> Option<Self> {
        let messages = body.get("messages")?.as_array()?;
        Some(Self { body, messages, headers })
    }

    /// Counts the replies that the conversation already contains. Only user messages and tool results separate two
    /// replies: consecutive assistant messages count as one, even with system messages between them.
    pub(crate) fn replies(&self) -> usize {
        let mut count = 0;
        let mut in_reply = false;
        for message in self.messages {
            match role(message) {
                "assistant" => {
                    count += usize::from(!in_reply);
                    in_reply = true;
                }
                "system" => {}
                _ => in_reply = false,
            }
        }
        count
    }

    /// Returns the user messages before the first model response.
    pub(crate) fn opening(&self) -> String {
        self.messages
            .iter()
            .take_while(|message| role(message) != "assistant")
            .filter(|message| role(message) == "user")
            .map(message_text)
            .filter(|text| !text.is_empty())
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// Returns the last user message.
    pub(crate) fn last_user_message(&self) -> String {
        let mut texts =
            self.messages.iter().rev().filter(|message| role(message) == "user").map(message_text);
        texts.find(|text| !text.is_empty()).unwrap_or_default()
    }

    /// Returns the system prompt.
    pub(crate) fn system(&self) -> String {
        self.body.get("system").map(|system| texts(system).join("\n")).unwrap_or_default()
    }

    pub(crate) fn origin(&self) -> RequestOrigin {
        let tools = self.body.get("tools").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        if self.headers.contains_key("x-claude-code-agent-id")
            || self.system().contains("cc_is_subagent=true")
        {
            return RequestOrigin::Subagent;
        }
        // A probe that needs only the status.
        if self.body.get("max_tokens").and_then(Value::as_u64).is_some_and(|max| max <= 1) {
            return RequestOrigin::SideRequest;
        }
        // A web search declares only server-side tools, which have a versioned type.
        if !tools.is_empty() && tools.iter().all(is_server_tool) {
            return RequestOrigin::SideRequest;
        }
        if tools.is_empty() {
            // A prompt hook requests structured output; the agent loop uses a tool for that.
            if self.body.pointer("/output_config/format").is_some() {
                return RequestOrigin::SideRequest;
            }
            let thinks = ["thinking", "context_management"].iter().any(|key| self.body.get(key).is_some());
            if self.is_user_agent("claude-cli/") && !thinks {
                return RequestOrigin::PossibleSideRequest;
            }
            // A title, a summary or a model choice: the loops of these agents always have tools.
            if self.is_user_agent("opencode/") || self.is_user_agent("GeminiCLI") {
                return RequestOrigin::PossibleSideRequest;
            }
        }
        RequestOrigin::AgentLoop
    }

    fn is_user_agent(&self, name: &str) -> bool {
        let agent = self.headers.get("user-agent").and_then(|value| value.to_str().ok());
        agent.is_some_and(|agent| agent.starts_with(name))
    }
}

fn role(message: &Value) -> &str {
    message.get("role").and_then(Value::as_str).unwrap_or_default()
}

fn is_server_tool(tool: &Value) -> bool {
    let kind = tool.get("type").and_then(Value::as_str).unwrap_or("custom");
    kind != "custom" && tool.get("input_schema").is_none()
}

/// Returns the texts of a message content, which is a string or a list of blocks.
pub(crate) fn texts(content: &Value) -> Vec<&str> {
    match content {
        Value::String(text) => vec![text],
        Value::Array(blocks) => {
            blocks.iter().filter_map(|block| block.get("text").and_then(Value::as_str)).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the text of a message without reminders.
fn message_text(message: &Value) -> String {
    let Some(content) = message.get("content") else { return String::new() };
    let texts = texts(content).into_iter().map(strip_reminders);
    texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
}

/// Replaces the content of each reminder by its hash. Returns `None` when there are no reminders.
pub(crate) fn hash_reminders(text: &str) -> Option<String> {
    let hashed = REMINDERS.iter().fold(Cow::Borrowed(text), |text, reminder| {
        if text.contains(reminder.0) { Cow::Owned(hash_reminder(&text, *reminder)) } else { text }
    });
    match hashed {
        Cow::Borrowed(_) => None,
        Cow::Owned(text) => Some(text),
    }
}

fn hash_reminder(text: &str, (open, close): (&str, &str)) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(open) {
        let (before, after) = rest.split_at(start + open.len());
        let end = after.find(close).unwrap_or(after.len());
        out.push_str(before);
        out.push_str(&format!("[blake3:{}]", BlobId::from_bytes(&after.as_bytes()[..end])));
        rest = &after[end..];
    }
    out + rest
}

pub(crate) fn strip_reminders(text: &str) -> String {
    let text = REMINDERS.iter().fold(Cow::Borrowed(text), |text, reminder| {
        if text.contains(reminder.0) { Cow::Owned(strip_reminder(&text, *reminder)) } else { text }
    });
    text.trim().to_owned()
}

fn strip_reminder(text: &str, (open, close): (&str, &str)) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(open) {
        out.push_str(&rest[..start]);
        rest = &rest[start + open.len()..];
        rest = rest.find(close).map_or("", |end| &rest[end + close.len()..]);
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use hyper::HeaderMap;
    use serde_json::{Value, json};

    use super::{Conversation, RequestOrigin, strip_reminders};

    fn check(messages: &Value, replies: usize, opening: &str) {
        let body = json!({ "messages": messages });
        let headers = HeaderMap::new();
        let conversation = Conversation::from_request(&body, &headers).unwrap();
        assert_eq!(
            (conversation.replies(), conversation.opening().as_str()),
            (replies, opening),
            "{messages}"
        );
    }

    #[test]
    fn injected_messages_count_neither_as_turns_nor_as_text() {
        check(&json!([]), 0, "");
        check(&json!([{ "role": "user", "content": "go" }]), 0, "go");
        check(
            &json!([
                { "role": "user", "content": [
                    { "type": "text", "text": "<system-reminder>\nstatus\n</system-reminder>" },
                    { "type": "text", "text": "go" },
                ] },
                { "role": "system", "content": "# Environment" },
                { "role": "user", "content": "really" },
            ]),
            0,
            "go\nreally",
        );
    }

    #[test]
    fn consecutive_assistant_messages_are_one_reply() {
        check(
            &json!([
                { "role": "user", "content": "go" },
                { "role": "assistant", "content": "a" },
                { "role": "assistant", "content": [{ "type": "tool_use", "id": "t", "name": "Bash", "input": {} }] },
                { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "t", "content": "out" }] },
                { "role": "system", "content": "a reminder" },
                { "role": "assistant", "content": "b" },
                { "role": "system", "content": "a reminder" },
                { "role": "assistant", "content": "c" },
                { "role": "user", "content": "more" },
            ]),
            2,
            "go",
        );
    }

    #[test]
    fn strip_reminders_removes_each_reminder() {
        for (text, expected) in [
            ("plain", "plain"),
            (" <system-reminder>x</system-reminder>\ngo <system-reminder>y</system-reminder>", "go"),
            ("go\n<system-reminder>never closed", "go"),
            ("<system-reminder>x</system-reminder>", ""),
        ] {
            assert_eq!(strip_reminders(text), expected, "{text}");
        }
    }

    fn origin(body: &Value, headers: &[(&'static str, &str)]) -> RequestOrigin {
        let headers: HeaderMap = headers
            .iter()
            .map(|(name, value)| (hyper::header::HeaderName::from_static(name), value.parse().unwrap()))
            .collect();
        Conversation::from_request(body, &headers).unwrap().origin()
    }

    #[test]
    fn origin_distinguishes_requests_of_claude_code() {
        let cli = ("user-agent", "claude-cli/2.1.325 (external, sdk-cli)");
        let bash = json!([{ "name": "Bash", "input_schema": {} }]);
        let loop_body = json!({ "messages": [], "tools": bash, "thinking": {} });
        assert_eq!(origin(&loop_body, &[cli]), RequestOrigin::AgentLoop);
        assert_eq!(origin(&loop_body, &[cli, ("x-claude-code-agent-id", "a1")]), RequestOrigin::Subagent);
        let marked = json!({ "messages": [], "tools": bash, "system": [{ "text": "cc_is_subagent=true;" }] });
        assert_eq!(origin(&marked, &[cli]), RequestOrigin::Subagent);
        let no_tools = json!({ "messages": [], "tools": [], "thinking": {} });
        assert_eq!(origin(&no_tools, &[cli]), RequestOrigin::AgentLoop);
        assert_eq!(
            origin(&json!({ "messages": [], "tools": [] }), &[cli]),
            RequestOrigin::PossibleSideRequest
        );
        assert_eq!(origin(&json!({ "messages": [] }), &[]), RequestOrigin::AgentLoop);
        assert_eq!(origin(&json!({ "messages": [], "max_tokens": 1 }), &[]), RequestOrigin::SideRequest);
        let search =
            json!({ "messages": [], "tools": [{ "type": "web_search_20250305", "name": "web_search" }] });
        assert_eq!(origin(&search, &[cli]), RequestOrigin::SideRequest);
        let hook =
            json!({ "messages": [], "tools": [], "output_config": { "format": { "type": "json_schema" } } });
        assert_eq!(origin(&hook, &[cli]), RequestOrigin::SideRequest);
    }
}
