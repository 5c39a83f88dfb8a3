//! One line to one message: a short look at its `type`, then one typed reading.
//!
//! Twice over some bytes is cheaper than once into a tree: serde's tagged enums buffer the whole message first, and
//! the look usually ends at the first key.

use serde::de::Error;
use serde_json::Deserializer as Json;
use serde_json::value::RawValue;

use super::lax::Lax;
use super::message::{Message, Notice};
use super::peek::Peek;
use super::raw::Source;
use super::repair;
use super::system::System;

/// A line that is not a JSON object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a JSON object: {reason}")]
#[non_exhaustive]
pub struct DecodeError {
    /// What is wrong, and where in the line.
    pub reason: String,
}

pub(crate) fn message(line: &[u8]) -> Result<Message, DecodeError> {
    let text = std::str::from_utf8(line).map_err(|error| DecodeError { reason: error.to_string() })?;
    let source = Source::new(text.trim_matches([' ', '\t', '\r', '\n']));
    typed(&source).or_else(|_| rescue(&source))
}

fn typed(source: &Source) -> serde_json::Result<Message> {
    let peek = Peek::at(source.text());
    let message = match peek.kind.as_deref() {
        Some("assistant") => whole(source)?.map(Message::Assistant),
        Some("user") => whole(source)?.map(Message::User),
        Some("stream_event") => whole(source)?.map(Message::StreamEvent),
        Some("result") => whole(source)?.map(Message::Result),
        Some("system") => {
            System::read(peek.subtype.as_deref().unwrap_or_default(), source)?.map(Message::System)
        }
        Some("control_request") => whole(source)?.map(Message::ControlRequest),
        Some("control_response") => whole(source)?.map(Message::ControlResponse),
        Some("control_cancel_request") => whole(source)?.map(Message::ControlCancel),
        Some("rate_limit_event") => whole(source)?.map(Message::RateLimit),
        Some("tool_progress") => whole(source)?.map(Message::ToolProgress),
        Some("auth_status") => whole(source)?.map(Message::AuthStatus),
        Some(kind) if Notice::TYPES.contains(&kind) => whole(source)?.map(Message::Notice),
        _ => None,
    };
    match message {
        Some(message) => Ok(message),
        None => unknown(source),
    }
}

fn whole<T: Lax>(source: &Source) -> serde_json::Result<Option<Box<T>>> {
    let mut input = Json::from_str(source.text());
    let value = T::read(&mut input, source)?;
    input.end()?;
    Ok(value.map(Box::new))
}

fn unknown(source: &Source) -> serde_json::Result<Message> {
    let raw: &RawValue = serde_json::from_str(source.text())?;
    if !raw.get().starts_with('{') {
        return Err(Error::custom("another kind of value"));
    }
    let kind = Peek::at(source.text()).kind.unwrap_or_default().into_owned();
    Ok(Message::Unknown { kind, raw: source.whole() })
}

/// What the typed reading refuses although it is JSON: half surrogate pairs, numbers beyond all bounds, abysses.
#[cold]
fn rescue(source: &Source) -> Result<Message, DecodeError> {
    let fallback = unknown(source).map_err(|error| DecodeError { reason: error.to_string() })?;
    let repaired = repair::lone_surrogates(source.text())
        .and_then(|repaired| typed(&Source::in_place_of(source, &repaired)).ok());
    Ok(repaired.unwrap_or(fallback))
}
