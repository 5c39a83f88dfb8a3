//! Anthropic Messages.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{ReplyContext, TextChunks};
use crate::script::{Block, Reply, ScriptedUsage};

/// Placeholder for the signature of a thinking block.
const SIGNATURE: &str = "c2NyaXB0ZWQ=";

fn envelope(context: &ReplyContext, content: &Value, stop: Option<&str>, usage: &Value) -> Value {
    json!({
        "id": context.id("msg_", None),
        "type": "message",
        "role": "assistant",
        "model": context.model,
        "content": content,
        "stop_reason": stop,
        "stop_sequence": null,
        "usage": usage,
    })
}

fn usage(usage: ScriptedUsage, output: u64) -> Value {
    json!({
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_creation": {
            "ephemeral_5m_input_tokens": usage.cache_write - usage.cache_write_1h,
            "ephemeral_1h_input_tokens": usage.cache_write_1h,
        },
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": output,
    })
}

/// Returns the reply as one message.
pub(super) fn message(reply: &Reply, context: &ReplyContext) -> Value {
    let content = reply.blocks.iter().enumerate().map(|(index, block)| match block {
        Block::Text(text) => json!({ "type": "text", "text": text }),
        Block::Thinking(text) => json!({ "type": "thinking", "thinking": text, "signature": SIGNATURE }),
        Block::Tool { name, input } => {
            json!({ "type": "tool_use", "id": context.id("toolu_", Some(index)), "name": name, "input": input })
        }
    });
    envelope(context, &content.collect(), Some(reply.stop), &usage(reply.usage, reply.usage.output))
}

/// Returns the reply as stream events.
pub(super) fn events(
    reply: Arc<Reply>,
    context: ReplyContext,
) -> impl Iterator<Item = Value> + Send + 'static {
    let start = json!({
        "type": "message_start",
        // The API reports at most one output token in `message_start`.
        "message": envelope(&context, &json!([]), None, &usage(reply.usage, reply.usage.output.min(1))),
    });
    let end = [
        json!({
            "type": "message_delta",
            "delta": { "stop_reason": reply.stop, "stop_sequence": null },
            "usage": usage(reply.usage, reply.usage.output),
        }),
        json!({ "type": "message_stop" }),
    ];
    let blocks = (0..reply.blocks.len()).flat_map(move |index| block(&reply, &context, index));
    std::iter::once(start).chain(blocks).chain(end)
}

fn block(reply: &Reply, context: &ReplyContext, index: usize) -> Box<dyn Iterator<Item = Value> + Send> {
    let (start, delta, text, last): (Value, _, String, Option<Value>) = match &reply.blocks[index] {
        Block::Text(text) => {
            (json!({ "type": "text", "text": "" }), ("text_delta", "text"), text.clone(), None)
        }
        Block::Thinking(text) => (
            json!({ "type": "thinking", "thinking": "", "signature": "" }),
            ("thinking_delta", "thinking"),
            text.clone(),
            Some(json!({ "type": "signature_delta", "signature": SIGNATURE })),
        ),
        Block::Tool { name, input } => (
            json!({ "type": "tool_use", "id": context.id("toolu_", Some(index)), "name": name, "input": {} }),
            ("input_json_delta", "partial_json"),
            Value::Object(input.clone()).to_string(),
            None,
        ),
    };
    let start = json!({ "type": "content_block_start", "index": index, "content_block": start });
    // The API sends its first ping after the start of the first block.
    let ping = (index == 0).then(|| json!({ "type": "ping" }));
    let (kind, field) = delta;
    let deltas = TextChunks::new(text, reply.pacing.chunk)
        .map(move |chunk| json!({ "type": kind, field: chunk }))
        .chain(last)
        .map(move |delta| json!({ "type": "content_block_delta", "index": index, "delta": delta }));
    let stop = json!({ "type": "content_block_stop", "index": index });
    Box::new(std::iter::once(start).chain(ping).chain(deltas).chain(std::iter::once(stop)))
}
