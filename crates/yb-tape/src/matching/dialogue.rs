//! A request as a dialogue, in any of the APIs that are known: what opened it, what the model has said, what is new.

use serde_json::Value;

use super::normal::Normal;
use crate::conversation::without_reminders;
use crate::format::Id;

/// An API whose requests can be matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Api {
    /// Anthropic's.
    Messages,
    /// The same, asking only for the number of tokens.
    CountTokens,
    /// OpenAI's newer one.
    Responses,
    /// OpenAI's older one, which many others speak.
    Chat,
    Gemini,
}

impl Api {
    /// The API of a request; none for anything else that an agent may ask.
    pub(crate) fn of(method: &str, path: &str) -> Option<Self> {
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

/// Something that was said, called or returned.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    Said(String),
    /// What a tool returned.
    Result {
        call: String,
        content: String,
    },
    /// What the model called. Its id came from the tape, so its input did as well.
    Call {
        id: String,
        name: String,
    },
    /// Anything else, by its hash.
    Other {
        kind: String,
        id: String,
    },
}

impl Part {
    /// What it is, for a person.
    pub(crate) fn title(&self) -> String {
        match self {
            Self::Said(_) => "what the user says".to_owned(),
            Self::Result { call, .. } => format!("the result of tool call `{call}`"),
            Self::Call { name, id } => format!("a call of `{name}` (`{id}`)"),
            Self::Other { kind, .. } => format!("a part of kind `{kind}`"),
        }
    }

    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Said(text) | Self::Result { content: text, .. } => text,
            Self::Call { id, .. } | Self::Other { id, .. } => id,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    User,
    Model,
}

/// A request's conversation, comparable with that of another run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dialogue {
    /// Before the model first spoke.
    pub(crate) opening: Vec<Part>,
    /// All that the model has said.
    pub(crate) spoken: Vec<Part>,
    /// After the model last spoke; results first, by their call.
    pub(crate) new: Vec<Part>,
    /// How often the model has spoken, plus one.
    pub(crate) turn: usize,
    /// Whether the answer is wanted as a stream.
    pub(crate) stream: bool,
}

/// Reads a request's body; nothing when it is not one of that API.
pub(crate) fn read(api: Api, path: &str, body: &Value, normal: &Normal) -> Option<Dialogue> {
    let mut all: Vec<(Who, Part)> = Vec::new();
    match api {
        Api::Messages | Api::CountTokens if body.get("messages").is_some() => {
            for message in body.get("messages")?.as_array()? {
                messages(message, normal, &mut all);
            }
        }
        Api::Chat => {
            for message in body.get("messages")?.as_array()? {
                chat(message, normal, &mut all);
            }
        }
        Api::Responses => match body.get("input")? {
            Value::String(text) => say(Who::User, text, normal, &mut all),
            input => input.as_array()?.iter().for_each(|item| responses(item, normal, &mut all)),
        },
        Api::Messages => return None,
        Api::Gemini | Api::CountTokens => {
            for content in body.get("contents")?.as_array()? {
                gemini(content, normal, &mut all);
            }
        }
    }
    let stream = path.contains(":streamGenerateContent")
        || body.get("stream").and_then(Value::as_bool).unwrap_or(false);
    Some(divide(all, stream))
}

