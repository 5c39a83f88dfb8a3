//! Folds the messages of an execution into the messages of its log.

use jiff::Timestamp;
use yb_claude::frame::{AssistantMessage, UserMessage};
use yb_claude::{Block, Message, MessageContent, RawJson, RunSummary, strip_ansi};

use super::meter::{Live, Meter};
use super::reader::{ClaudeReader, Reader};
use yb_model::log::{FunctionCall, LogMessage, MessageToolCall, Role};

/// The most bytes of one message; `frames.jsonl` has all of it.
const MESSAGE_LIMIT: usize = 256 << 10;
/// The most bytes of all messages.
const TRANSCRIPT_LIMIT: usize = 32 << 20;
/// The most lines that can't be parsed that are reported.
const PROBLEMS: usize = 5;

/// The messages of an execution and their summary.
#[derive(Debug, Clone, Default)]
pub struct Transcript {
    summary: RunSummary,
    meter: Meter,
    messages: Vec<LogMessage>,
    /// The answer that the last message belongs to: an agent prints a line for each of its parts.
    answer: Option<String>,
    kept: usize,
    problems: Vec<String>,
    /// Whether any line was a message.
    spoke: bool,
}

impl Transcript {
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

    /// The messages, in order.
    #[must_use]
    pub fn messages(&self) -> &[LogMessage] {
        &self.messages
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
        self.observe_with(&mut ClaudeReader, line).pop()
    }

    /// Observes a line and returns its messages.
    pub(super) fn observe_with(&mut self, reader: &mut dyn Reader, line: &[u8]) -> Vec<Message> {
        let messages = reader.parse_line(line).unwrap_or_else(|problem| {
            if self.problems.len() < PROBLEMS {
                self.problems.push(problem);
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

    fn take(&mut self, message: &Message) {
        match message {
            Message::Assistant(assistant) => self.take_assistant(assistant),
            Message::User(user) if !user.is_replay => self.take_user(user),
            _ => {}
        }
    }

    fn take_assistant(&mut self, said: &AssistantMessage) {
        let text = self.keep(&said.text());
        let calls: Vec<MessageToolCall> = said.message.content.iter().filter_map(call_of).collect();
        if text.is_empty() && calls.is_empty() {
            return;
        }
        let same_answer = said.message.id.is_some() && said.message.id == self.answer;
        match self.messages.last_mut() {
            Some(last) if same_answer && last.role == Role::Assistant => {
                last.content.push_str(&text);
                last.tool_calls.extend(calls);
            }
            _ => {
                let mut message = message(Role::Assistant, text, said.timestamp.as_deref());
                message.tool_calls = calls;
                message.parent_tool_call_id.clone_from(&said.parent_tool_use_id);
                self.messages.push(message);
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
                            let content = self.keep(&result.content.text());
                            let mut message = message(Role::Tool, content, user.timestamp.as_deref());
                            message.tool_call_id = Some(result.tool_use_id.clone());
                            message.parent_tool_call_id.clone_from(&user.parent_tool_use_id);
                            self.messages.push(message);
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
            self.messages.push(message);
        }
    }

    /// The text without terminal codes, and as much of it as there is room for.
    fn keep(&mut self, text: &str) -> String {
        let clean = strip_ansi(text);
        let room = MESSAGE_LIMIT.min(TRANSCRIPT_LIMIT.saturating_sub(self.kept));
        let end = clean.floor_char_boundary(room);
        self.kept += end;
        if end == clean.len() {
            return clean.into_owned();
        }
        format!("{}\n[CONTENT TRUNCATED: {end} of {} bytes kept]", &clean[..end], clean.len())
    }
}

fn call_of(block: &Block) -> Option<MessageToolCall> {
    let (Block::ToolUse(call) | Block::ServerToolUse(call)) = block else { return None };
    let function = FunctionCall { name: call.name.clone(), arguments: arguments(&call.input) };
    Some(MessageToolCall { id: call.id.clone(), kind: "function".to_owned(), function })
}

/// The arguments of a call, as a JSON text of bounded length.
pub(super) fn arguments(input: &RawJson) -> String {
    let text = input.as_str();
    let end = text.floor_char_boundary(MESSAGE_LIMIT);
    if end == text.len() {
        return text.to_owned();
    }
    // What is cut is no JSON any more, and a reader may parse it.
    serde_json::json!({ "truncated": true, "bytes": text.len(), "beginning": &text[..end] }).to_string()
}

fn message(role: Role, content: String, timestamp: Option<&str>) -> LogMessage {
    let timestamp = match timestamp {
        Some(timestamp) if timestamp.parse::<Timestamp>().is_ok() => timestamp.to_owned(),
        _ => iso(Timestamp::now()),
    };
    LogMessage {
        role,
        content,
        timestamp,
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
