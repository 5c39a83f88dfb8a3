//! Recognizes messages that hold a piece of a text, whatever protocol they belong to: Claude Code's `stream_event`, the
//! `delta` of Gemini CLI, the chunks of the Agent Client Protocol, the events of model APIs.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use serde_json::Value;

/// Parts of names that mark a piece.
const WORDS: [&str; 3] = ["delta", "chunk", "partial"];
/// Fields that tell texts apart, by their values.
const DISCRIMINATORS: [&str; 17] = [
    "type",
    "subtype",
    "index",
    "role",
    "method",
    "sessionUpdate",
    "sessionId",
    "parent_tool_use_id",
    "parentToolCallId",
    "messageId",
    "message_id",
    "toolCallId",
    "tool_call_id",
    "item_id",
    "itemId",
    "output_index",
    "content_index",
];
/// Levels of a message that are searched for names.
const MAX_DEPTH: usize = 6;

/// Whether a line may be such a message. Most lines are not, and need not be parsed.
pub(crate) fn may_be_delta(line: &[u8]) -> bool {
    static FINDERS: LazyLock<[Finder<'static>; 6]> =
        LazyLock::new(|| ["delta", "chunk", "partial", "Delta", "Chunk", "Partial"].map(Finder::new));
    FINDERS.iter().any(|finder| finder.find(line).is_some())
}

/// Whether a message holds pieces: a type or a field is named so.
pub(crate) fn is_delta(message: &Value) -> bool {
    is_named(message, 0)
}

fn is_named(value: &Value, depth: usize) -> bool {
    let has_word = |text: &str| WORDS.iter().any(|word| text.to_ascii_lowercase().contains(word));
    match value {
        Value::Object(fields) if depth < MAX_DEPTH => fields.iter().any(|(name, field)| {
            let is_set = !matches!(field, Value::Null | Value::Bool(false));
            let is_typed = matches!(name.as_str(), "type" | "subtype" | "method" | "sessionUpdate")
                && field.as_str().is_some_and(has_word);
            is_set && has_word(name) || is_typed || is_named(field, depth + 1)
        }),
        Value::Array(items) if depth < MAX_DEPTH => items.iter().any(|item| is_named(item, depth + 1)),
        _ => false,
    }
}

/// One string of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    /// JSON pointer of the string.
    pub(crate) pointer: String,
    /// Pieces of one channel form one text.
    pub(crate) channel: String,
}

/// Whether a field is no text: it tells texts apart, or is different in each message.
pub(crate) fn is_label(name: &str) -> bool {
    DISCRIMINATORS.contains(&name)
        || name.ends_with("id")
        || name.ends_with("Id")
        || name.eq_ignore_ascii_case("timestamp")
}

/// Returns all strings of a message but its labels.
pub(crate) fn pieces(message: &Value) -> Vec<Piece> {
    let mut found = Vec::new();
    let mut identity = String::new();
    collect(message, String::new(), &mut identity, &mut found);
    for pointer in &mut found {
        pointer.channel = format!("{identity}{}", pointer.pointer);
    }
    found
}

fn collect(value: &Value, pointer: String, identity: &mut String, found: &mut Vec<Piece>) {
    match value {
        Value::String(_) => found.push(Piece { pointer, channel: String::new() }),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                collect(item, format!("{pointer}/{index}"), identity, found);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                let inner = format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"));
                if field.is_object() || field.is_array() || !is_label(name) {
                    collect(field, inner, identity, found);
                } else if DISCRIMINATORS.contains(&name.as_str()) {
                    identity.push_str(&format!("{inner}={field} "));
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn deltas_of_all_protocols_are_recognized() {
        for message in [
            json!({"type": "stream_event", "event": {"type": "content_block_delta", "index": 0,
                "delta": {"type": "text_delta", "text": "a"}}}),
            json!({"type": "message", "role": "assistant", "content": "a", "delta": true}),
            json!({"method": "session/update", "params": {"sessionId": "s", "update":
                {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "a"}}}}),
            json!({"type": "assistant.message_delta", "data": {"messageId": "m", "deltaContent": "a"}}),
            json!({"type": "response.output_text.delta", "delta": "a"}),
            json!({"choices": [], "data": {"partialText": "a"}}),
        ] {
            assert!(is_delta(&message) && may_be_delta(message.to_string().as_bytes()), "{message}");
        }
        for message in [
            json!({"type": "assistant", "message": {"content": [{"type": "text", "text": "a delta, a chunk"}]}}),
            json!({"type": "message", "role": "user", "content": "a", "delta": false}),
        ] {
            assert!(!is_delta(&message), "{message}");
        }
        assert!(!may_be_delta(br#"{"type":"assistant","text":"plain"}"#));
    }

    #[test]
    fn pieces_of_different_blocks_have_different_channels() {
        let channel = |index: u64, uuid: &str| {
            let message = json!({"type": "stream_event", "uuid": uuid, "event": {"type": "content_block_delta",
                "index": index, "delta": {"type": "text_delta", "text": "a"}}});
            let pieces = pieces(&message);
            pieces.iter().find(|piece| piece.pointer == "/event/delta/text").unwrap().channel.clone()
        };
        assert_eq!(channel(0, "a"), channel(0, "b"));
        assert_ne!(channel(0, "a"), channel(1, "a"));
    }
}
