//! OpenAI Responses.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{ReplyContext, TextChunks, text_block, tool};
use crate::api_error::ApiErrorKind;
use crate::conversation::texts;
use crate::script::{Block, Reply, ScriptedUsage};

/// Converts a request to the shape of a Messages request.
pub(super) fn read(body: &Value) -> Value {
    let (mut messages, mut system) = (Vec::new(), Vec::new());
    system.extend(body.get("instructions").and_then(Value::as_str).map(text_block));
    let items = match body.get("input") {
        Some(Value::String(text)) => {
            messages.push(json!({ "role": "user", "content": [text_block(text)] }));
            &[][..]
        }
        Some(Value::Array(items)) => items,
        _ => return Value::Null,
    };
    for item in items {
        let role = item.get("role").and_then(Value::as_str);
        let texts: Vec<Value> =
            texts(item.get("content").unwrap_or(&Value::Null)).into_iter().map(text_block).collect();
        match (item.get("type").and_then(Value::as_str).unwrap_or("message"), role) {
            ("message", Some("system" | "developer")) => system.extend(texts),
            ("message", Some("assistant")) => {
                messages.push(json!({ "role": "assistant", "content": texts }));
            }
            ("message", _) => messages.push(json!({ "role": "user", "content": texts })),
            // Tool results are not user text.
            (kind, _) if kind.ends_with("_output") => {
                messages.push(json!({ "role": "user", "content": [] }));
            }
            // Tool calls and reasoning are model output.
            _ => messages.push(json!({ "role": "assistant", "content": [] })),
        }
    }
    let declared = body.get("tools").and_then(Value::as_array).into_iter().flatten();
    let tools = declared.filter_map(|declared| Some(tool(declared.get("name")?, declared.get("parameters"))));
    let mut out = json!({ "messages": messages, "system": system, "tools": tools.collect::<Vec<_>>() });
    if let Some(schema) = body.pointer("/text/format/schema") {
        out["output_config"] = json!({ "format": { "schema": schema } });
    }
    out
}

/// Returns the reply as one response.
pub(super) fn message(reply: &Reply, context: &ReplyContext) -> Value {
    let output: Vec<Value> = (0..reply.blocks.len()).map(|index| item(reply, context, index)).collect();
    response(reply, context, status(reply.stop), &output.into())
}

/// Returns the reply as numbered stream events.
pub(super) fn events(
    reply: Arc<Reply>,
    context: ReplyContext,
) -> impl Iterator<Item = Value> + Send + 'static {
    let started = response(&reply, &context, "in_progress", &json!([]));
    let start = [
        json!({ "type": "response.created", "response": started }),
        json!({ "type": "response.in_progress", "response": started }),
    ];
    let name = if status(reply.stop) == "completed" { "response.completed" } else { "response.incomplete" };
    let end = {
        let (reply, context) = (Arc::clone(&reply), context.clone());
        // The last event repeats the whole response, so it is generated lazily.
        std::iter::once_with(move || json!({ "type": name, "response": message(&reply, &context) }))
    };
    let blocks = (0..reply.blocks.len()).flat_map(move |index| block(&reply, &context, index));
    start.into_iter().chain(blocks).chain(end).enumerate().map(|(number, mut event)| {
        event["sequence_number"] = number.into();
        event
    })
}

/// Returns the event that ends a failed response.
pub(super) fn failed(kind: ApiErrorKind, message: &str, context: &ReplyContext) -> Value {
    json!({ "type": "response.failed", "response": {
        "id": context.id("resp_", None), "object": "response", "created_at": 0, "status": "failed",
        "model": context.model, "output": [], "usage": null,
        "error": { "code": kind.openai_code().unwrap_or("invalid_prompt"), "message": message },
    } })
}

