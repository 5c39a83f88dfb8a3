//! OpenAI Chat Completions.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{ReplyContext, TextChunks, text_block, tool};
use crate::conversation::texts;
use crate::script::{Block, Reply, ScriptedUsage};

/// Converts a request to the shape of a Messages request.
pub(super) fn read(body: &Value) -> Value {
    let Some(given) = body.get("messages").and_then(Value::as_array) else { return Value::Null };
    let (mut messages, mut system) = (Vec::new(), Vec::new());
    for message in given {
        let texts: Vec<Value> =
            texts(message.get("content").unwrap_or(&Value::Null)).into_iter().map(text_block).collect();
        match message.get("role").and_then(Value::as_str).unwrap_or_default() {
            "system" | "developer" => system.extend(texts),
            "assistant" => messages.push(json!({ "role": "assistant", "content": texts })),
            // Tool results are not user text.
            "tool" | "function" => messages.push(json!({ "role": "user", "content": [] })),
            _ => messages.push(json!({ "role": "user", "content": texts })),
        }
    }
    let declared = body.get("tools").and_then(Value::as_array).into_iter().flatten();
    let tools = declared.filter_map(|declared| {
        let function = declared.get("function")?;
        Some(tool(function.get("name")?, function.get("parameters")))
    });
    let mut out = json!({ "messages": messages, "system": system, "tools": tools.collect::<Vec<_>>() });
    if let Some(schema) = body.pointer("/response_format/json_schema/schema") {
        out["output_config"] = json!({ "format": { "schema": schema } });
    }
    out
}

/// Returns the reply as one completion.
pub(super) fn message(reply: &Reply, context: &ReplyContext) -> Value {
    let (mut text, mut thinking, mut calls) = (String::new(), String::new(), Vec::new());
    for (index, block) in reply.blocks.iter().enumerate() {
        match block {
            Block::Text(block) => text.push_str(block),
            Block::Thinking(block) => thinking.push_str(block),
            Block::Tool { name, input } => calls.push(json!({
                "id": context.id("call_", Some(index)), "type": "function",
                "function": { "name": name, "arguments": Value::Object(input.clone()).to_string() },
            })),
        }
    }
    let mut message = json!({ "role": "assistant", "content": text, "refusal": null });
    if text.is_empty() {
        message["content"] = Value::Null;
    }
    if !thinking.is_empty() {
        message["reasoning_content"] = thinking.into();
    }
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    let choice = json!({ "index": 0, "message": message, "finish_reason": finish_reason(reply.stop) });
    let mut completion = completion("chat.completion", context, &json!([choice]));
    completion["usage"] = usage(reply.usage);
    completion
}

/// Returns the reply as stream chunks.
pub(super) fn chunks(
    reply: Arc<Reply>,
    context: ReplyContext,
) -> impl Iterator<Item = Value> + Send + 'static {
    let chunk = |context: &ReplyContext, delta: Value, finish: Option<&str>| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
        completion("chat.completion.chunk", context, &json!([choice]))
    };
    let first = chunk(&context, json!({ "role": "assistant", "content": "" }), None);
    let mut end = vec![chunk(&context, json!({}), Some(finish_reason(reply.stop)))];
    if context.includes_usage {
        let mut last = completion("chat.completion.chunk", &context, &json!([]));
        last["usage"] = usage(reply.usage);
        end.push(last);
    }
    let deltas = (0..reply.blocks.len())
        .flat_map({
            let context = context.clone();
            move |index| block(&reply, &context, index)
        })
        .map(move |delta| chunk(&context, delta, None));
    std::iter::once(first).chain(deltas).chain(end)
}

/// Returns the deltas of one block.
fn block(reply: &Reply, context: &ReplyContext, index: usize) -> Box<dyn Iterator<Item = Value> + Send> {
    let (key, text) = match &reply.blocks[index] {
        Block::Text(text) => ("content", text),
        Block::Thinking(text) => ("reasoning_content", text),
        Block::Tool { name, input } => {
            let before = reply.blocks[..index].iter();
            let number = before.filter(|block| matches!(block, Block::Tool { .. })).count();
            let start = json!({ "tool_calls": [{
                "index": number, "id": context.id("call_", Some(index)), "type": "function",
                "function": { "name": name, "arguments": "" },
            }] });
            let chunks = TextChunks::new(Value::Object(input.clone()).to_string(), reply.pacing.chunk);
            let chunks = chunks.map(
                move |chunk| json!({ "tool_calls": [{ "index": number, "function": { "arguments": chunk } }] }),
            );
            return Box::new(std::iter::once(start).chain(chunks));
        }
    };
    Box::new(TextChunks::new(text.clone(), reply.pacing.chunk).map(move |chunk| json!({ key: chunk })))
}

fn completion(object: &str, context: &ReplyContext, choices: &Value) -> Value {
    json!({
        "id": context.id("chatcmpl-", None), "object": object, "created": 0, "model": context.model,
        "choices": choices,
    })
}

fn finish_reason(stop: &str) -> &'static str {
    match stop {
        "tool_use" => "tool_calls",
        "max_tokens" | "model_context_window_exceeded" => "length",
        "refusal" => "content_filter",
        _ => "stop",
    }
}

/// Prompt tokens include cached ones.
fn usage(usage: ScriptedUsage) -> Value {
    let prompt = usage.total_input();
    json!({
        "prompt_tokens": prompt, "completion_tokens": usage.output,
        "total_tokens": prompt.saturating_add(usage.output),
        "prompt_tokens_details": { "cached_tokens": usage.cache_read },
        "completion_tokens_details": { "reasoning_tokens": 0 },
    })
}
