//! Pieces of an answer while it is written, with `--include-partial-messages`.

use serde::Deserialize;
use serde::de::{Deserializer, Error};
use serde_json::value::RawValue;

use super::block::Block;
use super::lax::{Lax, lax_struct};
use super::message::ApiMessage;
use super::peek::Peek;
use super::raw::{RawJson, Source};
use super::result::Usage;

lax_struct! {
    /// One event of the API's stream.
    pub struct StreamEvent {
        raw,
        /// The event.
        event: ApiEvent = "event",
        /// The call of the subagent that it belongs to; none for the main thread.
        parent_tool_use_id: Option<String> = "parent_tool_use_id",
        /// The session.
        session_id: Option<String> = "session_id",
        /// Until the first token came.
        ttft_ms: Option<u64> = "ttft_ms",
        /// The message's own id.
        uuid: Option<String> = "uuid",
    }
}

impl StreamEvent {
    /// The next words of the answer, if the event brings some.
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
    /// An answer begins.
    MessageStart(Box<ApiMessage>),
    /// A part of it begins.
    BlockStart {
        /// The number of the part.
        index: u64,
        /// The part, still empty.
        block: Block,
    },
    /// A part grows.
    BlockDelta {
        /// The number of the part.
        index: u64,
        /// By this.
        delta: Delta,
    },
    /// A part is complete.
    BlockStop {
        /// The number of the part.
        index: u64,
    },
    /// The answer stops.
    MessageDelta {
        /// Why.
        stop_reason: Option<String>,
        /// What it used.
        usage: Option<Box<Usage>>,
    },
    /// The answer is complete.
    MessageStop,
    /// A sign of life.
    Ping,
    /// A kind that this version does not know.
    Unknown {
        /// Its `type`; empty when it has none.
        kind: String,
        /// All of it.
        raw: RawJson,
    },
}

/// What a part grows by.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Delta {
    /// Text.
    Text(String),
    /// Thinking.
    Thinking(String),
    /// The signature of the thinking.
    Signature(String),
    /// A piece of the JSON that is a tool's input.
    InputJson(String),
    /// A kind that this version does not know.
    Unknown {
        /// Its `type`; empty when it has none.
        kind: String,
        /// All of it.
        raw: RawJson,
    },
}

lax_struct! {
    /// The fields of all events together.
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

lax_struct! {
    /// The fields of all deltas together.
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

impl Lax for ApiEvent {
    fn read<'de, D: Deserializer<'de>>(input: D, source: &Source) -> Result<Option<Self>, D::Error> {
        let raw = <&RawValue>::deserialize(input)?.get();
        typed(raw, source).map_err(D::Error::custom).map(Some)
    }
}

fn typed(raw: &str, source: &Source) -> serde_json::Result<ApiEvent> {
    let kind = Peek::at(raw).kind.unwrap_or_default();
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

fn typed_delta(raw: &RawJson, source: &Source) -> serde_json::Result<Delta> {
    let kind = Peek::at(raw.as_str()).kind.unwrap_or_default();
    let fields: DeltaFields = read(raw.as_str(), source)?;
    Ok(match &*kind {
        "text_delta" => Delta::Text(fields.text),
        "thinking_delta" => Delta::Thinking(fields.thinking),
        "signature_delta" => Delta::Signature(fields.signature),
        "input_json_delta" => Delta::InputJson(fields.partial_json),
        _ => Delta::Unknown { kind: kind.into_owned(), raw: raw.clone() },
    })
}

fn read<T: Lax + Default>(raw: &str, source: &Source) -> serde_json::Result<T> {
    T::read(&mut serde_json::Deserializer::from_str(raw), source).map(Option::unwrap_or_default)
}