/// Returns the events of one block.
fn block(reply: &Reply, context: &ReplyContext, index: usize) -> Box<dyn Iterator<Item = Value> + Send> {
    let done = item(reply, context, index);
    let id = done["id"].clone();
    let mut started = done.clone();
    if started.get("status").is_some() {
        started["status"] = "in_progress".into();
    }
    let event = move |name: &str, more: &[(&str, Value)]| {
        let mut event = json!({ "type": format!("response.{name}"), "output_index": index, "item_id": id });
        for (key, value) in more {
            event[*key] = value.clone();
        }
        event
    };
    // Name of the delta events, key and value of the complete text, and the content part.
    let (delta, key, text, part): (&str, &str, String, Option<(&str, &str, Value)>) =
        match &reply.blocks[index] {
            Block::Text(text) => {
                started["content"] = json!([]);
                let part = json!({ "type": "output_text", "text": "", "annotations": [] });
                ("output_text", "text", text.clone(), Some(("content_part", "content_index", part)))
            }
            Block::Thinking(text) => {
                started["summary"] = json!([]);
                let part = json!({ "type": "summary_text", "text": "" });
                let at = ("reasoning_summary_part", "summary_index", part);
                ("reasoning_summary_text", "text", text.clone(), Some(at))
            }
            Block::Tool { .. } if done["type"] == "custom_tool_call" => {
                let input = done["input"].as_str().unwrap_or_default().to_owned();
                started["input"] = "".into();
                ("custom_tool_call_input", "input", input, None)
            }
            Block::Tool { .. } => {
                let arguments = done["arguments"].as_str().unwrap_or_default().to_owned();
                started["arguments"] = "".into();
                ("function_call_arguments", "arguments", arguments, None)
            }
        };
    let inner: Vec<(&str, Value)> = part.iter().map(|(_, number, _)| (*number, json!(0))).collect();
    let with = |more: &[(&'static str, Value)]| [&inner[..], more].concat();
    let mut start =
        vec![json!({ "type": "response.output_item.added", "output_index": index, "item": started })];
    let mut end = vec![event(&format!("{delta}.done"), &with(&[(key, text.as_str().into())]))];
    if let Some((name, _, part)) = &part {
        start.push(event(&format!("{name}.added"), &with(&[("part", part.clone())])));
        let mut whole = part.clone();
        whole["text"] = text.as_str().into();
        end.push(event(&format!("{name}.done"), &with(&[("part", whole)])));
    }
    end.push(json!({ "type": "response.output_item.done", "output_index": index, "item": done }));
    let deltas = {
        let inner: Vec<(String, Value)> =
            inner.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
        TextChunks::new(text, reply.pacing.chunk).map(move |chunk| {
            let mut event = event(&format!("{delta}.delta"), &[("delta", chunk.into())]);
            for (key, value) in &inner {
                event[key.as_str()] = value.clone();
            }
            event
        })
    };
    Box::new(start.into_iter().chain(deltas).chain(end))
}

/// Returns one block as an output item.
fn item(reply: &Reply, context: &ReplyContext, index: usize) -> Value {
    match &reply.blocks[index] {
        Block::Text(text) => json!({
            "type": "message", "id": context.id("msg_", Some(index)), "role": "assistant", "status": "completed",
            "content": [{ "type": "output_text", "text": text, "annotations": [] }],
        }),
        Block::Thinking(text) => json!({
            "type": "reasoning", "id": context.id("rs_", Some(index)),
            "summary": [{ "type": "summary_text", "text": text }],
        }),
        Block::Tool { name, input } if context.text_tools.contains(name) => {
            let text = input.values().find_map(Value::as_str).unwrap_or_default();
            json!({
                "type": "custom_tool_call", "id": context.id("ctc_", Some(index)),
                "call_id": context.id("call_", Some(index)), "status": "completed", "name": name, "input": text,
            })
        }
        Block::Tool { name, input } => json!({
            "type": "function_call", "id": context.id("fc_", Some(index)),
            "call_id": context.id("call_", Some(index)), "status": "completed", "name": name,
            "arguments": Value::Object(input.clone()).to_string(),
        }),
    }
}

fn status(stop: &str) -> &'static str {
    match stop {
        "max_tokens" | "model_context_window_exceeded" | "refusal" => "incomplete",
        _ => "completed",
    }
}

fn response(reply: &Reply, context: &ReplyContext, status: &str, output: &Value) -> Value {
    let incomplete = (status == "incomplete").then(|| {
        let reason = if reply.stop == "refusal" { "content_filter" } else { "max_output_tokens" };
        json!({ "reason": reason })
    });
    let usage = if status == "in_progress" { Value::Null } else { usage(reply.usage) };
    json!({
        "id": context.id("resp_", None), "object": "response", "created_at": 0, "status": status,
        "model": context.model, "output": output, "error": null, "incomplete_details": incomplete,
        "parallel_tool_calls": true, "tool_choice": "auto", "tools": [], "usage": usage,
    })
}

/// Input tokens include cached ones.
fn usage(usage: ScriptedUsage) -> Value {
    let input = usage.total_input();
    json!({
        "input_tokens": input, "input_tokens_details": { "cached_tokens": usage.cache_read },
        "output_tokens": usage.output, "output_tokens_details": { "reasoning_tokens": 0 },
        "total_tokens": input.saturating_add(usage.output),
    })
}
