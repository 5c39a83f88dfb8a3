//! What each message of the CLI does to the spans.

use std::collections::BTreeMap;
use std::time::SystemTime;

use opentelemetry::KeyValue;
use serde_json::{Value, json};
use yb_claude::frame::{
    ApiEvent, AssistantMessage, Block, MessageContent, ModelUsage, SystemMessage, TaskMessage, UserMessage,
};
use yb_claude::{Message, ResultMessage, ResultSubtype, Tokens};

use crate::content::text_part;
use crate::metrics::Operation;
use crate::names::common;
use crate::tree::{Failure, MAIN, PROVIDER, Tree};

/// What has to be remembered between messages.
#[derive(Debug)]
pub(crate) struct Frames {
    /// What the session had used before, by model: totals are the session's and not the turn's.
    before: Option<BTreeMap<String, (Tokens, Option<f64>)>>,
    cost_before: Option<f64>,
}

impl Frames {
    pub(crate) fn new(resumed: bool) -> Self {
        let before = (!resumed).then(BTreeMap::new);
        Self { before, cost_before: (!resumed).then_some(0.0) }
    }

    pub(crate) fn message(&mut self, tree: &mut Tree, message: &Message, at: SystemTime) {
        if let Some(session) = message.session_id() {
            tree.session(session);
        }
        match message {
            Message::System(system) => self::system(tree, system, at),
            Message::Assistant(message) => assistant(tree, message, at),
            Message::User(message) => user(tree, message, at),
            Message::StreamEvent(event) => {
                let thread = tree.thread_of(event.parent_tool_use_id.as_deref(), None);
                stream_event(tree, &thread, &event.event, at);
            }
            Message::Result(result) => self.result(tree, result),
            _ => {}
        }
    }

    /// A turn is over; its result says how, and what everything cost.
    fn result(&mut self, tree: &mut Tree, result: &ResultMessage) {
        tree.close_chat(MAIN, None);
        if let Some(usage) = &result.usage {
            let tokens = Tokens::from(usage);
            tree.root_usage(Some(&tokens), Some(tokens.output));
        }
        if let Some(reason) = &result.stop_reason {
            tree.root_finish(reason);
        }
        if let (Some(text), true) = (&result.result, tree.settings.content.wanted) {
            tree.root_output(text);
        }
        if let (Some(total), Some(before)) = (result.total_cost_usd, self.cost_before) {
            tree.root_set(KeyValue::new(common::COST_USD, total - before));
        }
        self.count(tree, result);
        tree.outcome = Some(outcome(result));
    }

    /// What this turn added to the session's totals.
    fn count(&mut self, tree: &Tree, result: &ResultMessage) {
        let Some(totals) = &result.model_usage else { return };
        let now = totals.iter().map(|(model, usage)| (model.clone(), (Tokens::from(usage), usage.cost_usd)));
        let known = self.before.replace(now.collect());
        let Some(metrics) = &tree.settings.metrics else { return };
        let added = result.model_usage_since_last_result.as_ref();
        for (model, usage) in added.unwrap_or(totals) {
            let (tokens, cost) = match (added, &known) {
                (Some(_), _) => (Tokens::from(usage), usage.cost_usd),
                (None, Some(before)) => minus(usage, before.get(model)),
                (None, None) => continue,
            };
            let operation =
                Operation { name: "invoke_agent", provider: PROVIDER, model: Some(model), error_type: None };
            metrics.tokens(operation, &tokens);
            if let Some(cost) = cost.filter(|cost| *cost > 0.0) {
                metrics.cost(operation, cost);
            }
        }
    }
}

fn minus(usage: &ModelUsage, before: Option<&(Tokens, Option<f64>)>) -> (Tokens, Option<f64>) {
    let mut tokens = Tokens::from(usage);
    let Some((old, cost)) = before else { return (tokens, usage.cost_usd) };
    tokens.input = tokens.input.saturating_sub(old.input);
    tokens.output = tokens.output.saturating_sub(old.output);
    tokens.cache_read = tokens.cache_read.saturating_sub(old.cache_read);
    tokens.cache_creation = tokens.cache_creation.saturating_sub(old.cache_creation);
    (tokens, usage.cost_usd.map(|now| now - cost.unwrap_or_default()))
}

/// How a turn ended, as its result has it.
fn outcome(result: &ResultMessage) -> Result<(), Failure> {
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
    Err(Failure::new(kind, message))
}

fn system(tree: &mut Tree, system: &SystemMessage, at: SystemTime) {
    match system {
        SystemMessage::Init(init) => {
            if let Some(model) = &init.model {
                tree.model(model);
            }
        }
        SystemMessage::TaskStarted(task) if task.task_type.as_deref() == Some("local_agent") => {
            let Some(agent) = &task.task_id else { return };
            let kind = task.subagent_type.as_deref().unwrap_or_default();
            tree.subagent_begins(agent, kind, task.tool_use_id.as_deref(), at);
            if task.is_backgrounded == Some(true) {
                tree.in_background(agent);
            }
        }
        SystemMessage::TaskUpdated(task) => {
            if let (Some(agent), Some(true)) =
                (&task.task_id, task.patch.as_ref().and_then(|patch| patch.is_backgrounded))
            {
                tree.in_background(agent);
            }
        }
        SystemMessage::TaskNotification(task) => task_ends(tree, task, at),
        SystemMessage::PermissionDenied(denied) => tree.tool_denied(&denied.tool_use_id),
        SystemMessage::ApiRetry(retry) => {
            let mut attributes =
                vec![KeyValue::new("attempt", i64::try_from(retry.attempt).unwrap_or(i64::MAX))];
            attributes.extend(retry.error.clone().map(|error| KeyValue::new(common::ERROR_TYPE, error)));
            tree.event("api_retry", attributes, at);
        }
        SystemMessage::CompactBoundary(_) => tree.event("compaction", Vec::new(), at),
        SystemMessage::Notification(note) => {
            let text = note.text.as_deref().and_then(|text| tree.settings.content.wanted(text));
            tree.event(
                "notification",
                text.map(|text| KeyValue::new("text", text)).into_iter().collect(),
                at,
            );
        }
        _ => {}
    }
}

