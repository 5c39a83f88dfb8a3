//! Decodes one line into one message: reads the `type` tag first, then the typed message.
//!
//! Two passes are cheaper than serde's tagged enums, which buffer the whole message. The tag is usually the first key.

use serde::de::Error;
use serde_json::Deserializer as Json;
use serde_json::value::RawValue;

use super::lenient::LenientDeserialize;
use super::message::{Message, OtherMessage};
use super::raw::SourceText;
use super::repair;
use super::system::SystemMessage;
use super::type_tag::TypeTag;

/// The error for a line that is not a JSON object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a JSON object: {reason}")]
#[non_exhaustive]
pub struct DecodeError {
    /// The problem and its position in the line.
    pub reason: String,
}

pub(crate) fn message(line: &[u8]) -> Result<Message, DecodeError> {
    let text = std::str::from_utf8(line).map_err(|error| DecodeError { reason: error.to_string() })?;
    let source = SourceText::new(text.trim_matches([' ', '\t', '\r', '\n']));
    typed(&source).or_else(|_| rescue(&source))
}

fn typed(source: &SourceText) -> serde_json::Result<Message> {
    let type_tag = TypeTag::read(source.text());
    let message = match type_tag.kind.as_deref() {
        Some("assistant") => whole(source)?.map(Message::Assistant),
        Some("user") => whole(source)?.map(Message::User),
        Some("stream_event") => whole(source)?.map(Message::StreamEvent),
        Some("result") => whole(source)?.map(Message::Result),
        Some("system") => {
            SystemMessage::read(type_tag.subtype.as_deref().unwrap_or_default(), source)?.map(Message::System)
        }
        Some("control_request") => whole(source)?.map(Message::ControlRequest),
        Some("control_response") => whole(source)?.map(Message::ControlResponse),
        Some("control_cancel_request") => whole(source)?.map(Message::ControlCancel),
        Some("rate_limit_event") => whole(source)?.map(Message::RateLimit),
        Some("tool_progress") => whole(source)?.map(Message::ToolProgress),
        Some("auth_status") => whole(source)?.map(Message::AuthStatus),
        Some(kind) if OtherMessage::TYPES.contains(&kind) => whole(source)?.map(Message::Other),
        _ => None,
    };
    match message {
        Some(message) => Ok(message),
        None => unknown(source),
    }
}

fn whole<T: LenientDeserialize>(source: &SourceText) -> serde_json::Result<Option<Box<T>>> {
    let mut input = Json::from_str(source.text());
    let value = T::read(&mut input, source)?;
    input.end()?;
    Ok(value.map(Box::new))
}

fn unknown(source: &SourceText) -> serde_json::Result<Message> {
    let raw: &RawValue = serde_json::from_str(source.text())?;
    if !raw.get().starts_with('{') {
        return Err(Error::custom("not an object"));
    }
    let kind = TypeTag::read(source.text()).kind.unwrap_or_default().into_owned();
    Ok(Message::Unknown { kind, raw: source.whole() })
}

/// Handles valid JSON that the typed decoder rejects: lone surrogates, huge numbers, excessive nesting.
#[cold]
fn rescue(source: &SourceText) -> Result<Message, DecodeError> {
    let fallback = unknown(source).map_err(|error| DecodeError { reason: error.to_string() })?;
    let repaired = repair::lone_surrogates(source.text())
        .and_then(|repaired| typed(&SourceText::in_place_of(source, &repaired)).ok());
    Ok(repaired.unwrap_or(fallback))
}
