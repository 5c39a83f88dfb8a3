//! Reads a request's conversation the way its user sees it: without reminders and injected system messages.

use std::borrow::Cow;

use hyper::HeaderMap;
use serde_json::Value;

use crate::format::Id;

/// What agents put before and after a user's words, or between them.
const REMINDERS: [(&str, &str); 4] = [
    ("<system-reminder>", "</system-reminder>"),
    ("<environment_context>", "</environment_context>"),
    ("<session_context>", "</session_context>"),
    ("<current_datetime>", "</current_datetime>"),
];

/// A request in the shape of the Messages API, and who sent it.
pub(crate) struct Conversation<'b> {
    body: &'b Value,
    messages: &'b [Value],
    headers: &'b HeaderMap,
}

/// What kind of request it is, as far as the request itself tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nature {
    /// The agent's own loop, or a client that is not known.
    Loop,
    /// The loop of a subagent.
    Subagent,
    /// No part of any loop: the agent asks something for itself.
    Side,
    /// Looks like a side question, but an agent without tools and thinking looks the same.
    MaybeSide,
}

impl<'b> Conversation<'b> {
    /// Nothing when the body has no list of messages.
    pub(crate) fn of(body: &'b Value, headers: &'b HeaderMap) -> Option<Self> {
        let messages = body.get("messages")?.as_array()?;
        Some(Self { body, messages, headers })
    }

    /// How many replies the conversation holds already. Only what the user says or a tool returns stands
    /// between two replies, so assistant messages in a row are one, also with system messages between them.
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

    /// What the user says before the model first answers.
    pub(crate) fn opening(&self) -> String {
        self.messages
            .iter()
            .take_while(|message| role(message) != "assistant")
            .filter(|message| role(message) == "user")
            .map(said)
            .filter(|text| !text.is_empty())
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// What the user said last.
    pub(crate) fn last_words(&self) -> String {
        let mut texts = self.messages.iter().rev().filter(|message| role(message) == "user").map(said);
        texts.find(|text| !text.is_empty()).unwrap_or_default()
    }

    /// The system prompt.
    pub(crate) fn system(&self) -> String {
        self.body.get("system").map(|system| texts(system).join("\n")).unwrap_or_default()
    }

    pub(crate) fn nature(&self) -> Nature {
        let tools = self.body.get("tools").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        if self.headers.contains_key("x-claude-code-agent-id")
            || self.system().contains("cc_is_subagent=true")
        {
            return Nature::Subagent;
        }
        // A probe that wants no answer, only a status.
        if self.body.get("max_tokens").and_then(Value::as_u64).is_some_and(|max| max <= 1) {
            return Nature::Side;
        }
        // A web search: nothing but tools that run at the API, which have a versioned type.
        if !tools.is_empty() && tools.iter().all(runs_at_api) {
            return Nature::Side;
        }
        if tools.is_empty() {
            // A hook's question wants JSON of a given shape; the agent's own loop has a tool for that.
            if self.body.pointer("/output_config/format").is_some() {
                return Nature::Side;
            }
            let thinks = ["thinking", "context_management"].iter().any(|key| self.body.get(key).is_some());
            if self.is_by("claude-cli/") && !thinks {
                return Nature::MaybeSide;
            }
            // A title, a summary, the choice of a model: their own loops always have tools.
            if self.is_by("opencode/") || self.is_by("GeminiCLI") {
                return Nature::MaybeSide;
            }
        }
        Nature::Loop
    }

    fn is_by(&self, name: &str) -> bool {
        let agent = self.headers.get("user-agent").and_then(|value| value.to_str().ok());
        agent.is_some_and(|agent| agent.starts_with(name))
    }
}

fn role(message: &Value) -> &str {
    message.get("role").and_then(Value::as_str).unwrap_or_default()
}

fn runs_at_api(tool: &Value) -> bool {
    let kind = tool.get("type").and_then(Value::as_str).unwrap_or("custom");
    kind != "custom" && tool.get("input_schema").is_none()
}

/// The texts of a content, which is one text or a list of blocks.
pub(crate) fn texts(content: &Value) -> Vec<&str> {
    match content {
        Value::String(text) => vec![text],
        Value::Array(blocks) => {
            blocks.iter().filter_map(|block| block.get("text").and_then(Value::as_str)).collect()
        }
        _ => Vec::new(),
    }
}

/// What a message says once the reminders are taken out.
fn said(message: &Value) -> String {
    let Some(content) = message.get("content") else { return String::new() };
    let texts = texts(content).into_iter().map(without_reminders);
    texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
}

/// The text with its reminders' words replaced by their hash; nothing when it has none.
pub(crate) fn conceal_reminders(text: &str) -> Option<String> {
    let concealed = REMINDERS.iter().fold(Cow::Borrowed(text), |text, reminder| {
        if text.contains(reminder.0) { Cow::Owned(conceal(&text, *reminder)) } else { text }
    });
    match concealed {
        Cow::Borrowed(_) => None,
        Cow::Owned(text) => Some(text),
    }
}

fn conceal(text: &str, (open, close): (&str, &str)) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(open) {
        let (before, after) = rest.split_at(start + open.len());
        let end = after.find(close).unwrap_or(after.len());
        out.push_str(before);
        out.push_str(&format!("[blake3:{}]", Id::of(&after.as_bytes()[..end])));
        rest = &after[end..];
    }
    out + rest
}