fn task_ends(tree: &mut Tree, task: &TaskMessage, at: SystemTime) {
    let Some(agent) = &task.task_id else { return };
    let failure = match task.status.as_deref() {
        Some("completed") | None => None,
        Some(status) => Some(Failure::new(format!("task_{status}"), status)),
    };
    tree.subagent_ends(agent, failure.as_ref(), at);
}

fn assistant(tree: &mut Tree, message: &AssistantMessage, at: SystemTime) {
    let thread = thread(
        tree,
        message.parent_tool_use_id.as_deref(),
        message.agent_id.as_deref(),
        || message.subagent_type.clone(),
        at,
    );
    let answer = &message.message;
    let wanted = tree.settings.content.wanted;
    if let Some(chat) = tree.chat(&thread, answer.id.as_deref().unwrap_or_default(), at) {
        chat.last = at;
        if message.is_synthetic() {
            let kind = message.api_error_type.clone().or_else(|| message.error.clone());
            let words = if message.is_api_error_message { message.text() } else { String::new() };
            chat.failure = Some(Failure::new(kind.unwrap_or_else(|| "api_error".to_owned()), words));
        } else {
            chat.model = answer.model.clone().or_else(|| chat.model.take());
            chat.input = answer.usage.as_ref().map(Tokens::from).or(chat.input);
            chat.stop_reason = answer.stop_reason.clone().or_else(|| chat.stop_reason.take());
        }
        if message.aborted {
            chat.failure = Some(Failure::new("aborted", "aborted"));
        }
        if wanted {
            chat.parts.extend(answer.content.iter().filter_map(part));
        }
    }
    for block in &answer.content {
        match block {
            Block::ToolUse(call) => {
                tree.tool_begins(&thread, &call.id, &call.name, call.input.as_str(), at);
            }
            Block::ServerToolUse(call) => {
                tree.tool_begins(&thread, &call.id, &call.name, call.input.as_str(), at);
            }
            Block::ServerToolResult(result) => {
                let output = result.content.as_ref().map(ToString::to_string).unwrap_or_default();
                tree.tool_ends(&result.tool_use_id, &output, None, at);
            }
            _ => {}
        }
    }
}

/// A part of an answer, in the conventions' form.
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

fn user(tree: &mut Tree, message: &UserMessage, at: SystemTime) {
    if message.is_replay {
        return;
    }
    let thread = thread(
        tree,
        message.parent_tool_use_id.as_deref(),
        message.agent_id.as_deref(),
        || message.subagent_type.clone(),
        at,
    );
    tree.close_chat(&thread, None);
    let mut told = Vec::new();
    let wanted = tree.settings.content.wanted;
    for block in message.message.content.blocks() {
        match block {
            Block::ToolResult(result) => {
                let output = result.content.text();
                let failure = result.is_error.then(|| failed(&output, message));
                if wanted {
                    told.push(
                        json!({"type": "tool_call_response", "id": result.tool_use_id, "response": output}),
                    );
                }
                tree.tool_ends(&result.tool_use_id, &output, failure.as_ref(), at);
            }
            Block::Text(text) if wanted => told.push(text_part(&text.text)),
            _ => {}
        }
    }
    if let (MessageContent::Text(text), true) = (&message.message.content, wanted) {
        told.push(text_part(text));
    }
    let role = if told.iter().any(|part| part["type"] == "tool_call_response") { "tool" } else { "user" };
    tree.told(&thread, told, role, at);
}

/// The CLI's words for a tool that was cut off, or whose call the host rejected.
const REJECTED: &str = "\"User rejected tool use";

/// Why a tool gave an error: its own, or somebody's who did not let it finish.
fn failed(output: &str, message: &UserMessage) -> Failure {
    let kept = message.tool_use_result.as_ref();
    let rejected = kept.is_some_and(|result| result.as_str().starts_with(REJECTED));
    Failure::new(if rejected { "interrupted" } else { "tool_error" }, output)
}

/// Whose a message is. A subagent that nobody told of begins with its first message.
fn thread(
    tree: &mut Tree,
    call: Option<&str>,
    agent: Option<&str>,
    kind: impl Fn() -> Option<String>,
    at: SystemTime,
) -> String {
    let Some(call) = call else { return MAIN.to_owned() };
    let known = tree.thread_of(Some(call), agent);
    if known != MAIN {
        return known;
    }
    let key = agent.unwrap_or(call).to_owned();
    tree.subagent_begins(&key, &kind().unwrap_or_default(), Some(call), at);
    tree.thread_of(Some(call), Some(&key))
}

fn stream_event(tree: &mut Tree, thread: &str, event: &ApiEvent, at: SystemTime) {
    match event {
        ApiEvent::MessageStart(answer) => {
            if let Some(chat) = tree.chat(thread, answer.id.as_deref().unwrap_or_default(), at) {
                chat.last = at;
                chat.model = answer.model.clone();
                chat.input = answer.usage.as_ref().map(Tokens::from);
            }
        }
        ApiEvent::MessageDelta { stop_reason, usage } => {
            if let Some(chat) = tree.open_chat(thread) {
                chat.last = at;
                chat.stop_reason = stop_reason.clone().or_else(|| chat.stop_reason.take());
                chat.output = usage.as_ref().map(|usage| usage.output_tokens).or(chat.output);
            }
        }
        _ => {}
    }
}
