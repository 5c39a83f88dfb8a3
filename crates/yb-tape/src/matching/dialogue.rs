//! Reads a request of any supported API as a dialogue: opening, model output so far, and new content.

use serde_json::Value;

use super::normalize::{NormalizedText, Normalizer};
use crate::conversation::strip_reminders;
use crate::format::BlobId;

/// An API whose requests can be matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Api {
    /// Anthropic Messages.
    Messages,
    /// Token counting of Anthropic and Gemini.
    CountTokens,
    /// OpenAI Responses.
    Responses,
    /// OpenAI Chat Completions, also supported by many other servers.
    Chat,
    Gemini,
}

impl Api {
    /// Returns the API of a request, or `None` for any other request of an agent.
    pub(crate) fn from_request(method: &str, path: &str) -> Option<Self> {
        if method != "POST" {
            return None;
        }
        let path = path.trim_end_matches('/');
        match path {
            _ if path.ends_with("/messages/count_tokens") || path.ends_with(":countTokens") => {
                Some(Self::CountTokens)
            }
            _ if path.ends_with("/messages") => Some(Self::Messages),
            _ if path.ends_with("/responses") => Some(Self::Responses),
            _ if path.ends_with("/chat/completions") => Some(Self::Chat),
            _ if path.ends_with("enerateContent") => Some(Self::Gemini),
            _ => None,
        }
    }
}

/// A text, tool call or tool result in a dialogue.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum DialoguePart {
    Text(NormalizedText),
    ToolResult {
        call: String,
        content: NormalizedText,
    },
    /// A tool call of the model. Its id comes from the tape, and so does its input.
    ToolCall {
        id: String,
        name: String,
    },
    /// Any other content, by its hash.
    Other {
        kind: String,
        id: String,
    },
}

impl DialoguePart {
    /// Describes the part in a message.
    pub(crate) fn title(&self) -> String {
        match self {
            Self::Text(_) => "user message".to_owned(),
            Self::ToolResult { call, .. } => format!("result of tool call `{call}`"),
            Self::ToolCall { name, id } => format!("tool call `{name}` (`{id}`)"),
            Self::Other { kind, .. } => format!("content of type `{kind}`"),
        }
    }

    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Text(text) | Self::ToolResult { content: text, .. } => &text.text,
            Self::ToolCall { id, .. } | Self::Other { id, .. } => id,
        }
    }

    /// Returns the text, if it was normalized.
    pub(crate) fn normalized(&self) -> Option<&NormalizedText> {
        match self {
            Self::Text(text) | Self::ToolResult { content: text, .. } => Some(text),
            Self::ToolCall { .. } | Self::Other { .. } => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    User,
    Model,
}

/// The conversation of a request, normalized for comparison between runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dialogue {
    /// Parts before the first model output.
    pub(crate) opening: Vec<DialoguePart>,
    /// All model output.
    pub(crate) model_parts: Vec<DialoguePart>,
    /// Parts after the last model output; tool results first, sorted by call.
    pub(crate) new: Vec<DialoguePart>,
    /// Number of model responses so far, plus one.
    pub(crate) turn: usize,
    /// Whether the request asks for a stream.
    pub(crate) stream: bool,
}

/// Reads a request body, or returns `None` if it is not valid for the API.
pub(crate) fn read(api: Api, path: &str, body: &Value, normalizer: &Normalizer) -> Option<Dialogue> {
    let mut all: Vec<(Role, DialoguePart)> = Vec::new();
    match api {
        Api::Messages | Api::CountTokens if body.get("messages").is_some() => {
            for message in body.get("messages")?.as_array()? {
                messages(message, normalizer, &mut all);
            }
        }
        Api::Chat => {
            for message in body.get("messages")?.as_array()? {
                chat(message, normalizer, &mut all);
            }
        }
        Api::Responses => match body.get("input")? {
            Value::String(text) => push_text(Role::User, text, normalizer, &mut all),
            input => input.as_array()?.iter().for_each(|item| responses(item, normalizer, &mut all)),
        },
        Api::Messages => return None,
        Api::Gemini | Api::CountTokens => {
            for content in body.get("contents")?.as_array()? {
                gemini(content, normalizer, &mut all);
            }
        }
    }
    let stream = path.contains(":streamGenerateContent")
        || body.get("stream").and_then(Value::as_bool).unwrap_or(false);
    Some(build_dialogue(all, stream))
}

