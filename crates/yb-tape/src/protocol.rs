//! The model API protocols: reads requests and renders scripted replies.

mod chat;
mod gemini;
mod messages;
mod responses;

use std::borrow::Cow;
use std::sync::Arc;

use hyper::body::Bytes;
use serde_json::{Value, json};

use crate::api_error::ApiErrorKind;
use crate::script::Reply;

/// The protocol of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// Anthropic Messages.
    Messages,
    /// OpenAI Responses.
    Responses,
    /// OpenAI Chat Completions, also supported by many other servers.
    Chat,
    /// Gemini `generateContent` and `streamGenerateContent`.
    Gemini(gemini::ResponseFormat),
}

/// The endpoint of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// Generates a model response.
    Generate(Protocol),
    /// Counts the tokens of a conversation.
    CountTokens(Protocol),
}

/// Metadata of a response, besides its content.
#[derive(Debug, Clone)]
pub(crate) struct ReplyContext {
    pub(crate) model: String,
    pub(crate) lane: String,
    /// From 1.
    pub(crate) turn: usize,
    /// From 1; each attempt gets new ids, as with a real API.
    pub(crate) attempt: u64,
    /// Declared tools whose input is a text instead of a JSON object.
    pub(crate) text_tools: Vec<String>,
    /// Whether a stream ends with its usage, in protocols where the client decides that.
    pub(crate) includes_usage: bool,
}

impl ReplyContext {
    /// Returns the id of the response, or of the block with this index.
    fn id(&self, prefix: &str, index: Option<usize>) -> String {
        let index = index.map(|index| format!("_{}", index + 1)).unwrap_or_default();
        let retry = if self.attempt > 1 { format!("_try{}", self.attempt) } else { String::new() };
        format!("{prefix}{}_{}{index}{retry}", self.lane, self.turn)
    }
}

impl Endpoint {
    /// Returns the endpoint of a `POST` request. The path may have any prefix.
    pub(crate) fn from_path(path: &str, query: &str) -> Option<Self> {
        let path = path.trim_end_matches('/');
        if path == "/v1/messages" {
            return Some(Self::Generate(Protocol::Messages));
        }
        if path == "/v1/messages/count_tokens" {
            return Some(Self::CountTokens(Protocol::Messages));
        }
        if path.ends_with("/chat/completions") {
            return Some(Self::Generate(Protocol::Chat));
        }
        if path.ends_with("/responses") {
            return Some(Self::Generate(Protocol::Responses));
        }
        let (_, method) = path.rsplit_once("/models/")?.1.rsplit_once(':')?;
        match method {
            "generateContent" => Some(Self::Generate(Protocol::Gemini(gemini::ResponseFormat::Json))),
            "streamGenerateContent" if query.split('&').any(|part| part == "alt=sse") => {
                Some(Self::Generate(Protocol::Gemini(gemini::ResponseFormat::Sse)))
            }
            "streamGenerateContent" => {
                Some(Self::Generate(Protocol::Gemini(gemini::ResponseFormat::JsonArray)))
            }
            "countTokens" => Some(Self::CountTokens(Protocol::Gemini(gemini::ResponseFormat::Json))),
            _ => None,
        }
    }
}

