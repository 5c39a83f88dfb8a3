//! Folds the messages of an execution into the messages of its log.

use std::collections::BTreeMap;
use std::path::Path;

use jiff::Timestamp;
use yb_claude::frame::{ApiEvent, AssistantMessage, Delta, HeadTail, ToolCall, UserMessage};
use yb_claude::{Block, Message, MessageContent, RawJson, RunSummary, strip_ansi};

use super::bounds::{Bounds, OpenText, shortened};
use super::meter::{Live, Meter};
use super::reader::{ClaudeReader, Reader};
use yb_model::log::{FunctionCall, LogMessage, MessageToolCall, Omitted, Role, ToolCallRecord};
use yb_supervise::full_length;

/// The most lines that can't be parsed that are reported.
const PROBLEMS: usize = 5;
/// What a message or a call takes in memory beside its texts, about.
const ITEM: usize = 256;

/// The messages of an execution and their summary.
///
/// Its size is bounded by [`Bounds`]: it keeps the first and the last messages and calls, and counts all.
#[derive(Debug, Clone)]
pub struct Transcript {
    bounds: Bounds,
    summary: RunSummary,
    meter: Meter,
    messages: HeadTail<LogMessage>,
    /// Messages that are no longer kept, if they are wanted.
    omitted: Option<Vec<LogMessage>>,
    /// The answer that the last message belongs to: an agent prints a line for each of its parts.
    answer: Option<String>,
    /// When each tool call started and ended, by its id.
    tool_times: BTreeMap<String, ToolTimes>,
    /// The answer that the main thread is writing, from `--include-partial-messages`.
    partial: PartialAnswer,
    problems: Vec<String>,
    /// Lines that were too long to be read.
    skipped_lines: u64,
    /// Whether any line was a message.
    spoke: bool,
}

/// When a tool call started and ended, ISO 8601.
#[derive(Debug, Clone, Default)]
pub(super) struct ToolTimes {
    pub(super) started_at: String,
    pub(super) completed_at: Option<String>,
    /// The length of the result.
    pub(super) result_bytes: Option<u64>,
}

/// The text of an answer whose message has not arrived.
#[derive(Debug, Clone, Default)]
struct PartialAnswer {
    text: OpenText,
    thinking: OpenText,
}

impl Default for Transcript {
    fn default() -> Self {
        Self::new(Bounds::default())
    }
}