fn build_dialogue(all: Vec<(Role, DialoguePart)>, stream: bool) -> Dialogue {
    let mut dialogue =
        Dialogue { opening: Vec::new(), model_parts: Vec::new(), new: Vec::new(), turn: 1, stream };
    let mut last = Role::User;
    for (role, part) in all {
        match role {
            Role::Model => {
                if last == Role::User {
                    dialogue.turn += 1;
                    dialogue.new.clear();
                }
                dialogue.model_parts.push(part);
            }
            Role::User if dialogue.model_parts.is_empty() => dialogue.opening.push(part),
            Role::User => dialogue.new.push(part),
        }
        last = role;
    }
    // Parallel tools finish in any order.
    dialogue.new.sort_by(|a, b| match (a, b) {
        (DialoguePart::ToolResult { call: a, .. }, DialoguePart::ToolResult { call: b, .. }) => a.cmp(b),
        (DialoguePart::ToolResult { .. }, _) => std::cmp::Ordering::Less,
        (_, DialoguePart::ToolResult { .. }) => std::cmp::Ordering::Greater,
        _ => std::cmp::Ordering::Equal,
    });
    dialogue
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Adds a text. User texts are normalized and lose their reminders; model texts come from the tape.
fn push_text(role: Role, text: &str, normalizer: &Normalizer, all: &mut Vec<(Role, DialoguePart)>) {
    let text = match role {
        Role::User => normalizer.normalize(&strip_reminders(text)),
        Role::Model => normalizer.replace_directories(text.trim()).into_owned().into(),
    };
    if !text.is_empty() {
        all.push((role, DialoguePart::Text(text)));
    }
}

fn other_part(kind: &str, value: &Value, normalizer: &Normalizer) -> DialoguePart {
    let mut value = value.clone();
    if let Some(fields) = value.as_object_mut() {
        fields.remove("cache_control");
    }
    let id = BlobId::from_bytes(normalizer.normalize(&value.to_string()).text.as_bytes());
    DialoguePart::Other { kind: kind.to_owned(), id: id.to_string() }
}

/// Returns a tool result as one text, with hashes in place of other content.
fn tool_result_text(content: Option<&Value>, normalizer: &Normalizer) -> NormalizedText {
    let one = |block: &Value| match block {
        Value::String(text) => normalizer.normalize(&strip_reminders(text)),
        block => match ["text", "output"].iter().find_map(|key| block.get(key)?.as_str()) {
            Some(text) => normalizer.normalize(&strip_reminders(text)),
            None => match other_part(text(block, "type"), block, normalizer) {
                DialoguePart::Other { kind, id } => format!("[{kind} {id}]").into(),
                part => part.text().into(),
            },
        },
    };
    match content {
        None | Some(Value::Null) => NormalizedText::default(),
        Some(Value::Array(blocks)) => NormalizedText::join(blocks.iter().map(one)),
        Some(block) => one(block),
    }
}

fn messages(message: &Value, normalizer: &Normalizer, all: &mut Vec<(Role, DialoguePart)>) {
    let role = match text(message, "role") {
        "assistant" => Role::Model,
        "user" => Role::User,
        _ => return,
    };
    match message.get("content") {
        Some(Value::String(text)) => push_text(role, text, normalizer, all),
        Some(Value::Array(blocks)) => {
            for block in blocks {
                match text(block, "type") {
                    "text" => push_text(role, text(block, "text"), normalizer, all),
                    // Agents may omit it when they send the conversation back.
                    "thinking" | "redacted_thinking" => {}
                    "tool_use" => {
                        let (id, name) = (text(block, "id").to_owned(), text(block, "name").to_owned());
                        all.push((role, DialoguePart::ToolCall { id, name }));
                    }
                    "tool_result" => {
                        let mut content = tool_result_text(block.get("content"), normalizer);
                        if block.get("is_error").and_then(Value::as_bool) == Some(true) {
                            content.prepend("[error] ");
                        }
                        all.push((
                            role,
                            DialoguePart::ToolResult { call: text(block, "tool_use_id").to_owned(), content },
                        ));
                    }
                    kind => all.push((role, other_part(kind, block, normalizer))),
                }
            }
        }
        _ => {}
    }
}

fn chat(message: &Value, normalizer: &Normalizer, all: &mut Vec<(Role, DialoguePart)>) {
    let role = match text(message, "role") {
        "assistant" => Role::Model,
        "user" => Role::User,
        "tool" => {
            let content = tool_result_text(message.get("content"), normalizer);
            let call = text(message, "tool_call_id").to_owned();
            all.push((Role::User, DialoguePart::ToolResult { call, content }));
            return;
        }
        _ => return,
    };
    push_content(role, message.get("content"), normalizer, all);
    for call in message.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
        let name = call.pointer("/function/name").and_then(Value::as_str).unwrap_or_default();
        all.push((role, DialoguePart::ToolCall { id: text(call, "id").to_owned(), name: name.to_owned() }));
    }
}