impl Protocol {
    /// Converts the request to the shape of a Messages request, as far as selecting a reply needs it.
    pub(crate) fn read<'b>(self, body: &'b Value) -> Cow<'b, Value> {
        match self {
            Self::Messages => Cow::Borrowed(body),
            Self::Responses => Cow::Owned(responses::read(body)),
            Self::Chat => Cow::Owned(chat::read(body)),
            Self::Gemini(_) => Cow::Owned(gemini::read(body)),
        }
    }

    /// Returns the error message for a request without a conversation.
    pub(crate) fn invalid_body_message(self) -> &'static str {
        match self {
            Self::Messages | Self::Chat => "body is not a JSON object with a list of `messages`",
            Self::Responses => "body is not a JSON object with `input`",
            Self::Gemini(_) => "body is not a JSON object with a list of `contents`",
        }
    }

    /// Returns whether the request asks for a stream.
    pub(crate) fn streams(self, body: &Value) -> bool {
        match self {
            Self::Gemini(form) => form != gemini::ResponseFormat::Json,
            _ => body.get("stream").and_then(Value::as_bool).unwrap_or(false),
        }
    }

    /// Returns the requested model.
    pub(crate) fn model<'r>(self, body: &'r Value, path: &'r str) -> Option<&'r str> {
        match self {
            Self::Gemini(_) => Some(path.rsplit_once("/models/")?.1.rsplit_once(':')?.0),
            _ => body.get("model").and_then(Value::as_str),
        }
    }

    /// Returns whether a stream includes its usage.
    pub(crate) fn includes_usage(self, body: &Value) -> bool {
        self != Self::Chat || body.pointer("/stream_options/include_usage") == Some(&Value::Bool(true))
    }

    /// Returns the content type of a stream.
    pub(crate) fn stream_type(self) -> &'static str {
        match self {
            Self::Gemini(gemini::ResponseFormat::JsonArray) => "application/json",
            _ => "text/event-stream; charset=utf-8",
        }
    }

    /// Returns the reply as one message.
    pub(crate) fn message(self, reply: &Reply, context: &ReplyContext) -> Value {
        match self {
            Self::Messages => messages::message(reply, context),
            Self::Responses => responses::message(reply, context),
            Self::Chat => chat::message(reply, context),
            Self::Gemini(_) => gemini::message(reply, context),
        }
    }

    /// Returns the frames of a streamed reply, generated lazily to save memory for long texts in small deltas.
    pub(crate) fn frames(
        self,
        reply: Arc<Reply>,
        context: ReplyContext,
    ) -> Box<dyn Iterator<Item = Bytes> + Send> {
        match self {
            Self::Messages => Box::new(messages::events(reply, context).map(|event| named_event(&event))),
            Self::Responses => Box::new(responses::events(reply, context).map(|event| named_event(&event))),
            Self::Chat => Box::new(
                chat::chunks(reply, context)
                    .map(|chunk| data_event(&chunk))
                    .chain([Bytes::from_static(b"data: [DONE]\n\n")]),
            ),
            Self::Gemini(gemini::ResponseFormat::JsonArray) => {
                gemini::json_array(gemini::chunks(reply, context))
            }
            Self::Gemini(_) => Box::new(gemini::chunks(reply, context).map(|chunk| data_event(&chunk))),
        }
    }

    /// Returns the body of an error response.
    pub(crate) fn error(self, kind: ApiErrorKind, status: u16, message: &str, request_id: &str) -> Value {
        match self {
            Self::Messages => kind.envelope(message, request_id),
            Self::Responses | Self::Chat => json!({ "error": {
                "message": message, "type": kind.openai_type(), "param": null, "code": kind.openai_code(),
            } }),
            Self::Gemini(_) => gemini::error(kind, status, message),
        }
    }

    /// Returns the frame that ends a failed stream.
    pub(crate) fn error_frame(
        self,
        kind: ApiErrorKind,
        message: &str,
        request_id: &str,
        context: &ReplyContext,
    ) -> Bytes {
        match self {
            Self::Messages => named_event(&kind.envelope(message, request_id)),
            Self::Responses => named_event(&responses::failed(kind, message, context)),
            Self::Chat => data_event(&self.error(kind, self.status(kind), message, request_id)),
            Self::Gemini(form) => {
                let error = gemini::error(kind, self.status(kind), message);
                if form == gemini::ResponseFormat::JsonArray {
                    Bytes::from(format!(",\n{error}]"))
                } else {
                    data_event(&error)
                }
            }
        }
    }

    /// Returns the HTTP status of an error.
    pub(crate) fn status(self, kind: ApiErrorKind) -> u16 {
        match (self, kind) {
            (Self::Messages, _) => kind.status(),
            // 529 is specific to Anthropic.
            (_, ApiErrorKind::Overloaded) => 503,
            _ => kind.status(),
        }
    }

    /// Returns the body of a token count.
    pub(crate) fn token_count(self, tokens: usize) -> Value {
        match self {
            Self::Gemini(_) => json!({ "totalTokens": tokens }),
            _ => json!({ "input_tokens": tokens }),
        }
    }
}

/// Splits a text into chunks of `size` characters.
struct TextChunks {
    text: String,
    at: usize,
    size: usize,
}

impl TextChunks {
    fn new(text: String, size: usize) -> Self {
        Self { text, at: 0, size }
    }
}

impl Iterator for TextChunks {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let rest = &self.text[self.at..];
        if rest.is_empty() {
            return None;
        }
        let end = rest.char_indices().nth(self.size).map_or(rest.len(), |(end, _)| end);
        self.at += end;
        Some(rest[..end].to_owned())
    }
}

/// Encodes an event named after its `type`.
fn named_event(event: &Value) -> Bytes {
    let name = event.get("type").and_then(Value::as_str).unwrap_or("message");
    Bytes::from(format!("event: {name}\ndata: {event}\n\n"))
}

/// Encodes an event without a name.
fn data_event(event: &Value) -> Bytes {
    Bytes::from(format!("data: {event}\n\n"))
}

/// Creates a text block in the shape of a Messages request.
fn text_block(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

/// Creates a tool definition in the shape of a Messages request.
fn tool(name: &Value, schema: Option<&Value>) -> Value {
    json!({ "name": name, "input_schema": schema.unwrap_or(&Value::Null) })
}

#[cfg(test)]
mod tests {
    use super::gemini::ResponseFormat;
    use super::{Endpoint, Protocol};

    #[test]
    fn endpoint_is_derived_from_the_path() {
        for (path, query, expected) in [
            ("/v1/messages", "beta=true", Some(Endpoint::Generate(Protocol::Messages))),
            ("/v1/messages/count_tokens", "", Some(Endpoint::CountTokens(Protocol::Messages))),
            ("/v1/chat/completions", "", Some(Endpoint::Generate(Protocol::Chat))),
            ("/chat/completions", "", Some(Endpoint::Generate(Protocol::Chat))),
            ("/v1/responses", "", Some(Endpoint::Generate(Protocol::Responses))),
            (
                "/v1beta/models/g:generateContent",
                "",
                Some(Endpoint::Generate(Protocol::Gemini(ResponseFormat::Json))),
            ),
            (
                "/v1beta/models/g:streamGenerateContent",
                "alt=sse",
                Some(Endpoint::Generate(Protocol::Gemini(ResponseFormat::Sse))),
            ),
            (
                "/v1/models/g:streamGenerateContent",
                "",
                Some(Endpoint::Generate(Protocol::Gemini(ResponseFormat::JsonArray))),
            ),
            (
                "/v1beta/models/g:countTokens",
                "",
                Some(Endpoint::CountTokens(Protocol::Gemini(ResponseFormat::Json))),
            ),
            ("/v1beta/models/g:embedContent", "", None),
            ("/v1/messages/batches", "", None),
            ("/", "", None),
        ] {
            assert_eq!(Endpoint::from_path(path, query), expected, "{path}");
        }
    }
}
