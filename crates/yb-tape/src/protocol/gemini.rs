//! Gemini `generateContent` and `streamGenerateContent`.

use std::sync::Arc;

use hyper::body::Bytes;
use serde_json::{Value, json};

use super::{ReplyContext, TextChunks, text_block, tool};
use crate::api_error::ApiErrorKind;
use crate::script::{Block, Reply, ScriptedUsage};

/// The format of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResponseFormat {
    /// One JSON response.
    Json,
    /// Server-sent events.
    Sse,
    /// A JSON array of responses, the stream format without `alt=sse`.
    JsonArray,
}

/// Converts a request to the shape of a Messages request.
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

/// Returns the texts of a content as blocks.
fn texts(content: &Value) -> Vec<Value> {
    let parts = content.get("parts").and_then(Value::as_array).into_iter().flatten();
    parts.filter_map(|part| Some(text_block(part.get("text")?.as_str()?))).collect()
}

/// Returns the reply as one response.
pub(super) fn message(reply: &Reply, context: &ReplyContext) -> Value {
    let parts: Vec<Value> = reply
        .blocks
        .iter()
        .enumerate()
        .map(|(index, block)| match block {
            Block::Text(text) => json!({ "text": text }),
            Block::Thinking(text) => json!({ "text": text, "thought": true }),
            Block::Tool { .. } => call(reply, context, index),
        })
        .collect();
    response(context, &parts.into(), Some(reply))
}

/// Returns the reply as several responses; the last one has finish reason and usage.
pub(super) fn chunks(
    reply: Arc<Reply>,
    context: ReplyContext,
) -> impl Iterator<Item = Value> + Send + 'static {
    let last = response(&context, &json!([{ "text": "" }]), Some(&reply));
    let parts = (0..reply.blocks.len())
        .flat_map({
            let context = context.clone();
            move |index| block(&reply, &context, index)
        })
        .map(move |part| response(&context, &json!([part]), None));
    parts.chain([last])
}

/// Returns the parts of one block; a tool call is one part.
fn block(reply: &Reply, context: &ReplyContext, index: usize) -> Box<dyn Iterator<Item = Value> + Send> {
    let chunks = |text: &String| TextChunks::new(text.clone(), reply.pacing.chunk);
    match &reply.blocks[index] {
        Block::Text(text) => Box::new(chunks(text).map(|chunk| json!({ "text": chunk }))),
        Block::Thinking(text) => {
            Box::new(chunks(text).map(|chunk| json!({ "text": chunk, "thought": true })))
        }
        Block::Tool { .. } => Box::new(std::iter::once(call(reply, context, index))),
    }
}

fn call(reply: &Reply, context: &ReplyContext, index: usize) -> Value {
    let Block::Tool { name, input } = &reply.blocks[index] else { return Value::Null };
    json!({ "functionCall": { "id": context.id("call_", Some(index)), "name": name, "args": input } })
}

fn response(context: &ReplyContext, parts: &Value, end: Option<&Reply>) -> Value {
    let mut candidate = json!({ "content": { "role": "model", "parts": parts }, "index": 0 });
    if let Some(reply) = end {
        candidate["finishReason"] = finish_reason(reply.stop).into();
    }
    let mut response = json!({
        "candidates": [candidate], "modelVersion": context.model, "responseId": context.id("resp_", None),
    });
    if let Some(reply) = end {
        response["usageMetadata"] = usage(reply.usage);
    }
    response
}

fn finish_reason(stop: &str) -> &'static str {
    match stop {
        "max_tokens" | "model_context_window_exceeded" => "MAX_TOKENS",
        "refusal" => "SAFETY",
        _ => "STOP",
    }
}

/// Prompt tokens include cached ones.
fn usage(usage: ScriptedUsage) -> Value {
    let prompt = usage.total_input();
    let mut metadata = json!({
        "promptTokenCount": prompt, "candidatesTokenCount": usage.output,
        "totalTokenCount": prompt.saturating_add(usage.output),
    });
    if usage.cache_read > 0 {
        metadata["cachedContentTokenCount"] = usage.cache_read.into();
    }
    metadata
}

/// Encodes responses as a JSON array.
pub(super) fn json_array(
    chunks: impl Iterator<Item = Value> + Send + 'static,
) -> Box<dyn Iterator<Item = Bytes> + Send> {
    let items = chunks.enumerate().map(|(index, chunk)| {
        let before = if index == 0 { "[" } else { ",\n" };
        Bytes::from(format!("{before}{chunk}"))
    });
    Box::new(items.chain([Bytes::from_static(b"]")]))
}

/// Returns the body of an error.
pub(super) fn error(kind: ApiErrorKind, status: u16, message: &str) -> Value {
    let name = match kind {
        ApiErrorKind::InvalidRequest | ApiErrorKind::RequestTooLarge => "INVALID_ARGUMENT",
        ApiErrorKind::Authentication => "UNAUTHENTICATED",
        ApiErrorKind::Billing => "FAILED_PRECONDITION",
        ApiErrorKind::Permission => "PERMISSION_DENIED",
        ApiErrorKind::NotFound => "NOT_FOUND",
        ApiErrorKind::RateLimit => "RESOURCE_EXHAUSTED",
        ApiErrorKind::Api => "INTERNAL",
        ApiErrorKind::Timeout => "DEADLINE_EXCEEDED",
        ApiErrorKind::Overloaded => "UNAVAILABLE",
    };
    json!({ "error": { "code": status, "message": message, "status": name } })
}