fn divide(all: Vec<(Who, Part)>, stream: bool) -> Dialogue {
    let mut dialogue = Dialogue { opening: Vec::new(), spoken: Vec::new(), new: Vec::new(), turn: 1, stream };
    let mut last = Who::User;
    for (who, part) in all {
        match who {
            Who::Model => {
                if last == Who::User {
                    dialogue.turn += 1;
                    dialogue.new.clear();
                }
                dialogue.spoken.push(part);
            }
            Who::User if dialogue.spoken.is_empty() => dialogue.opening.push(part),
            Who::User => dialogue.new.push(part),
        }
        last = who;
    }
    // Tools that ran side by side return in any order.
    dialogue.new.sort_by(|a, b| match (a, b) {
        (Part::Result { call: a, .. }, Part::Result { call: b, .. }) => a.cmp(b),
        (Part::Result { .. }, _) => std::cmp::Ordering::Less,
        (_, Part::Result { .. }) => std::cmp::Ordering::Greater,
        _ => std::cmp::Ordering::Equal,
    });
    dialogue
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// What a user says loses its reminders and whatever differs between runs; what a model says came from the tape.
fn say(who: Who, said: &str, normal: &Normal, all: &mut Vec<(Who, Part)>) {
    let said = match who {
        Who::User => normal.text(&without_reminders(said)),
        Who::Model => normal.placeless(said.trim()).into_owned(),
    };
    if !said.is_empty() {
        all.push((who, Part::Said(said)));
    }
}

fn other(kind: &str, value: &Value, normal: &Normal) -> Part {
    let mut value = value.clone();
    if let Some(fields) = value.as_object_mut() {
        fields.remove("cache_control");
    }
    let id = Id::of(normal.text(&value.to_string()).as_bytes());
    Part::Other { kind: kind.to_owned(), id: id.to_string() }
}

/// What a tool returned, as one text; what is no text is there by its hash.
fn returned(content: Option<&Value>, normal: &Normal) -> String {
    let one = |block: &Value| match block {
        Value::String(text) => normal.text(&without_reminders(text)),
        block => match ["text", "output"].iter().find_map(|key| block.get(key)?.as_str()) {
            Some(text) => normal.text(&without_reminders(text)),
            None => match other(text(block, "type"), block, normal) {
                Part::Other { kind, id } => format!("[{kind} {id}]"),
                part => part.text().to_owned(),
            },
        },
    };
    match content {
        None | Some(Value::Null) => String::new(),
        Some(Value::Array(blocks)) => blocks.iter().map(one).collect::<Vec<_>>().join("\n"),
        Some(block) => one(block),
    }
}

fn messages(message: &Value, normal: &Normal, all: &mut Vec<(Who, Part)>) {
    let who = match text(message, "role") {
        "assistant" => Who::Model,
        "user" => Who::User,
        _ => return,
    };
    match message.get("content") {
        Some(Value::String(said)) => say(who, said, normal, all),
        Some(Value::Array(blocks)) => {
            for block in blocks {
                match text(block, "type") {
                    "text" => say(who, text(block, "text"), normal, all),
                    // An agent may leave it out of what it sends back.
                    "thinking" | "redacted_thinking" => {}
                    "tool_use" => {
                        let (id, name) = (text(block, "id").to_owned(), text(block, "name").to_owned());
                        all.push((who, Part::Call { id, name }));
                    }
                    "tool_result" => {
                        let mut content = returned(block.get("content"), normal);
                        if block.get("is_error").and_then(Value::as_bool) == Some(true) {
                            content.insert_str(0, "[error] ");
                        }
                        all.push((
                            who,
                            Part::Result { call: text(block, "tool_use_id").to_owned(), content },
                        ));
                    }
                    kind => all.push((who, other(kind, block, normal))),
                }
            }
        }
        _ => {}
    }
}

fn chat(message: &Value, normal: &Normal, all: &mut Vec<(Who, Part)>) {
    let who = match text(message, "role") {
        "assistant" => Who::Model,
        "user" => Who::User,
        "tool" => {
            let content = returned(message.get("content"), normal);
            let call = text(message, "tool_call_id").to_owned();
            all.push((Who::User, Part::Result { call, content }));
            return;
        }
        _ => return,
    };
    spoken_or_shown(who, message.get("content"), normal, all);
    for call in message.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
        let name = call.pointer("/function/name").and_then(Value::as_str).unwrap_or_default();
        all.push((who, Part::Call { id: text(call, "id").to_owned(), name: name.to_owned() }));
    }
}

fn spoken_or_shown(who: Who, content: Option<&Value>, normal: &Normal, all: &mut Vec<(Who, Part)>) {
    match content {
        Some(Value::String(said)) => say(who, said, normal, all),
        Some(Value::Array(blocks)) => {
            for block in blocks {
                match block.get("text").and_then(Value::as_str) {
                    Some(said) => say(who, said, normal, all),
                    None => all.push((who, other(text(block, "type"), block, normal))),
                }
            }
        }
        _ => {}
    }
}

