//! Partial responses, with `--include-partial-messages`.

use serde::Deserialize;
use serde::de::{Deserializer, Error};
use serde_json::value::RawValue;

use super::block::Block;
use super::lenient::{LenientDeserialize, lenient_struct};
use super::message::ApiMessage;
use super::raw::{RawJson, SourceText};
use super::result::Usage;
use super::type_tag::TypeTag;

lenient_struct! {
    /// A message with one event of the API's stream.
    pub struct StreamEvent {
        raw,
        /// The event.
        event: ApiEvent = "event",
        /// The tool call that started the subagent; `None` for the main thread.
        parent_tool_use_id: Option<String> = "parent_tool_use_id",
        /// The session ID.
        session_id: Option<String> = "session_id",
        /// The time to the first token, in milliseconds.
        ttft_ms: Option<u64> = "ttft_ms",
        /// The message's UUID.
        uuid: Option<String> = "uuid",
    }
}

impl StreamEvent {
    /// Returns the text delta, if the event has one.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match &self.event {
            ApiEvent::BlockDelta { delta: Delta::Text(text), .. } => Some(text),
            _ => None,
        }
    }
}

/// An event of the API's stream.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ApiEvent {
    /// The start of a response.
    MessageStart(Box<ApiMessage>),
    /// The start of a content block.
    BlockStart {
        /// The index of the block.
        index: u64,
        /// The empty block.
        block: Block,
    },
    /// An addition to a content block.
    BlockDelta {
        /// The index of the block.
        index: u64,
        /// The addition.
        delta: Delta,
    },
    /// The end of a content block.
    BlockStop {
        /// The index of the block.
        index: u64,
    },
    /// The final fields of a response.
    MessageDelta {
        /// Why the model stopped.
        stop_reason: Option<String>,
        /// The usage.
        usage: Option<Box<Usage>>,
    },
    /// The end of a response.
    MessageStop,
    /// A keep-alive event.
    Ping,
    /// A type that this version does not know.
    Unknown {
        /// The `type`; empty if absent.
        kind: String,
        /// The whole value.
        raw: RawJson,
    },
}

/// An addition to a content block.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Delta {
    /// Text.
    Text(String),
    /// Thinking.
    Thinking(String),
    /// The signature of the thinking.
    Signature(String),
    /// A piece of the JSON of a tool's input.
    InputJson(String),
    /// A type that this version does not know.
    Unknown {
        /// The `type`; empty if absent.
        kind: String,
        /// The whole value.
        raw: RawJson,
    },
}

lenient_struct! {
    /// The union of the fields of all events.
    struct EventFields {
        /// Of `message_start`.
        message: Option<ApiMessage> = "message",
        /// Of the `content_block_*` events.
        index: u64 = "index",
        /// Of `content_block_start`.
        block: Option<Block> = "content_block",
        /// Of `content_block_delta` and `message_delta`.
        delta: Option<RawJson> = "delta",
        /// Of `message_delta`.
        usage: Option<Usage> = "usage",
    }
}

lenient_struct! {
    /// The union of the fields of all deltas.
    struct DeltaFields {
        /// Of `text_delta`.
        text: String = "text",
        /// Of `thinking_delta`.
        thinking: String = "thinking",
        /// Of `signature_delta`.
        signature: String = "signature",
        /// Of `input_json_delta`.
        partial_json: String = "partial_json",
        /// Of `message_delta`.
        stop_reason: Option<String> = "stop_reason",
    }
}

impl Default for ApiEvent {
    fn default() -> Self {
        Self::Unknown { kind: String::new(), raw: RawJson::default() }
    }
}

impl LenientDeserialize for ApiEvent {
    fn read<'de, D: Deserializer<'de>>(input: D, source: &SourceText) -> Result<Option<Self>, D::Error> {
        let raw = <&RawValue>::deserialize(input)?.get();
        typed(raw, source).map_err(D::Error::custom).map(Some)
    }
}

fn typed(raw: &str, source: &SourceText) -> serde_json::Result<ApiEvent> {
    let kind = TypeTag::read(raw).kind.unwrap_or_default();
    let event: EventFields = read(raw, source)?;
    let (index, delta) = (event.index, event.delta);
    let known = match &*kind {
        "message_start" => event.message.map(Box::new).map(ApiEvent::MessageStart),
        "content_block_start" => event.block.map(|block| ApiEvent::BlockStart { index, block }),
        "content_block_delta" => match delta {
            Some(delta) => Some(ApiEvent::BlockDelta { index, delta: typed_delta(&delta, source)? }),
            None => None,
        },
        "content_block_stop" => Some(ApiEvent::BlockStop { index }),
        "message_delta" => {
            let fields: DeltaFields =
                delta.map_or(Ok(None), |delta| read(delta.as_str(), source).map(Some))?.unwrap_or_default();
            let usage = event.usage.map(Box::new);
            Some(ApiEvent::MessageDelta { stop_reason: fields.stop_reason, usage })
        }
        "message_stop" => Some(ApiEvent::MessageStop),
        "ping" => Some(ApiEvent::Ping),
        _ => None,
    };
    Ok(known.unwrap_or_else(|| ApiEvent::Unknown { kind: kind.into_owned(), raw: source.part(raw) }))
}

fn typed_delta(raw: &RawJson, source: &SourceText) -> serde_json::Result<Delta> {
    let kind = TypeTag::read(raw.as_str()).kind.unwrap_or_default();
    let fields: DeltaFields = read(raw.as_str(), source)?;
    Ok(match &*kind {
        "text_delta" => Delta::Text(fields.text),
        "thinking_delta" => Delta::Thinking(fields.thinking),
        "signature_delta" => Delta::Signature(fields.signature),
        "input_json_delta" => Delta::InputJson(fields.partial_json),
        _ => Delta::Unknown { kind: kind.into_owned(), raw: raw.clone() },
    })
}

fn read<T: LenientDeserialize + Default>(raw: &str, source: &SourceText) -> serde_json::Result<T> {
    T::read(&mut serde_json::Deserializer::from_str(raw), source).map(Option::unwrap_or_default)
}