fn push_content(
    role: Role,
    content: Option<&Value>,
    normalizer: &Normalizer,
    all: &mut Vec<(Role, DialoguePart)>,
) {
    match content {
        Some(Value::String(text)) => push_text(role, text, normalizer, all),
        Some(Value::Array(blocks)) => {
            for block in blocks {
                match block.get("text").and_then(Value::as_str) {
                    Some(text) => push_text(role, text, normalizer, all),
                    None => all.push((role, other_part(text(block, "type"), block, normalizer))),
                }
            }
        }
        _ => {}
    }
}

fn responses(item: &Value, normalizer: &Normalizer, all: &mut Vec<(Role, DialoguePart)>) {
    let call = text(item, "call_id").to_owned();
    match text(item, "type") {
        "message" | "" => match text(item, "role") {
            "assistant" => push_content(Role::Model, item.get("content"), normalizer, all),
            "user" => push_content(Role::User, item.get("content"), normalizer, all),
            _ => {}
        },
        "reasoning" => {}
        kind if kind.ends_with("_call_output") => {
            all.push((
                Role::User,
                DialoguePart::ToolResult { call, content: tool_result_text(item.get("output"), normalizer) },
            ));
        }
        kind if kind.ends_with("_call") && !call.is_empty() => {
            let name = item.get("name").and_then(Value::as_str).unwrap_or(kind).to_owned();
            all.push((Role::Model, DialoguePart::ToolCall { id: call, name }));
        }
        kind => all.push((Role::Model, other_part(kind, item, normalizer))),
    }
}

