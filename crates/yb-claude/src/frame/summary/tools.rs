//! Collects the tool calls of a run and their outcomes.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::frame::block::{Block, ToolUseBlock};
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

#[derive(Debug, Clone, Default)]
pub(super) struct ToolCalls {
    calls: Vec<ToolCall>,
    by_id: HashMap<String, usize>,
}

impl ToolCalls {
    pub(super) fn calls(&self) -> &[ToolCall] {
        &self.calls
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
        if !call.id.is_empty() {
            match self.by_id.entry(call.id.clone()) {
                // Repeated, as when the CLI replays a session.
                Entry::Occupied(_) => return,
                Entry::Vacant(entry) => entry.insert(self.calls.len()),
            };
        }
        self.calls.push(ToolCall {
            id: call.id.clone(),
            name: call.name.clone(),
            input: call.input.clone(),
            parent_tool_use_id: by.parent_tool_use_id.clone(),
            is_server,
            outcome: None,
        });
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
            if let Some(call) = self.by_id.get(id).and_then(|index| self.calls.get_mut(*index)) {
                call.outcome = Some(outcome);
            }
        }
    }
}
