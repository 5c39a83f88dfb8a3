//! The protocols that agents speak to their models: one script, rendered for each.

mod chat;
mod gemini;
mod messages;
mod responses;

use std::borrow::Cow;
use std::sync::Arc;

use hyper::body::Bytes;
use serde_json::{Value, json};

use crate::api_error::Kind;
use crate::script::Reply;

/// Which protocol a request is made in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    /// Anthropic's Messages.
    Messages,
    /// OpenAI's Responses.
    Responses,
    /// OpenAI's Chat Completions, which many other servers speak too.
    Chat,
    /// Google's `generateContent` and `streamGenerateContent`.
    Gemini(gemini::Form),
}

/// What a request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// An answer of the model.
    Answer(Wire),
    /// The number of tokens of a conversation.
    Count(Wire),
}

/// What an answer says about itself, besides its content.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub(crate) model: String,
    pub(crate) lane: String,
    /// From 1.
    pub(crate) turn: usize,
    /// From 1; a repeated answer is a new one with new ids, as at the API.
    pub(crate) attempt: u64,
    /// The tools whose input is a text and no JSON object, as the request declares them.
    pub(crate) text_tools: Vec<String>,
    /// Whether a stream ends with its usage, where that is for the client to say.
    pub(crate) usage_wanted: bool,
}

impl Head {
    /// An id of this answer, or of the block with this index in it.
    fn id(&self, prefix: &str, index: Option<usize>) -> String {
        let index = index.map(|index| format!("_{}", index + 1)).unwrap_or_default();
        let again = if self.attempt > 1 { format!("_try{}", self.attempt) } else { String::new() };
        format!("{prefix}{}_{}{index}{again}", self.lane, self.turn)
    }
}

impl Endpoint {
    /// What a `POST` to this path asks for. A client's base URL may have any prefix.
    pub(crate) fn of(path: &str, query: &str) -> Option<Self> {
        let path = path.trim_end_matches('/');
        if path == "/v1/messages" {
            return Some(Self::Answer(Wire::Messages));
        }
        if path == "/v1/messages/count_tokens" {
            return Some(Self::Count(Wire::Messages));
        }
        if path.ends_with("/chat/completions") {
            return Some(Self::Answer(Wire::Chat));
        }
        if path.ends_with("/responses") {
            return Some(Self::Answer(Wire::Responses));
        }
        let (_, method) = path.rsplit_once("/models/")?.1.rsplit_once(':')?;
        match method {
            "generateContent" => Some(Self::Answer(Wire::Gemini(gemini::Form::Whole))),
            "streamGenerateContent" if query.split('&').any(|part| part == "alt=sse") => {
                Some(Self::Answer(Wire::Gemini(gemini::Form::Events)))
            }
            "streamGenerateContent" => Some(Self::Answer(Wire::Gemini(gemini::Form::List))),
            "countTokens" => Some(Self::Count(Wire::Gemini(gemini::Form::Whole))),
            _ => None,
        }
    }
}