/// Gemini calls may lack ids: a call is then identified by its arguments, and a result by the name of its tool.
fn gemini(content: &Value, normalizer: &Normalizer, all: &mut Vec<(Role, DialoguePart)>) {
    let role = if text(content, "role") == "model" { Role::Model } else { Role::User };
    for part in content.get("parts").and_then(Value::as_array).into_iter().flatten() {
        if part.get("thought").and_then(Value::as_bool) == Some(true) {
            continue;
        }
        if let Some(text) = part.get("text").and_then(Value::as_str) {
            push_text(role, text, normalizer, all);
        } else if let Some(call) = part.get("functionCall") {
            let name = text(call, "name").to_owned();
            let arguments = call.get("args").map(Value::to_string).unwrap_or_default();
            let id = match call.get("id").and_then(Value::as_str) {
                Some(id) => id.to_owned(),
                None => BlobId::from_bytes(normalizer.replace_directories(&arguments).as_bytes()).to_string(),
            };
            all.push((role, DialoguePart::ToolCall { id, name }));
        } else if let Some(result) = part.get("functionResponse") {
            let call = match result.get("id").and_then(Value::as_str) {
                Some(id) => id.to_owned(),
                None => text(result, "name").to_owned(),
            };
            let content =
                normalizer.normalize(&result.get("response").map(Value::to_string).unwrap_or_default());
            all.push((Role::User, DialoguePart::ToolResult { call, content }));
        } else {
            all.push((role, other_part("part", part, normalizer)));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(api: Api, body: &Value) {
        let dialogue = read(api, "/", body, &Normalizer::default()).unwrap();
        assert_eq!(dialogue.opening, [DialoguePart::Text("go".into())], "{body}");
        let calls: Vec<_> = dialogue
            .model_parts
            .iter()
            .filter_map(|part| match part {
                DialoguePart::ToolCall { id, name } => Some((id.as_str(), name.as_str())),
                _ => None,
            })
            .collect();
        assert_eq!(calls, [("b", "Bash"), ("a", "Read")], "{body}");
        assert_eq!(dialogue.turn, 2);
        let expected = [("a", "file"), ("b", "out")].map(|(call, content)| DialoguePart::ToolResult {
            call: call.to_owned(),
            content: content.into(),
        });
        assert_eq!(dialogue.new[..2], expected, "{body}");
        assert_eq!(dialogue.new[2..], [DialoguePart::Text("and then?".into())], "{body}");
    }

    #[test]
    fn read_returns_the_same_dialogue_for_every_api() {
        check(
            Api::Messages,
            &json!({ "messages": [
                { "role": "system", "content": "env" },
                { "role": "user", "content": [{ "type": "text", "text": "<system-reminder>x</system-reminder>" }, { "type": "text", "text": "go" }] },
                { "role": "assistant", "content": [{ "type": "thinking", "thinking": "hm" }, { "type": "text", "text": "ok" }, { "type": "tool_use", "id": "b", "name": "Bash", "input": {} }] },
                { "role": "assistant", "content": [{ "type": "tool_use", "id": "a", "name": "Read", "input": {} }] },
                { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "b", "content": "out" }, { "type": "tool_result", "tool_use_id": "a", "content": [{ "type": "text", "text": "file" }] }] },
                { "role": "user", "content": "and then?\n<system-reminder>y</system-reminder>" },
                { "role": "system", "content": "a reminder" },
            ] }),
        );
        check(
            Api::Chat,
            &json!({ "messages": [
                { "role": "system", "content": "env" },
                { "role": "user", "content": "go" },
                { "role": "assistant", "content": "ok", "tool_calls": [{ "id": "b", "function": { "name": "Bash", "arguments": "{}" } }, { "id": "a", "function": { "name": "Read" } }] },
                { "role": "tool", "tool_call_id": "b", "content": "out" },
                { "role": "tool", "tool_call_id": "a", "content": "file" },
                { "role": "user", "content": [{ "type": "text", "text": "and then?" }] },
            ] }),
        );
        check(
            Api::Responses,
            &json!({ "input": [
                { "type": "message", "role": "developer", "content": [{ "type": "input_text", "text": "env" }] },
                { "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "go" }] },
                { "type": "reasoning", "summary": [] },
                { "type": "function_call", "call_id": "b", "name": "Bash", "arguments": "{}" },
                { "type": "custom_tool_call", "call_id": "a", "name": "Read", "input": "" },
                { "type": "function_call_output", "call_id": "b", "output": "out" },
                { "type": "custom_tool_call_output", "call_id": "a", "output": "file" },
                { "role": "user", "content": "and then?" },
            ] }),
        );
        let gemini = read(
            Api::Gemini,
            "/v1beta/models/m:streamGenerateContent",
            &json!({ "contents": [
                { "role": "user", "parts": [{ "text": "go" }] },
                { "role": "model", "parts": [{ "functionCall": { "name": "shell", "args": { "a": 1 } } }] },
                { "role": "user", "parts": [{ "functionResponse": { "name": "shell", "response": { "output": "out" } } }] },
            ] }),
            &Normalizer::default(),
        )
        .unwrap();
        assert!(gemini.stream);
        assert_eq!(
            gemini.new,
            [DialoguePart::ToolResult { call: "shell".into(), content: "{\"output\":\"out\"}".into() }]
        );
        assert_eq!(gemini.turn, 2);
    }

    #[test]
    fn read_returns_none_without_a_conversation() {
        for api in [Api::Messages, Api::CountTokens, Api::Responses, Api::Chat, Api::Gemini] {
            for body in
                [json!(null), json!([]), json!({}), json!({ "messages": 1, "input": 1, "contents": 1 })]
            {
                assert_eq!(read(api, "/", &body, &Normalizer::default()), None, "{api:?} {body}");
            }
        }
    }
}