fn responses(item: &Value, normal: &Normal, all: &mut Vec<(Who, Part)>) {
    let call = text(item, "call_id").to_owned();
    match text(item, "type") {
        "message" | "" => match text(item, "role") {
            "assistant" => spoken_or_shown(Who::Model, item.get("content"), normal, all),
            "user" => spoken_or_shown(Who::User, item.get("content"), normal, all),
            _ => {}
        },
        "reasoning" => {}
        kind if kind.ends_with("_call_output") => {
            all.push((Who::User, Part::Result { call, content: returned(item.get("output"), normal) }));
        }
        kind if kind.ends_with("_call") && !call.is_empty() => {
            let name = item.get("name").and_then(Value::as_str).unwrap_or(kind).to_owned();
            all.push((Who::Model, Part::Call { id: call, name }));
        }
        kind => all.push((Who::Model, other(kind, item, normal))),
    }
}

/// Gemini's calls have no ids: the n-th call of a name gets the n-th result of that name.
fn gemini(content: &Value, normal: &Normal, all: &mut Vec<(Who, Part)>) {
    let who = if text(content, "role") == "model" { Who::Model } else { Who::User };
    for part in content.get("parts").and_then(Value::as_array).into_iter().flatten() {
        if part.get("thought").and_then(Value::as_bool) == Some(true) {
            continue;
        }
        if let Some(said) = part.get("text").and_then(Value::as_str) {
            say(who, said, normal, all);
        } else if let Some(call) = part.get("functionCall") {
            let name = text(call, "name").to_owned();
            let arguments = call.get("args").map(Value::to_string).unwrap_or_default();
            let id = match call.get("id").and_then(Value::as_str) {
                Some(id) => id.to_owned(),
                None => Id::of(normal.placeless(&arguments).as_bytes()).to_string(),
            };
            all.push((who, Part::Call { id, name }));
        } else if let Some(result) = part.get("functionResponse") {
            let call = match result.get("id").and_then(Value::as_str) {
                Some(id) => id.to_owned(),
                None => text(result, "name").to_owned(),
            };
            let content = normal.text(&result.get("response").map(Value::to_string).unwrap_or_default());
            all.push((Who::User, Part::Result { call, content }));
        } else {
            all.push((who, other("part", part, normal)));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(api: Api, body: &Value) {
        let dialogue = read(api, "/", body, &Normal::default()).unwrap();
        assert_eq!(dialogue.opening, [Part::Said("go".to_owned())], "{body}");
        let calls: Vec<_> = dialogue
            .spoken
            .iter()
            .filter_map(|part| match part {
                Part::Call { id, name } => Some((id.as_str(), name.as_str())),
                _ => None,
            })
            .collect();
        assert_eq!(calls, [("b", "Bash"), ("a", "Read")], "{body}");
        assert_eq!(dialogue.turn, 2);
        let expected = [("a", "file"), ("b", "out")]
            .map(|(call, content)| Part::Result { call: call.to_owned(), content: content.to_owned() });
        assert_eq!(dialogue.new[..2], expected, "{body}");
        assert_eq!(dialogue.new[2..], [Part::Said("and then?".to_owned())], "{body}");
    }

    #[test]
    fn every_api_tells_the_same_story() {
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
            &Normal::default(),
        )
        .unwrap();
        assert!(gemini.stream);
        assert_eq!(
            gemini.new,
            [Part::Result { call: "shell".into(), content: "{\"output\":\"out\"}".into() }]
        );
        assert_eq!(gemini.turn, 2);
    }

    #[test]
    fn what_is_no_conversation_is_none() {
        for api in [Api::Messages, Api::CountTokens, Api::Responses, Api::Chat, Api::Gemini] {
            for body in
                [json!(null), json!([]), json!({}), json!({ "messages": 1, "input": 1, "contents": 1 })]
            {
                assert_eq!(read(api, "/", &body, &Normal::default()), None, "{api:?} {body}");
            }
        }
    }
}
