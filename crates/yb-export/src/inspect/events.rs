//! The events of a sample, which fill the transcript of a viewer.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{answer, iso, iso_text, messages};
use crate::conversation::{Conversation, Step, StepSource, Thread, ToolUse};

/// The most messages of the conversation that a model event repeats.
const RECENT: usize = 20;

/// The transcript: model calls, tool calls, and a span per subagent.
pub(super) struct Events<'a> {
    pub(super) conversation: &'a Conversation,
    pub(super) model: &'a str,
    pub(super) events: Vec<Value>,
    pub(super) next: usize,
    pub(super) open: Vec<&'a str>,
}

impl<'a> Events<'a> {
    pub(super) fn push(&mut self, event: &str, time: &str, span: Option<&str>, fields: Value) {
        self.next += 1;
        let mut value = fields;
        value["event"] = json!(event);
        value["uuid"] = json!(format!("e{}", self.next));
        value["timestamp"] = json!(iso_text(time).unwrap_or_else(|| iso(Timestamp::UNIX_EPOCH)));
        value["working_start"] = json!(0.0);
        if let Some(span) = span {
            value["span_id"] = json!(span);
        }
        self.events.push(value);
    }

    /// Adds the span of a subagent. The main agent has none: a viewer would fold it like a subagent.
    fn subagent(&mut self, thread: &'a Thread, name: &str, span: &str, parent: Option<&str>) {
        let first = thread.steps.first().map(|step| step.timestamp.clone()).unwrap_or_default();
        let last = thread.steps.last().map(|step| step.timestamp.clone()).unwrap_or_default();
        let begin = json!({ "id": span, "type": "agent", "name": name, "parent_id": parent });
        self.push("span_begin", &first, Some(span), begin);
        self.steps(thread, Some(span));
        self.push("span_end", &last, Some(span), json!({ "id": span }));
    }

    pub(super) fn steps(&mut self, thread: &'a Thread, span: Option<&str>) {
        let prefix = span.map(|span| format!("{span}-")).unwrap_or_default();
        let all = messages(thread, self.model, &prefix);
        let mut read = 0;
        for (at, step) in thread.steps.iter().enumerate() {
            let id = format!("{prefix}m{}", at + 1);
            if step.source != StepSource::Agent {
                read += 1;
                continue;
            }
            if step.is_answer {
                self.answer(step, &id, all.get(..read).unwrap_or_default(), span);
            }
            read += 1;
            for call in &step.calls {
                self.call(call, step, &id, span);
                read += usize::from(call.result.is_some());
            }
        }
    }

    fn answer(&mut self, step: &Step, id: &str, input: &[Value], span: Option<&str>) {
        let model = step
            .usage
            .as_ref()
            .and_then(|usage| usage.model.clone())
            .unwrap_or_else(|| self.model.to_owned());
        let stop = if step.calls.is_empty() { "stop" } else { "tool_calls" };
        let mut output = json!({
            "model": model,
            "choices": [{ "message": answer(step, self.model, id), "stop_reason": stop }],
            "completion": step.message,
        });
        // Unknown output is no output: the field is required, so the usage is left out.
        if let Some(usage) = &step.usage
            && let Some(written) = usage.output_tokens
        {
            let read = [usage.input_tokens, usage.cache_read_input_tokens, usage.cache_creation_input_tokens];
            output["usage"] = json!({
                "input_tokens": usage.input_tokens,
                "output_tokens": written,
                "total_tokens": read.into_iter().fold(written, u64::saturating_add),
                "input_tokens_cache_read": usage.cache_read_input_tokens,
                "input_tokens_cache_write": usage.cache_creation_input_tokens,
            });
        }
        // Each event repeats the conversation so far; the last messages are enough to read it.
        let recent = input.len().saturating_sub(RECENT);
        self.push(
            "model",
            &step.timestamp,
            span,
            json!({
                "model": model,
                "input": input.get(recent..).unwrap_or_default(),
                "tools": [],
                "tool_choice": "auto",
                "config": {},
                "output": output,
            }),
        );
    }

    fn call(&mut self, call: &'a ToolUse, step: &Step, message: &str, span: Option<&str>) {
        let at = call.started_at.clone().unwrap_or_else(|| step.timestamp.clone());
        if let Some(thread) = self.conversation.subagents.get(&call.id)
            && !self.open.contains(&call.id.as_str())
        {
            self.open.push(&call.id);
            let name =
                call.arguments.get("subagent_type").and_then(Value::as_str).unwrap_or("subagent").to_owned();
            self.subagent(thread, &name, &format!("agent-{}", call.id), span);
            self.open.pop();
        }
        let mut value = json!({
            "id": call.id,
            "type": "function",
            "function": call.name,
            "arguments": call.arguments,
            "result": call.result.clone().unwrap_or_default(),
            "events": [],
            "message_id": format!("{message}-{}", call.id),
        });
        if let Some(time) = call.completed_at.as_deref().and_then(iso_text) {
            value["completed"] = json!(time);
        }
        if call.is_error == Some(true) {
            value["error"] = json!({ "type": "unknown", "message": call.result.clone().unwrap_or_default() });
            value["failed"] = json!(true);
        }
        self.push("tool", &at, span, value);
    }
}
