//! OpenAI's Responses: a reply as one response, or as the events of a stream.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Head, Pieces, text_block, tool};
use crate::api_error::Kind;
use crate::conversation::texts;
use crate::script::{Block, Reply, Usage};

/// The request in the shape of a Messages request.
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
            // What a tool returns is nobody's words.
            (kind, _) if kind.ends_with("_output") => {
                messages.push(json!({ "role": "user", "content": [] }));
            }
            // Calls and reasoning are what the model said.
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

/// The whole answer at once.
pub(super) fn whole(reply: &Reply, head: &Head) -> Value {
    let output: Vec<Value> = (0..reply.blocks.len()).map(|index| item(reply, head, index)).collect();
    response(reply, head, status(reply.stop), &output.into())
}

/// The answer as events, numbered.
pub(super) fn events(reply: Arc<Reply>, head: Head) -> impl Iterator<Item = Value> + Send + 'static {
    let begun = response(&reply, &head, "in_progress", &json!([]));
    let start = [
        json!({ "type": "response.created", "response": begun }),
        json!({ "type": "response.in_progress", "response": begun }),
    ];
    let name = if status(reply.stop) == "completed" { "response.completed" } else { "response.incomplete" };
    let end = {
        let (reply, head) = (Arc::clone(&reply), head.clone());
        // The last event repeats everything; it is not made before it is due.
        std::iter::once_with(move || json!({ "type": name, "response": whole(&reply, &head) }))
    };
    let blocks = (0..reply.blocks.len()).flat_map(move |index| block(&reply, &head, index));
    start.into_iter().chain(blocks).chain(end).enumerate().map(|(number, mut event)| {
        event["sequence_number"] = number.into();
        event
    })
}

/// The event that ends a response that fails.
pub(super) fn failed(kind: Kind, message: &str, head: &Head) -> Value {
    json!({ "type": "response.failed", "response": {
        "id": head.id("resp_", None), "object": "response", "created_at": 0, "status": "failed",
        "model": head.model, "output": [], "usage": null,
        "error": { "code": kind.openai_code().unwrap_or("invalid_prompt"), "message": message },
    } })
}

/// The events of one block.
fn block(reply: &Reply, head: &Head, index: usize) -> Box<dyn Iterator<Item = Value> + Send> {
    let done = item(reply, head, index);
    let id = done["id"].clone();
    let mut begun = done.clone();
    if begun.get("status").is_some() {
        begun["status"] = "in_progress".into();
    }
    let event = move |name: &str, more: &[(&str, Value)]| {
        let mut event = json!({ "type": format!("response.{name}"), "output_index": index, "item_id": id });
        for (key, value) in more {
            event[*key] = value.clone();
        }
        event
    };
    // Name of the deltas, what is whole at their end, and the part that they belong to.
    let (delta, key, text, part): (&str, &str, String, Option<(&str, &str, Value)>) =
        match &reply.blocks[index] {
            Block::Text(text) => {
                begun["content"] = json!([]);
                let part = json!({ "type": "output_text", "text": "", "annotations": [] });
                ("output_text", "text", text.clone(), Some(("content_part", "content_index", part)))
            }
            Block::Thinking(text) => {
                begun["summary"] = json!([]);
                let part = json!({ "type": "summary_text", "text": "" });
                let at = ("reasoning_summary_part", "summary_index", part);
                ("reasoning_summary_text", "text", text.clone(), Some(at))
            }
            Block::Tool { .. } if done["type"] == "custom_tool_call" => {
                let input = done["input"].as_str().unwrap_or_default().to_owned();
                begun["input"] = "".into();
                ("custom_tool_call_input", "input", input, None)
            }
            Block::Tool { .. } => {
                let arguments = done["arguments"].as_str().unwrap_or_default().to_owned();
                begun["arguments"] = "".into();
                ("function_call_arguments", "arguments", arguments, None)
            }
        };
    let inner: Vec<(&str, Value)> = part.iter().map(|(_, number, _)| (*number, json!(0))).collect();
    let with = |more: &[(&'static str, Value)]| [&inner[..], more].concat();
    let mut start =
        vec![json!({ "type": "response.output_item.added", "output_index": index, "item": begun })];
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
        Pieces::new(text, reply.pace.chunk).map(move |piece| {
            let mut event = event(&format!("{delta}.delta"), &[("delta", piece.into())]);
            for (key, value) in &inner {
                event[key.as_str()] = value.clone();
            }
            event
        })
    };
    Box::new(start.into_iter().chain(deltas).chain(end))
}

/// One block as an item of the output.
fn item(reply: &Reply, head: &Head, index: usize) -> Value {
    match &reply.blocks[index] {
        Block::Text(text) => json!({
            "type": "message", "id": head.id("msg_", Some(index)), "role": "assistant", "status": "completed",
            "content": [{ "type": "output_text", "text": text, "annotations": [] }],
        }),
        Block::Thinking(text) => json!({
            "type": "reasoning", "id": head.id("rs_", Some(index)),
            "summary": [{ "type": "summary_text", "text": text }],
        }),
        Block::Tool { name, input } if head.text_tools.contains(name) => {
            let text = input.values().find_map(Value::as_str).unwrap_or_default();
            json!({
                "type": "custom_tool_call", "id": head.id("ctc_", Some(index)),
                "call_id": head.id("call_", Some(index)), "status": "completed", "name": name, "input": text,
            })
        }
        Block::Tool { name, input } => json!({
            "type": "function_call", "id": head.id("fc_", Some(index)),
            "call_id": head.id("call_", Some(index)), "status": "completed", "name": name,
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

fn response(reply: &Reply, head: &Head, status: &str, output: &Value) -> Value {
    let incomplete = (status == "incomplete").then(|| {
        let reason = if reply.stop == "refusal" { "content_filter" } else { "max_output_tokens" };
        json!({ "reason": reason })
    });
    let usage = if status == "in_progress" { Value::Null } else { usage(reply.usage) };
    json!({
        "id": head.id("resp_", None), "object": "response", "created_at": 0, "status": status,
        "model": head.model, "output": output, "error": null, "incomplete_details": incomplete,
        "parallel_tool_calls": true, "tool_choice": "auto", "tools": [], "usage": usage,
    })
}

/// Here the input's tokens are all of them, whether or not they came from a cache.
fn usage(usage: Usage) -> Value {
    let input = usage.all_input();
    json!({
        "input_tokens": input, "input_tokens_details": { "cached_tokens": usage.cache_read },
        "output_tokens": usage.output, "output_tokens_details": { "reasoning_tokens": 0 },
        "total_tokens": input.saturating_add(usage.output),
    })
}
