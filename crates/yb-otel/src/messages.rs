//! Updates the span tree from the messages of the CLI.

use std::collections::BTreeMap;
use std::time::SystemTime;

use opentelemetry::KeyValue;
use serde_json::{Value, json};
use yb_claude::frame::{
    ApiEvent, AssistantMessage, Block, CacheCreation, MessageContent, ModelUsage, SystemMessage, TaskMessage,
    Usage, UserMessage,
};
use yb_claude::{Message, ResultMessage, ResultSubtype, Tokens};

use crate::content::text_part;
use crate::metrics::Operation;
use crate::names::common;
use crate::tree::{MAIN, SpanFailure, SpanTree};

/// State kept between messages: session totals, of which each result adds the difference.
#[derive(Debug)]
pub(crate) struct MessageRecorder {
    /// The session's usage by model up to the previous result. `None` if unknown, for a resumed session.
    previous_usage: Option<BTreeMap<String, (Tokens, Option<f64>)>>,
    previous_cost: Option<f64>,
}

impl MessageRecorder {
    pub(crate) fn new(resumed: bool) -> Self {
        let previous_usage = (!resumed).then(BTreeMap::new);
        Self { previous_usage, previous_cost: (!resumed).then_some(0.0) }
    }

    pub(crate) fn record(&mut self, tree: &mut SpanTree, message: &Message, at: SystemTime) {
        if let Some(session) = message.session_id() {
            tree.set_session(session);
        }
        match message {
            Message::System(system) => self::system(tree, system, at),
            Message::Assistant(message) => assistant(tree, message, at),
            Message::User(message) => user(tree, message, at),
            Message::StreamEvent(event) => {
                let conversation = tree.conversation_of(event.parent_tool_use_id.as_deref(), None);
                stream_event(tree, &conversation, &event.event, at);
            }
            Message::Result(result) => self.result(tree, result),
            _ => {}
        }
    }

    /// Records the result of a turn: usage, cost and outcome.
    fn result(&mut self, tree: &mut SpanTree, result: &ResultMessage) {
        tree.close_chat(MAIN, None);
        self.record_usage(tree, result);
        // The result's own usage is that of the main loop. The totals include subagents.
        let main_loop = result.usage.as_ref().map(Tokens::from);
        if let Some(tokens) = tree.reported_usage().or(main_loop) {
            tree.set_root_usage(Some(&tokens), Some(tokens.output));
        }
        if let Some(reason) = &result.stop_reason {
            tree.set_root_finish_reason(reason);
        }
        if let (Some(text), true) = (&result.result, tree.settings.content.enabled) {
            tree.set_root_output(text);
        }
        if let (Some(total), Some(before)) = (result.total_cost_usd, self.previous_cost) {
            tree.set_root_attribute(KeyValue::new(common::COST_USD, total - before));
        }
        tree.outcome = Some(outcome(result));
    }

    /// Records the difference to the session's previous totals, also as metrics.
    fn record_usage(&mut self, tree: &mut SpanTree, result: &ResultMessage) {
        let Some(totals) = &result.model_usage else { return };
        let now = totals.iter().map(|(model, usage)| (model.clone(), (Tokens::from(usage), usage.cost_usd)));
        let known = self.previous_usage.replace(now.collect());
        let added = result.model_usage_since_last_result.as_ref();
        for (model, usage) in added.unwrap_or(totals) {
            let (tokens, cost) = match (added, &known) {
                (Some(_), _) => (Tokens::from(usage), usage.cost_usd),
                (None, Some(before)) => usage_since(usage, before.get(model)),
                (None, None) => continue,
            };
            tree.add_reported_usage(model, &tokens, cost);
            let settings = &tree.settings;
            let Some(metrics) = &settings.metrics else { continue };
            let operation = Operation {
                name: "invoke_agent",
                provider: &settings.provider,
                model: Some(model),
                error_type: None,
            };
            metrics.tokens(operation, &tokens);
            if let Some(cost) = cost.filter(|cost| *cost > 0.0) {
                metrics.cost(operation, cost);
            }
        }
    }
}

fn usage_since(usage: &ModelUsage, previous_usage: Option<&(Tokens, Option<f64>)>) -> (Tokens, Option<f64>) {
    let mut tokens = Tokens::from(usage);
    let Some((old, cost)) = previous_usage else { return (tokens, usage.cost_usd) };
    tokens.input = tokens.input.saturating_sub(old.input);
    tokens.output = tokens.output.saturating_sub(old.output);
    tokens.cache_read = tokens.cache_read.saturating_sub(old.cache_read);
    tokens.cache_creation = tokens.cache_creation.saturating_sub(old.cache_creation);
    (tokens, usage.cost_usd.map(|now| now - cost.unwrap_or_default()))
}

