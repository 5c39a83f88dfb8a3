//! Collects the tool calls of a run and their outcomes.

use std::collections::HashMap;

use crate::frame::block::{Block, ToolUseBlock};
use crate::frame::head_tail::HeadTail;
use crate::frame::message::AssistantMessage;
use crate::frame::raw::{RawJson, head};
use crate::frame::type_tag::TypeTag;

/// The maximum length of a kept tool output; the messages hold the full output.
const OUTPUT_LIMIT: usize = 4096;

/// A tool call.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ToolCall {
    /// The tool call's ID.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments, a JSON object.
    pub input: RawJson,
    /// The tool call that started the calling subagent; `None` for the main thread.
    pub parent_tool_use_id: Option<String>,
    /// Whether the API runs the tool, not the CLI.
    pub is_server: bool,
    /// The outcome; `None` if the run ended before.
    pub outcome: Option<ToolOutcome>,
}

/// The outcome of a tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolOutcome {
    /// Whether the tool failed or was denied.
    pub is_error: bool,
    /// The output, truncated to 4096 bytes.
    pub text: String,
    /// The length of the full output in bytes.
    pub bytes: usize,
}

impl ToolOutcome {
    fn new(is_error: bool, output: &str) -> Self {
        Self { is_error, text: head(output, OUTPUT_LIMIT).to_owned(), bytes: output.len() }
    }
}

impl ToolCall {
    /// The size in memory, about.
    fn weight(&self) -> usize {
        let parent = self.parent_tool_use_id.as_ref().map_or(0, String::len);
        // An outcome may follow.
        2 * self.id.len() + self.name.len() + self.input.as_str().len() + parent + OUTPUT_LIMIT / 8 + 256
    }
}

#[derive(Debug, Clone)]
pub(super) struct ToolCalls {
    calls: HeadTail<ToolCall>,
    /// Positions of the calls that are kept.
    by_id: HashMap<String, u64>,
    failed: u64,
    /// Calls that are no longer kept, if they are wanted.
    omitted: Option<Vec<ToolCall>>,
    limit: usize,
}

impl ToolCalls {
    pub(super) fn new(limit: usize) -> Self {
        Self { calls: HeadTail::new(limit), by_id: HashMap::new(), failed: 0, omitted: None, limit }
    }

    pub(super) fn calls(&self) -> &HeadTail<ToolCall> {
        &self.calls
    }

    pub(super) fn get(&self, id: &str) -> Option<&ToolCall> {
        self.calls.get(*self.by_id.get(id)?)
    }

    pub(super) fn failed(&self) -> u64 {
        self.failed
    }

    pub(super) fn collect_omitted(&mut self) {
        self.omitted = Some(Vec::new());
        self.calls = HeadTail::tail_of(self.limit);
    }

    pub(super) fn take_omitted(&mut self) -> Vec<ToolCall> {
        self.omitted.as_mut().map(std::mem::take).unwrap_or_default()
    }

    pub(super) fn mark_failed(&mut self, id: &str) {
        let call = self.by_id.get(id).and_then(|at| self.calls.get_mut(*at));
        if let Some(outcome) = call.and_then(|call| call.outcome.as_mut()) {
            self.failed += u64::from(!outcome.is_error);
            outcome.is_error = true;
        }
    }

    /// Adds the calls of a response, and the results of API tools.
    pub(super) fn add_calls(&mut self, assistant: &AssistantMessage) {
        for block in &assistant.message.content {
            match block {
                Block::ToolUse(call) => self.add(call, assistant, false),
                Block::ServerToolUse(call) => self.add(call, assistant, true),
                _ => {}
            }
        }
        self.add_results(&assistant.message.content);
    }

    fn add(&mut self, call: &ToolUseBlock, by: &AssistantMessage, is_server: bool) {
        // Repeated, as when the CLI replays a session.
        if !call.id.is_empty() && self.by_id.contains_key(&call.id) {
            return;
        }
        let call = ToolCall {
            id: call.id.clone(),
            name: call.name.clone(),
            input: call.input.detached(),
            parent_tool_use_id: by.parent_tool_use_id.clone(),
            is_server,
            outcome: None,
        };
        let (id, weight) = (call.id.clone(), call.weight());
        let (by_id, omitted) = (&mut self.by_id, &mut self.omitted);
        let position = self.calls.push(call, weight, &mut |call| {
            by_id.remove(&call.id);
            if let Some(omitted) = omitted {
                omitted.push(call);
            }
        });
        if !id.is_empty() {
            self.by_id.insert(id, position);
        }
    }

    pub(super) fn add_results(&mut self, blocks: &[Block]) {
        for block in blocks {
            let (id, outcome) = match block {
                Block::ToolResult(result) => {
                    (&result.tool_use_id, ToolOutcome::new(result.is_error, &result.content.text()))
                }
                Block::ServerToolResult(result) => {
                    let content = result.content.as_ref().map(RawJson::as_str).unwrap_or_default();
                    let is_error = TypeTag::read(content).kind.is_some_and(|kind| kind.ends_with("_error"));
                    (&result.tool_use_id, ToolOutcome::new(is_error, content))
                }
                _ => continue,
            };
            if let Some(call) = self.by_id.get(id).and_then(|at| self.calls.get_mut(*at)) {
                let was_error = call.outcome.as_ref().is_some_and(|outcome| outcome.is_error);
                self.failed = self.failed + u64::from(outcome.is_error) - u64::from(was_error);
                call.outcome = Some(outcome);
            }
        }
    }
}
