//! OpenAI's Chat Completions: a reply as one completion, or as the chunks of a stream.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Head, Pieces, text_block, tool};
use crate::conversation::texts;
use crate::script::{Block, Reply, Usage};

/// The request in the shape of a Messages request.
pub(super) fn read(body: &Value) -> Value {
    let Some(given) = body.get("messages").and_then(Value::as_array) else { return Value::Null };
    let (mut messages, mut system) = (Vec::new(), Vec::new());
    for message in given {
        let texts: Vec<Value> =
            texts(message.get("content").unwrap_or(&Value::Null)).into_iter().map(text_block).collect();
        match message.get("role").and_then(Value::as_str).unwrap_or_default() {
            "system" | "developer" => system.extend(texts),
            "assistant" => messages.push(json!({ "role": "assistant", "content": texts })),
            // What a tool returns is nobody's words.
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

/// The whole answer at once.
pub(super) fn whole(reply: &Reply, head: &Head) -> Value {
    let (mut said, mut thought, mut calls) = (String::new(), String::new(), Vec::new());
    for (index, block) in reply.blocks.iter().enumerate() {
        match block {
            Block::Text(text) => said.push_str(text),
            Block::Thinking(text) => thought.push_str(text),
            Block::Tool { name, input } => calls.push(json!({
                "id": head.id("call_", Some(index)), "type": "function",
                "function": { "name": name, "arguments": Value::Object(input.clone()).to_string() },
            })),
        }
    }
    let mut message = json!({ "role": "assistant", "content": said, "refusal": null });
    if said.is_empty() {
        message["content"] = Value::Null;
    }
    if !thought.is_empty() {
        message["reasoning_content"] = thought.into();
    }
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    let choice = json!({ "index": 0, "message": message, "finish_reason": finish(reply.stop) });
    let mut completion = completion("chat.completion", head, &json!([choice]));
    completion["usage"] = usage(reply.usage);
    completion
}

/// The answer as chunks.
pub(super) fn chunks(reply: Arc<Reply>, head: Head) -> impl Iterator<Item = Value> + Send + 'static {
    let chunk = |head: &Head, delta: Value, finish: Option<&str>| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
        completion("chat.completion.chunk", head, &json!([choice]))
    };
    let first = chunk(&head, json!({ "role": "assistant", "content": "" }), None);
    let mut end = vec![chunk(&head, json!({}), Some(finish(reply.stop)))];
    if head.usage_wanted {
        let mut last = completion("chat.completion.chunk", &head, &json!([]));
        last["usage"] = usage(reply.usage);
        end.push(last);
    }
    let deltas = (0..reply.blocks.len())
        .flat_map({
            let head = head.clone();
            move |index| block(&reply, &head, index)
        })
        .map(move |delta| chunk(&head, delta, None));
    std::iter::once(first).chain(deltas).chain(end)
}

/// The deltas of one block.
fn block(reply: &Reply, head: &Head, index: usize) -> Box<dyn Iterator<Item = Value> + Send> {
    let (key, text) = match &reply.blocks[index] {
        Block::Text(text) => ("content", text),
        Block::Thinking(text) => ("reasoning_content", text),
        Block::Tool { name, input } => {
            let before = reply.blocks[..index].iter();
            let number = before.filter(|block| matches!(block, Block::Tool { .. })).count();
            let start = json!({ "tool_calls": [{
                "index": number, "id": head.id("call_", Some(index)), "type": "function",
                "function": { "name": name, "arguments": "" },
            }] });
            let pieces = Pieces::new(Value::Object(input.clone()).to_string(), reply.pace.chunk);
            let pieces = pieces.map(
                move |piece| json!({ "tool_calls": [{ "index": number, "function": { "arguments": piece } }] }),
            );
            return Box::new(std::iter::once(start).chain(pieces));
        }
    };
    Box::new(Pieces::new(text.clone(), reply.pace.chunk).map(move |piece| json!({ key: piece })))
}

fn completion(object: &str, head: &Head, choices: &Value) -> Value {
    json!({
        "id": head.id("chatcmpl-", None), "object": object, "created": 0, "model": head.model,
        "choices": choices,
    })
}

fn finish(stop: &str) -> &'static str {
    match stop {
        "tool_use" => "tool_calls",
        "max_tokens" | "model_context_window_exceeded" => "length",
        "refusal" => "content_filter",
        _ => "stop",
    }
}

/// Here the prompt's tokens are all of them, whether or not they came from a cache.
fn usage(usage: Usage) -> Value {
    let prompt = usage.all_input();
    json!({
        "prompt_tokens": prompt, "completion_tokens": usage.output,
        "total_tokens": prompt.saturating_add(usage.output),
        "prompt_tokens_details": { "cached_tokens": usage.cache_read },
        "completion_tokens_details": { "reasoning_tokens": 0 },
    })
}