/// Returns the outcome that a result message reports.
fn outcome(result: &ResultMessage) -> Result<(), SpanFailure> {
    if !result.is_error && result.subtype == ResultSubtype::Success {
        return Ok(());
    }
    let aborted = result.terminal_reason.as_deref().filter(|reason| reason.starts_with("aborted"));
    let api = result.api_error_type.as_deref().or(result.api_error.as_deref());
    let kind = match (aborted, &result.subtype, api) {
        (Some(_), ..) => "aborted".to_owned(),
        (None, ResultSubtype::Success, Some(api)) => api.to_owned(),
        (None, ResultSubtype::Success, None) => {
            result.terminal_reason.clone().unwrap_or_else(|| "error".to_owned())
        }
        (None, subtype, _) => subtype.as_str().to_owned(),
    };
    let message = aborted.map_or_else(|| kind.clone(), str::to_owned);
    Err(SpanFailure::new(kind, message))
}

fn system(tree: &mut SpanTree, system: &SystemMessage, at: SystemTime) {
    match system {
        SystemMessage::Init(init) => {
            if let Some(model) = &init.model {
                tree.set_model(model);
            }
            if let Some(version) = &init.claude_code_version {
                tree.set_agent_version(version);
            }
            tree.record_ready(at);
        }
        SystemMessage::Status(status) if status.status.as_deref() == Some("requesting") => {
            tree.record_request(MAIN, at);
        }
        SystemMessage::TaskStarted(task) if task.task_type.as_deref() == Some("local_agent") => {
            let Some(agent) = &task.task_id else { return };
            let kind = task.subagent_type.as_deref().unwrap_or_default();
            tree.start_subagent(agent, kind, task.tool_use_id.as_deref(), at);
            if task.is_backgrounded == Some(true) {
                tree.mark_background(agent);
            }
        }
        SystemMessage::TaskUpdated(task) => {
            if let (Some(agent), Some(true)) =
                (&task.task_id, task.patch.as_ref().and_then(|patch| patch.is_backgrounded))
            {
                tree.mark_background(agent);
            }
        }
        SystemMessage::TaskNotification(task) => task_ends(tree, task, at),
        SystemMessage::PermissionDenied(denied) => tree.mark_denied(&denied.tool_use_id),
        SystemMessage::ApiRetry(retry) => {
            let mut attributes =
                vec![KeyValue::new("attempt", i64::try_from(retry.attempt).unwrap_or(i64::MAX))];
            attributes.extend(retry.error.clone().map(|error| KeyValue::new(common::ERROR_TYPE, error)));
            tree.event("api_retry", attributes, at);
        }
        SystemMessage::CompactBoundary(_) => tree.event("compaction", Vec::new(), at),
        SystemMessage::Notification(note) => {
            let text = note.text.as_deref().and_then(|text| tree.settings.content.text_if_enabled(text));
            tree.event(
                "notification",
                text.map(|text| KeyValue::new("text", text)).into_iter().collect(),
                at,
            );
        }
        _ => {}
    }
}

fn task_ends(tree: &mut SpanTree, task: &TaskMessage, at: SystemTime) {
    let Some(agent) = &task.task_id else { return };
    let failure = match task.status.as_deref() {
        Some("completed") | None => None,
        Some(status) => Some(SpanFailure::new(format!("task_{status}"), status)),
    };
    tree.end_subagent(agent, failure.as_ref(), at);
}

fn assistant(tree: &mut SpanTree, message: &AssistantMessage, at: SystemTime) {
    let conversation = conversation(
        tree,
        message.parent_tool_use_id.as_deref(),
        message.agent_id.as_deref(),
        || message.subagent_type.clone(),
        at,
    );
    let answer = &message.message;
    let with_content = tree.settings.content.enabled;
    if let Some(chat) = tree.chat(&conversation, answer.id.as_deref().unwrap_or_default(), at) {
        chat.last = at;
        if message.is_synthetic() {
            let kind = message.api_error_type.clone().or_else(|| message.error.clone());
            let words = if message.is_api_error_message { message.text() } else { String::new() };
            chat.failure = Some(SpanFailure::new(kind.unwrap_or_else(|| "api_error".to_owned()), words));
        } else {
            chat.model = answer.model.clone().or_else(|| chat.model.take());
            answer.usage.iter().for_each(|usage| chat.raise(usage));
            chat.stop_reason = answer.stop_reason.clone().or_else(|| chat.stop_reason.take());
        }
        if message.aborted {
            chat.failure = Some(SpanFailure::new("aborted", "aborted"));
        }
        if with_content {
            tree.record_output(&conversation, answer.content.iter().filter_map(part).collect());
        }
    }
    for block in &answer.content {
        match block {
            Block::ToolUse(call) => {
                tree.start_tool(&conversation, &call.id, &call.name, call.input.as_str(), at);
            }
            Block::ServerToolUse(call) => {
                tree.start_tool(&conversation, &call.id, &call.name, call.input.as_str(), at);
            }
            Block::ServerToolResult(result) => {
                let output = result.content.as_ref().map(ToString::to_string).unwrap_or_default();
                tree.end_tool(&result.tool_use_id, &output, None, at);
            }
            _ => {}
        }
    }
}

/// Converts a content block to a message part of the conventions.
fn part(block: &Block) -> Option<Value> {
    match block {
        Block::Text(text) => Some(text_part(&text.text)),
        Block::Thinking(thinking) if !thinking.thinking.is_empty() => {
            Some(json!({"type": "reasoning", "content": thinking.thinking}))
        }
        Block::ToolUse(call) | Block::ServerToolUse(call) => {
            let arguments = call.input.to_value().unwrap_or_default();
            Some(json!({"type": "tool_call", "id": call.id, "name": call.name, "arguments": arguments}))
        }
        _ => None,
    }
}