impl Transcript {
    /// A transcript with these bounds.
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            summary: RunSummary::with_limits(bounds.summary()),
            meter: Meter::default(),
            messages: HeadTail::new(bounds.messages),
            omitted: None,
            answer: None,
            tool_times: BTreeMap::new(),
            partial: PartialAnswer::default(),
            problems: Vec::new(),
            skipped_lines: 0,
            spoke: false,
        }
    }

    /// A transcript of an agent in a workspace, whose files it names relative to it.
    pub(super) fn in_workspace(workspace: &Path, bounds: Bounds) -> Self {
        Self { meter: Meter::in_workspace(workspace), ..Self::new(bounds) }
    }

    /// Collects the messages and calls that are not kept: all but the last ones.
    pub(super) fn collect_omitted(&mut self) {
        self.omitted = Some(Vec::new());
        self.messages = HeadTail::tail_of(self.bounds.messages);
        self.summary.collect_omitted_tools();
    }

    /// Takes the messages and calls that are no longer kept, in order.
    pub(super) fn take_omitted(&mut self) -> (Vec<LogMessage>, Vec<ToolCallRecord>) {
        let messages = self.omitted.as_mut().map(std::mem::take).unwrap_or_default();
        let calls = self.summary.take_omitted_tools();
        (messages, calls.iter().map(|call| self.record(call)).collect())
    }

    /// Takes the messages and calls that are no longer kept, and those that are.
    pub(super) fn take_all(mut self) -> (Vec<LogMessage>, Vec<ToolCallRecord>) {
        let (mut messages, mut calls) = self.take_omitted();
        messages.extend_from_slice(self.messages.items());
        calls.extend(self.summary.tools().iter().map(|call| self.record(call)));
        (messages, calls)
    }

    /// The log's record of a tool call.
    pub(super) fn record(&self, call: &ToolCall) -> ToolCallRecord {
        let times = self.tool_times.get(&call.id).cloned().unwrap_or_default();
        let outcome = call.outcome.as_ref();
        ToolCallRecord {
            id: Some(call.id.clone()),
            name: call.name.clone(),
            arguments: arguments(&call.input, self.bounds.message),
            result: outcome.map(|outcome| strip_ansi(&outcome.text).into_owned()),
            result_bytes: outcome.map(|outcome| times.result_bytes.unwrap_or(outcome.bytes as u64)),
            is_error: outcome.map(|outcome| outcome.is_error),
            started_at: Some(times.started_at).filter(|time| !time.is_empty()),
            completed_at: times.completed_at,
            parent_tool_call_id: call.parent_tool_use_id.clone(),
        }
    }

    /// What the log leaves out; `None` if nothing. `before` messages come before those of the transcript.
    pub(super) fn omitted(&self, before: usize) -> Option<Omitted> {
        let (tool_calls, calls_before) = self.summary.omitted_tools();
        let omitted = Omitted {
            messages: self.messages.omitted(),
            messages_before: (before + self.messages.head_len()) as u64,
            tool_calls,
            tool_calls_before: calls_before as u64,
            failed_tool_calls: self.summary.failed_tool_count(),
            skipped_lines: self.skipped_lines,
        };
        (omitted.messages > 0 || tool_calls > 0 || self.skipped_lines > 0).then_some(omitted)
    }

    /// Counts a line that was too long to be read.
    pub(super) fn skip_line(&mut self) {
        self.skipped_lines += 1;
    }

    /// The summary of the messages.
    #[must_use]
    pub fn summary(&self) -> &RunSummary {
        &self.summary
    }

    /// The progress so far.
    #[must_use]
    pub fn live(&self) -> &Live {
        self.meter.live()
    }

    pub(super) fn meter(&self) -> &Meter {
        &self.meter
    }

    /// The messages, in order: all, or the first and the last ones.
    #[must_use]
    pub fn messages(&self) -> &[LogMessage] {
        self.messages.items()
    }

    /// Marks a call as failed, if only another source than the messages tells.
    pub(super) fn mark_failed(&mut self, id: &str) {
        self.summary.mark_tool_failed(id);
    }

    /// Lines that look like messages and can't be parsed.
    #[must_use]
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Whether there was any message.
    #[must_use]
    pub fn spoke(&self) -> bool {
        self.spoke
    }

    /// Observes a line of Claude Code and returns its message, if it is one.
    pub fn observe_line(&mut self, line: &[u8]) -> Option<Message> {
        self.observe_with(&mut ClaudeReader::default(), line).pop()
    }

    /// Observes a line and returns its messages.
    pub(super) fn observe_with(&mut self, reader: &mut dyn Reader, line: &[u8]) -> Vec<Message> {
        let messages = reader.parse_line(line).unwrap_or_else(|problem| {
            if self.problems.len() < PROBLEMS {
                self.problems.push(shortened(&problem, 1024));
            }
            Vec::new()
        });
        messages.iter().for_each(|message| self.observe(message));
        messages
    }

    /// Observes a message.
    pub(super) fn observe(&mut self, message: &Message) {
        self.spoke = true;
        self.summary.observe(message);
        self.meter.observe(message);
        self.take(message);
    }

    /// Adds the text of an answer that was cut off: no message has it.
    pub(super) fn finish(&mut self) {
        let (text, thinking) = (self.partial.text.take(), self.partial.thinking.take());
        if !text.is_empty() || !thinking.is_empty() {
            let mut message = message(Role::Assistant, self.keep(&text), None);
            message.thinking = self.keep(&thinking);
            self.push(message);
        }
    }

    #[cfg(test)]
    pub(super) fn kept_times(&self) -> usize {
        self.tool_times.len()
    }

    /// The text of an answer whose message has not arrived.
    pub(super) fn partial_text(&self) -> Option<&str> {
        Some(self.partial.text.as_str()).filter(|text| !text.is_empty())
    }

    fn take(&mut self, message: &Message) {
        match message {
            Message::Assistant(assistant) => self.take_assistant(assistant),
            Message::User(user) if !user.is_replay => self.take_user(user),
            Message::StreamEvent(event) if event.parent_tool_use_id.is_none() => match &event.event {
                ApiEvent::BlockDelta { delta: Delta::Text(text), .. } => self.partial.text.push(text),
                ApiEvent::BlockDelta { delta: Delta::Thinking(text), .. } => self.partial.thinking.push(text),
                _ => {}
            },
            _ => {}
        }
    }

    fn take_assistant(&mut self, said: &AssistantMessage) {
        if said.parent_tool_use_id.is_none() {
            self.partial.text.clear();
            self.partial.thinking.clear();
        }
        let text = self.keep(&said.text());
        let thoughts: Vec<&str> = said.message.content.iter().filter_map(thought).collect();
        let thinking = self.keep(&thoughts.join("\n"));
        let calls = said.message.content.iter().filter_map(|block| self.call_of(block));
        let calls: Vec<MessageToolCall> = calls.collect();
        if text.is_empty() && thinking.is_empty() && calls.is_empty() {
            return;
        }
        for call in &calls {
            let started_at = timestamp_or_now(said.timestamp.as_deref());
            self.tool_times
                .entry(call.id.clone())
                .or_insert_with(|| ToolTimes { started_at, ..ToolTimes::default() });
        }
        // Times of calls that are no longer kept.
        if self.tool_times.len() > 2 * self.summary.tools().len() + 1024 {
            let summary = &self.summary;
            self.tool_times.retain(|id, _| summary.tool(id).is_some());
        }
        let same_answer = said.message.id.is_some()
            && said.message.id == self.answer
            && self.messages.last_weight() < self.bounds.message;
        match self.messages.last_mut() {
            Some(last) if same_answer && last.role == Role::Assistant => {
                let more = text.len() + thinking.len() + calls.iter().map(call_weight).sum::<usize>();
                last.content.push_str(&text);
                last.thinking.push_str(&thinking);
                last.tool_calls.extend(calls);
                self.messages.grow_last(more);
            }
            _ => {
                let mut message = message(Role::Assistant, text, said.timestamp.as_deref());
                message.thinking = thinking;
                message.tool_calls = calls;
                message.parent_tool_call_id.clone_from(&said.parent_tool_use_id);
                self.push(message);
            }
        }
        self.answer.clone_from(&said.message.id);
    }

    fn take_user(&mut self, user: &UserMessage) {
        let mut texts = String::new();
        match &user.message.content {
            MessageContent::Text(text) => texts.push_str(text),
            MessageContent::Blocks(blocks) => {
                for block in blocks {
                    match block {
                        Block::Text(text) => texts.push_str(&text.text),
                        Block::ToolResult(result) => {
                            let output = result.content.text();
                            let mut message =
                                message(Role::Tool, self.keep(&output), user.timestamp.as_deref());
                            message.tool_call_id = Some(result.tool_use_id.clone());
                            if let Some(times) = self.tool_times.get_mut(&result.tool_use_id) {
                                times.completed_at = Some(message.timestamp.clone());
                                times.result_bytes = Some(full_length(&output) as u64);
                            }
                            message.parent_tool_call_id.clone_from(&user.parent_tool_use_id);
                            self.push(message);
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
        if !texts.is_empty() {
            let content = self.keep(&texts);
            let mut message = message(Role::User, content, user.timestamp.as_deref());
            message.parent_tool_call_id.clone_from(&user.parent_tool_use_id);
            self.push(message);
        }
    }

    fn push(&mut self, message: LogMessage) {
        let weight = ITEM
            + message.content.len()
            + message.thinking.len()
            + message.tool_calls.iter().map(call_weight).sum::<usize>()
            + message.tool_call_id.as_ref().map_or(0, String::len)
            + message.parent_tool_call_id.as_ref().map_or(0, String::len);
        let omitted = &mut self.omitted;
        self.messages.push(message, weight, &mut |message| {
            if let Some(omitted) = omitted {
                omitted.push(message);
            }
        });
    }

    /// The text without terminal codes, and as much of it as a message may have.
    fn keep(&self, text: &str) -> String {
        shortened(&strip_ansi(text), self.bounds.message)
    }

    fn call_of(&self, block: &Block) -> Option<MessageToolCall> {
        let (Block::ToolUse(call) | Block::ServerToolUse(call)) = block else { return None };
        let arguments = arguments(&call.input, self.bounds.message);
        let function = FunctionCall { name: call.name.clone(), arguments };
        Some(MessageToolCall { id: call.id.clone(), kind: "function".to_owned(), function })
    }
}

fn call_weight(call: &MessageToolCall) -> usize {
    ITEM + call.id.len() + call.function.name.len() + call.function.arguments.len()
}

fn thought(block: &Block) -> Option<&str> {
    match block {
        Block::Thinking(block) if !block.thinking.trim().is_empty() => Some(&block.thinking),
        _ => None,
    }
}

/// The arguments of a call, as a JSON text of bounded length.
fn arguments(input: &RawJson, limit: usize) -> String {
    let text = input.as_str();
    let end = text.floor_char_boundary(limit);
    if end == text.len() {
        return text.to_owned();
    }
    // What is cut is no JSON any more, and a reader may parse it.
    serde_json::json!({ "truncated": true, "bytes": text.len(), "beginning": &text[..end] }).to_string()
}

/// The agent's timestamp if it is one, otherwise the current time.
fn timestamp_or_now(timestamp: Option<&str>) -> String {
    match timestamp {
        Some(timestamp) if timestamp.parse::<Timestamp>().is_ok() => timestamp.to_owned(),
        _ => iso(Timestamp::now()),
    }
}

fn message(role: Role, content: String, timestamp: Option<&str>) -> LogMessage {
    LogMessage {
        role,
        content,
        timestamp: timestamp_or_now(timestamp),
        thinking: String::new(),
        tool_calls: Vec::new(),
        tool_call_id: None,
        parent_tool_call_id: None,
    }
}

/// ISO 8601, to the millisecond.
pub(super) fn iso(time: Timestamp) -> String {
    format!("{time:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(lines: &[&str]) -> Transcript {
        let mut transcript = Transcript::default();
        for line in lines {
            transcript.observe_line(line.as_bytes());
        }
        transcript
    }

    #[test]
    fn parts_of_one_answer_are_one_message() {
        let transcript = folded(&[
            r#"{"type":"assistant","message":{"id":"m1","content":[{"type":"text","text":"I look."}]}}"#,
            r#"{"type":"assistant","message":{"id":"m1","content":[{"type":"tool_use","id":"t1","name":"Read","input":{"p":1}}]}}"#,
            r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"\u001b[31mred\u001b[0m"}]}}"#,
            r#"{"type":"assistant","message":{"id":"m2","content":[{"type":"thinking","thinking":"hm"}]}}"#,
            r#"{"type":"assistant","message":{"id":"m2","content":[{"type":"text","text":"Done."}]}}"#,
        ]);
        let messages: Vec<_> = transcript.messages().iter().map(|m| (m.role, m.content.as_str())).collect();
        assert_eq!(messages, [(Role::Assistant, "I look."), (Role::Tool, "red"), (Role::Assistant, "Done.")]);
        assert_eq!(transcript.messages()[2].thinking, "hm");
        assert_eq!(transcript.messages()[0].tool_calls[0].function.arguments, r#"{"p":1}"#);
        assert_eq!(transcript.messages()[1].tool_call_id.as_deref(), Some("t1"));
    }

    #[test]
    fn non_message_lines_are_ignored() {
        let transcript = folded(&["[debug] hello", "{\"type\":", "", "{\"type\":\"new_thing\"}"]);
        assert_eq!(transcript.problems().len(), 1);
        assert!(transcript.messages().is_empty() && transcript.spoke());
    }

    #[test]
    fn long_message_is_truncated_and_marked() {
        const MESSAGE_LIMIT: usize = 256 << 10;
        let text = "é".repeat(MESSAGE_LIMIT);
        let line = serde_json::json!({"type": "user", "message": {"content": text}}).to_string();
        let transcript = folded(&[&line]);
        let content = &transcript.messages()[0].content;
        assert!(content.len() < MESSAGE_LIMIT + 100);
        assert!(
            content.ends_with(&format!("[CONTENT TRUNCATED: {MESSAGE_LIMIT} of {} bytes kept]", text.len()))
        );
    }
}
