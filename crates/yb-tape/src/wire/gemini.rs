//! Google's `generateContent` and `streamGenerateContent`: a reply as one response, or as many.

use std::sync::Arc;

use hyper::body::Bytes;
use serde_json::{Value, json};

use super::{Head, Pieces, text_block, tool};
use crate::api_error::Kind;
use crate::script::{Block, Reply, Usage};

/// How the answer comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// As one response.
    Whole,
    /// As events.
    Events,
    /// As the items of a JSON list, which is what a stream is without `alt=sse`.
    List,
}

/// The request in the shape of a Messages request.
pub(super) fn read(body: &Value) -> Value {
    let Some(contents) = body.get("contents").and_then(Value::as_array) else { return Value::Null };
    let messages = contents.iter().map(|content| {
        let model = content.get("role").and_then(Value::as_str) == Some("model");
        json!({ "role": if model { "assistant" } else { "user" }, "content": texts(content) })
    });
    let declared = body.get("tools").and_then(Value::as_array).into_iter().flatten();
    let declared = declared.filter_map(|tools| tools.get("functionDeclarations")?.as_array()).flatten();
    let tools = declared.filter_map(|function| {
        let schema = function.get("parametersJsonSchema").or_else(|| function.get("parameters"));
        Some(tool(function.get("name")?, schema))
    });
    let mut out = json!({
        "messages": messages.collect::<Vec<_>>(),
        "system": body.get("systemInstruction").map(texts).unwrap_or_default(),
        "tools": tools.collect::<Vec<_>>(),
    });
    let wanted = ["responseJsonSchema", "responseSchema"];
    let config = body.get("generationConfig");
    if let Some(schema) = wanted.iter().find_map(|name| config?.get(name)) {
        out["output_config"] = json!({ "format": { "schema": schema } });
    }
    out
}

/// The texts of a content, as blocks.
fn texts(content: &Value) -> Vec<Value> {
    let parts = content.get("parts").and_then(Value::as_array).into_iter().flatten();
    parts.filter_map(|part| Some(text_block(part.get("text")?.as_str()?))).collect()
}

/// The whole answer at once.
pub(super) fn whole(reply: &Reply, head: &Head) -> Value {
    let parts: Vec<Value> = reply
        .blocks
        .iter()
        .enumerate()
        .map(|(index, block)| match block {
            Block::Text(text) => json!({ "text": text }),
            Block::Thinking(text) => json!({ "text": text, "thought": true }),
            Block::Tool { .. } => call(reply, head, index),
        })
        .collect();
    response(head, &parts.into(), Some(reply))
}

/// The answer as responses; the last one has its end and its usage.
pub(super) fn chunks(reply: Arc<Reply>, head: Head) -> impl Iterator<Item = Value> + Send + 'static {
    let last = response(&head, &json!([{ "text": "" }]), Some(&reply));
    let parts = (0..reply.blocks.len())
        .flat_map({
            let head = head.clone();
            move |index| block(&reply, &head, index)
        })
        .map(move |part| response(&head, &json!([part]), None));
    parts.chain([last])
}

/// The parts of one block. A call comes in one piece.
fn block(reply: &Reply, head: &Head, index: usize) -> Box<dyn Iterator<Item = Value> + Send> {
    let pieces = |text: &String| Pieces::new(text.clone(), reply.pace.chunk);
    match &reply.blocks[index] {
        Block::Text(text) => Box::new(pieces(text).map(|piece| json!({ "text": piece }))),
        Block::Thinking(text) => {
            Box::new(pieces(text).map(|piece| json!({ "text": piece, "thought": true })))
        }
        Block::Tool { .. } => Box::new(std::iter::once(call(reply, head, index))),
    }
}

fn call(reply: &Reply, head: &Head, index: usize) -> Value {
    let Block::Tool { name, input } = &reply.blocks[index] else { return Value::Null };
    json!({ "functionCall": { "id": head.id("call_", Some(index)), "name": name, "args": input } })
}

fn response(head: &Head, parts: &Value, end: Option<&Reply>) -> Value {
    let mut candidate = json!({ "content": { "role": "model", "parts": parts }, "index": 0 });
    if let Some(reply) = end {
        candidate["finishReason"] = finish(reply.stop).into();
    }
    let mut response = json!({
        "candidates": [candidate], "modelVersion": head.model, "responseId": head.id("resp_", None),
    });
    if let Some(reply) = end {
        response["usageMetadata"] = usage(reply.usage);
    }
    response
}

fn finish(stop: &str) -> &'static str {
    match stop {
        "max_tokens" | "model_context_window_exceeded" => "MAX_TOKENS",
        "refusal" => "SAFETY",
        _ => "STOP",
    }
}

/// Here the prompt's tokens are all of them, whether or not they came from a cache.
fn usage(usage: Usage) -> Value {
    let prompt = usage.all_input();
    let mut told = json!({
        "promptTokenCount": prompt, "candidatesTokenCount": usage.output,
        "totalTokenCount": prompt.saturating_add(usage.output),
    });
    if usage.cache_read > 0 {
        told["cachedContentTokenCount"] = usage.cache_read.into();
    }
    told
}

/// The responses as the items of a list.
pub(super) fn list(
    chunks: impl Iterator<Item = Value> + Send + 'static,
) -> Box<dyn Iterator<Item = Bytes> + Send> {
    let items = chunks.enumerate().map(|(index, chunk)| {
        let before = if index == 0 { "[" } else { ",\n" };
        Bytes::from(format!("{before}{chunk}"))
    });
    Box::new(items.chain([Bytes::from_static(b"]")]))
}

/// The body of an error.
pub(super) fn error(kind: Kind, status: u16, message: &str) -> Value {
    let name = match kind {
        Kind::InvalidRequest | Kind::RequestTooLarge => "INVALID_ARGUMENT",
        Kind::Authentication => "UNAUTHENTICATED",
        Kind::Billing => "FAILED_PRECONDITION",
        Kind::Permission => "PERMISSION_DENIED",
        Kind::NotFound => "NOT_FOUND",
        Kind::RateLimit => "RESOURCE_EXHAUSTED",
        Kind::Api => "INTERNAL",
        Kind::Timeout => "DEADLINE_EXCEEDED",
        Kind::Overloaded => "UNAVAILABLE",
    };
    json!({ "error": { "code": status, "message": message, "status": name } })
}
