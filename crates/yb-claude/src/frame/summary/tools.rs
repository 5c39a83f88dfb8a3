//! The tools of a run: who called them, and what they gave.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::frame::block::{Block, ToolUse};
use crate::frame::message::AssistantMessage;
use crate::frame::peek::Peek;
use crate::frame::raw::{RawJson, head};

/// How much of a tool's output is kept; all of it is in the messages.
const KEPT: usize = 4096;

/// A call of a tool.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ToolCall {
    /// The call's id.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments, a JSON object.
    pub input: RawJson,
    /// The call that began the subagent which called this tool; none for the main thread.
    pub parent_tool_use_id: Option<String>,
    /// The API runs the tool, not the CLI.
    pub is_server: bool,
    /// What it gave; none when the run ended before.
    pub outcome: Option<ToolOutcome>,
}

/// What a tool gave.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolOutcome {
    /// It failed, or was not allowed to run.
    pub is_error: bool,
    /// The beginning of its output, at most 4096 bytes.
    pub text: String,
    /// The length of the whole output.
    pub bytes: usize,
}

impl ToolOutcome {
    fn new(is_error: bool, output: &str) -> Self {
        Self { is_error, text: head(output, KEPT).to_owned(), bytes: output.len() }
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Tools {
    calls: Vec<ToolCall>,
    by_id: HashMap<String, usize>,
}

impl Tools {
    pub(super) fn calls(&self) -> &[ToolCall] {
        &self.calls
    }

    /// The calls of an answer, and the results of those that the API ran itself.
    pub(super) fn take_calls(&mut self, assistant: &AssistantMessage) {
        for block in &assistant.message.content {
            match block {
                Block::ToolUse(call) => self.add(call, assistant, false),
                Block::ServerToolUse(call) => self.add(call, assistant, true),
                _ => {}
            }
        }
        self.take_results(&assistant.message.content);
    }

    fn add(&mut self, call: &ToolUse, by: &AssistantMessage, is_server: bool) {
        if !call.id.is_empty() {
            match self.by_id.entry(call.id.clone()) {
                // Told twice, as the CLI does when it replays a session.
                Entry::Occupied(_) => return,
                Entry::Vacant(place) => place.insert(self.calls.len()),
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

    pub(super) fn take_results(&mut self, blocks: &[Block]) {
        for block in blocks {
            let (id, outcome) = match block {
                Block::ToolResult(result) => {
                    (&result.tool_use_id, ToolOutcome::new(result.is_error, &result.content.text()))
                }
                Block::ServerToolResult(result) => {
                    let content = result.content.as_ref().map(RawJson::as_str).unwrap_or_default();
                    let is_error = Peek::at(content).kind.is_some_and(|kind| kind.ends_with("_error"));
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