fn user(tree: &mut SpanTree, message: &UserMessage, at: SystemTime) {
    if message.is_replay {
        return;
    }
    let conversation = conversation(
        tree,
        message.parent_tool_use_id.as_deref(),
        message.agent_id.as_deref(),
        || message.subagent_type.clone(),
        at,
    );
    tree.close_chat(&conversation, None);
    let mut parts = Vec::new();
    let with_content = tree.settings.content.enabled;
    for block in message.message.content.blocks() {
        match block {
            Block::ToolResult(result) => {
                let output = result.content.text();
                let failure = result.is_error.then(|| tool_failure(&output, message));
                if with_content {
                    parts.push(
                        json!({"type": "tool_call_response", "id": result.tool_use_id, "response": output}),
                    );
                }
                record_end_of_subagent(tree, &result.tool_use_id, message, at);
                tree.end_tool(&result.tool_use_id, &output, failure.as_ref(), at);
            }
            Block::Text(text) if with_content => parts.push(text_part(&text.text)),
            _ => {}
        }
    }
    if let (MessageContent::Text(text), true) = (&message.message.content, with_content) {
        parts.push(text_part(text));
    }
    let role = if parts.iter().any(|part| part["type"] == "tool_call_response") { "tool" } else { "user" };
    tree.record_input(&conversation, parts, role, at);
}

/// Records the last call of a subagent, whose usage is in the result of the tool call that started it.
fn record_end_of_subagent(tree: &mut SpanTree, call: &str, message: &UserMessage, at: SystemTime) {
    let Some(outcome) = message.tool_use_result.as_ref().filter(|kept| kept.as_str().contains("\"agentId\""))
    else {
        return;
    };
    let Ok(outcome) = outcome.to_value() else { return };
    let Some(agent) = outcome["agentId"].as_str() else { return };
    let Some(usage) = usage(&outcome["usage"]) else { return };
    let conversation = tree.conversation_of(Some(call), Some(agent));
    let model = outcome["resolvedModel"].as_str().map(str::to_owned);
    tree.record_last_call(&conversation, model, &usage, at);
}

/// Reads token counts in the API's format.
fn usage(value: &Value) -> Option<Usage> {
    let count = |value: &Value, name: &str| value[name].as_u64().unwrap_or_default();
    value.as_object()?;
    let mut usage = Usage::default();
    usage.input_tokens = count(value, "input_tokens");
    usage.output_tokens = count(value, "output_tokens");
    usage.cache_read_input_tokens = count(value, "cache_read_input_tokens");
    usage.cache_creation_input_tokens = count(value, "cache_creation_input_tokens");
    let mut written = CacheCreation::default();
    written.ephemeral_1h_input_tokens = count(&value["cache_creation"], "ephemeral_1h_input_tokens");
    usage.cache_creation = Some(written);
    Some(usage)
}

/// The CLI's message for a tool call that was interrupted, or rejected by the host.
const REJECTED: &str = "\"User rejected tool use";

/// Returns the failure of a tool call: its own error, or an interruption.
fn tool_failure(output: &str, message: &UserMessage) -> SpanFailure {
    let kept = message.tool_use_result.as_ref();
    let rejected = kept.is_some_and(|result| result.as_str().starts_with(REJECTED));
    SpanFailure::new(if rejected { "interrupted" } else { "tool_error" }, output)
}

/// Returns the conversation of a message. An unknown subagent starts with its first message.
fn conversation(
    tree: &mut SpanTree,
    call: Option<&str>,
    agent: Option<&str>,
    kind: impl Fn() -> Option<String>,
    at: SystemTime,
) -> String {
    let Some(call) = call else { return MAIN.to_owned() };
    let known = tree.conversation_of(Some(call), agent);
    if known != MAIN {
        return known;
    }
    let key = agent.unwrap_or(call).to_owned();
    tree.start_subagent(&key, &kind().unwrap_or_default(), Some(call), at);
    tree.conversation_of(Some(call), Some(&key))
}

fn stream_event(tree: &mut SpanTree, conversation: &str, event: &ApiEvent, at: SystemTime) {
    match event {
        ApiEvent::MessageStart(answer) => {
            if let Some(chat) = tree.chat(conversation, answer.id.as_deref().unwrap_or_default(), at) {
                chat.last = at;
                chat.model = answer.model.clone();
                answer.usage.iter().for_each(|usage| chat.raise(usage));
            }
        }
        ApiEvent::MessageDelta { stop_reason, usage } => {
            if let Some(chat) = tree.open_chat(conversation) {
                chat.last = at;
                chat.stop_reason = stop_reason.clone().or_else(|| chat.stop_reason.take());
                usage.iter().for_each(|usage| chat.raise(usage));
                chat.output = usage.as_ref().map(|usage| usage.output_tokens).or(chat.output);
            }
        }
        _ => {}
    }
}