impl Wire {
    /// The request in the shape of a Messages request, as far as choosing a reply needs it.
    pub(crate) fn read<'b>(self, body: &'b Value) -> Cow<'b, Value> {
        match self {
            Self::Messages => Cow::Borrowed(body),
            Self::Responses => Cow::Owned(responses::read(body)),
            Self::Chat => Cow::Owned(chat::read(body)),
            Self::Gemini(_) => Cow::Owned(gemini::read(body)),
        }
    }

    /// What a request without a conversation lacks.
    pub(crate) fn wants(self) -> &'static str {
        match self {
            Self::Messages | Self::Chat => "the body is not a JSON object with a list of `messages`",
            Self::Responses => "the body is not a JSON object with `input`",
            Self::Gemini(_) => "the body is not a JSON object with a list of `contents`",
        }
    }

    /// Whether the answer is to come in pieces.
    pub(crate) fn streams(self, body: &Value) -> bool {
        match self {
            Self::Gemini(form) => form != gemini::Form::Whole,
            _ => body.get("stream").and_then(Value::as_bool).unwrap_or(false),
        }
    }

    /// The model that is asked.
    pub(crate) fn model<'r>(self, body: &'r Value, path: &'r str) -> Option<&'r str> {
        match self {
            Self::Gemini(_) => Some(path.rsplit_once("/models/")?.1.rsplit_once(':')?.0),
            _ => body.get("model").and_then(Value::as_str),
        }
    }

    /// Whether a stream is to tell its usage.
    pub(crate) fn usage_wanted(self, body: &Value) -> bool {
        self != Self::Chat || body.pointer("/stream_options/include_usage") == Some(&Value::Bool(true))
    }

    /// The type of a streamed body.
    pub(crate) fn stream_type(self) -> &'static str {
        match self {
            Self::Gemini(gemini::Form::List) => "application/json",
            _ => "text/event-stream; charset=utf-8",
        }
    }

    /// The whole answer at once.
    pub(crate) fn whole(self, reply: &Reply, head: &Head) -> Value {
        match self {
            Self::Messages => messages::whole(reply, head),
            Self::Responses => responses::whole(reply, head),
            Self::Chat => chat::whole(reply, head),
            Self::Gemini(_) => gemini::whole(reply, head),
        }
    }

    /// The answer in pieces, made one by one: a long text in small deltas would not fit into memory at once.
    pub(crate) fn frames(self, reply: Arc<Reply>, head: Head) -> Box<dyn Iterator<Item = Bytes> + Send> {
        match self {
            Self::Messages => Box::new(messages::events(reply, head).map(|event| named(&event))),
            Self::Responses => Box::new(responses::events(reply, head).map(|event| named(&event))),
            Self::Chat => Box::new(
                chat::chunks(reply, head)
                    .map(|chunk| data(&chunk))
                    .chain([Bytes::from_static(b"data: [DONE]\n\n")]),
            ),
            Self::Gemini(gemini::Form::List) => gemini::list(gemini::chunks(reply, head)),
            Self::Gemini(_) => Box::new(gemini::chunks(reply, head).map(|chunk| data(&chunk))),
        }
    }

    /// The body of an error response.
    pub(crate) fn error(self, kind: Kind, status: u16, message: &str, request_id: &str) -> Value {
        match self {
            Self::Messages => kind.envelope(message, request_id),
            Self::Responses | Self::Chat => json!({ "error": {
                "message": message, "type": kind.openai_type(), "param": null, "code": kind.openai_code(),
            } }),
            Self::Gemini(_) => gemini::error(kind, status, message),
        }
    }

    /// What ends a stream that fails.
    pub(crate) fn error_frame(self, kind: Kind, message: &str, request_id: &str, head: &Head) -> Bytes {
        match self {
            Self::Messages => named(&kind.envelope(message, request_id)),
            Self::Responses => named(&responses::failed(kind, message, head)),
            Self::Chat => data(&self.error(kind, self.status(kind), message, request_id)),
            Self::Gemini(form) => {
                let error = gemini::error(kind, self.status(kind), message);
                if form == gemini::Form::List { Bytes::from(format!(",\n{error}]")) } else { data(&error) }
            }
        }
    }

    /// The status of an error at this API.
    pub(crate) fn status(self, kind: Kind) -> u16 {
        match (self, kind) {
            (Self::Messages, _) => kind.status(),
            // Anthropic's own.
            (_, Kind::Overloaded) => 503,
            _ => kind.status(),
        }
    }

    /// An estimated count of tokens.
    pub(crate) fn token_count(self, tokens: usize) -> Value {
        match self {
            Self::Gemini(_) => json!({ "totalTokens": tokens }),
            _ => json!({ "input_tokens": tokens }),
        }
    }
}

/// A text in pieces of so many characters.
struct Pieces {
    text: String,
    at: usize,
    size: usize,
}

impl Pieces {
    fn new(text: String, size: usize) -> Self {
        Self { text, at: 0, size }
    }
}

impl Iterator for Pieces {
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

/// An event that has its type as its name.
fn named(event: &Value) -> Bytes {
    let name = event.get("type").and_then(Value::as_str).unwrap_or("message");
    Bytes::from(format!("event: {name}\ndata: {event}\n\n"))
}

/// An event without a name.
fn data(event: &Value) -> Bytes {
    Bytes::from(format!("data: {event}\n\n"))
}

/// A block of text in the shape of a Messages request.
fn text_block(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

/// A tool in the shape of a Messages request.
fn tool(name: &Value, schema: Option<&Value>) -> Value {
    json!({ "name": name, "input_schema": schema.unwrap_or(&Value::Null) })
}

#[cfg(test)]
mod tests {
    use super::gemini::Form;
    use super::{Endpoint, Wire};

    #[test]
    fn a_path_tells_the_protocol() {
        for (path, query, expected) in [
            ("/v1/messages", "beta=true", Some(Endpoint::Answer(Wire::Messages))),
            ("/v1/messages/count_tokens", "", Some(Endpoint::Count(Wire::Messages))),
            ("/v1/chat/completions", "", Some(Endpoint::Answer(Wire::Chat))),
            ("/chat/completions", "", Some(Endpoint::Answer(Wire::Chat))),
            ("/v1/responses", "", Some(Endpoint::Answer(Wire::Responses))),
            ("/v1beta/models/g:generateContent", "", Some(Endpoint::Answer(Wire::Gemini(Form::Whole)))),
            (
                "/v1beta/models/g:streamGenerateContent",
                "alt=sse",
                Some(Endpoint::Answer(Wire::Gemini(Form::Events))),
            ),
            ("/v1/models/g:streamGenerateContent", "", Some(Endpoint::Answer(Wire::Gemini(Form::List)))),
            ("/v1beta/models/g:countTokens", "", Some(Endpoint::Count(Wire::Gemini(Form::Whole)))),
            ("/v1beta/models/g:embedContent", "", None),
            ("/v1/messages/batches", "", None),
            ("/", "", None),
        ] {
            assert_eq!(Endpoint::of(path, query), expected, "{path}");
        }
    }
}