pub(crate) fn without_reminders(text: &str) -> String {
    let text = REMINDERS.iter().fold(Cow::Borrowed(text), |text, reminder| {
        if text.contains(reminder.0) { Cow::Owned(without(&text, *reminder)) } else { text }
    });
    text.trim().to_owned()
}

fn without(text: &str, (open, close): (&str, &str)) -> String {
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

    use super::{Conversation, Nature, without_reminders};

    fn check(messages: &Value, replies: usize, opening: &str) {
        let body = json!({ "messages": messages });
        let headers = HeaderMap::new();
        let conversation = Conversation::of(&body, &headers).unwrap();
        assert_eq!(
            (conversation.replies(), conversation.opening().as_str()),
            (replies, opening),
            "{messages}"
        );
    }

    #[test]
    fn injected_messages_are_neither_turns_nor_words() {
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
    fn assistant_messages_in_a_row_are_one_reply() {
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
    fn reminders_are_cut_out_of_a_text() {
        for (text, expected) in [
            ("plain", "plain"),
            (" <system-reminder>x</system-reminder>\ngo <system-reminder>y</system-reminder>", "go"),
            ("go\n<system-reminder>never closed", "go"),
            ("<system-reminder>x</system-reminder>", ""),
        ] {
            assert_eq!(without_reminders(text), expected, "{text}");
        }
    }

    fn nature(body: &Value, headers: &[(&'static str, &str)]) -> Nature {
        let headers: HeaderMap = headers
            .iter()
            .map(|(name, value)| (hyper::header::HeaderName::from_static(name), value.parse().unwrap()))
            .collect();
        Conversation::of(body, &headers).unwrap().nature()
    }

    #[test]
    fn requests_of_claude_code_are_told_apart() {
        let cli = ("user-agent", "claude-cli/2.1.325 (external, sdk-cli)");
        let bash = json!([{ "name": "Bash", "input_schema": {} }]);
        let loop_body = json!({ "messages": [], "tools": bash, "thinking": {} });
        assert_eq!(nature(&loop_body, &[cli]), Nature::Loop);
        assert_eq!(nature(&loop_body, &[cli, ("x-claude-code-agent-id", "a1")]), Nature::Subagent);
        let marked = json!({ "messages": [], "tools": bash, "system": [{ "text": "cc_is_subagent=true;" }] });
        assert_eq!(nature(&marked, &[cli]), Nature::Subagent);
        let no_tools = json!({ "messages": [], "tools": [], "thinking": {} });
        assert_eq!(nature(&no_tools, &[cli]), Nature::Loop);
        assert_eq!(nature(&json!({ "messages": [], "tools": [] }), &[cli]), Nature::MaybeSide);
        assert_eq!(nature(&json!({ "messages": [] }), &[]), Nature::Loop);
        assert_eq!(nature(&json!({ "messages": [], "max_tokens": 1 }), &[]), Nature::Side);
        let search =
            json!({ "messages": [], "tools": [{ "type": "web_search_20250305", "name": "web_search" }] });
        assert_eq!(nature(&search, &[cli]), Nature::Side);
        let hook =
            json!({ "messages": [], "tools": [], "output_config": { "format": { "type": "json_schema" } } });
        assert_eq!(nature(&hook, &[cli]), Nature::Side);
    }
}
