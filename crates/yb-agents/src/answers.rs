//! The usage of single answers of a model, from recorded frames.

use std::io::{self, BufRead};

use yb_claude::frame::{ApiEvent, AssistantMessage, Usage};
use yb_claude::{Block, Message};
use yb_model::log::{Role, YouBenchaLog};
use yb_supervise::LineReader;

use super::bounds::{Bounds, LINE};
use super::reader::ClaudeReader;
use super::recorded::reader;

/// The usage of one answer, as the model API reported it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AnswerUsage {
    /// The model.
    pub model: Option<String>,
    /// Input tokens at full price.
    pub input_tokens: u64,
    /// Input tokens read from the cache.
    pub cache_read_input_tokens: u64,
    /// Input tokens written to the cache.
    pub cache_creation_input_tokens: u64,
    /// Output tokens; absent if only the start of the answer was printed with its usage.
    pub output_tokens: Option<u64>,
}

impl AnswerUsage {
    fn raise(&mut self, usage: &Usage) {
        let raise = |known: &mut u64, now: u64| *known = (*known).max(now);
        raise(&mut self.input_tokens, usage.input_tokens);
        raise(&mut self.cache_read_input_tokens, usage.cache_read_input_tokens);
        raise(&mut self.cache_creation_input_tokens, usage.cache_creation_input_tokens);
    }
}

/// Reads the usage of each answer from the recorded frames, one entry per message of the assistant, in the order of the log and with those
/// that the log leaves out. An answer without reported usage has none. Empty if frames and log don't have the same answers: a usage must
/// not be assigned to another answer.
///
/// # Errors
/// When the frames can't be read.
pub fn answer_usage(log: &YouBenchaLog, frames: &mut dyn BufRead) -> io::Result<Vec<Option<AnswerUsage>>> {
    let mut reader = reader(&log.agent.name).unwrap_or_else(|| Box::new(ClaudeReader::default()));
    let mut answers = Answers::default();
    let mut lines = LineReader::new(LINE, Bounds::default().line());
    while let Some(line) = lines.next(frames)? {
        for message in reader.parse_line(&line).unwrap_or_default() {
            answers.observe(&message);
        }
        reader.take_input();
    }
    reader.finish("").iter().for_each(|message| answers.observe(message));
    let logged = log.messages.iter().filter(|message| message.role == Role::Assistant).count();
    let is_complete = log.omitted.as_ref().is_none_or(|omitted| omitted.messages == 0);
    let agrees = if is_complete { answers.found.len() == logged } else { answers.found.len() >= logged };
    Ok(if agrees { answers.found } else { Vec::new() })
}

/// A fold over messages. It must separate answers as [`super::Transcript`] does.
#[derive(Default)]
struct Answers {
    found: Vec<Option<AnswerUsage>>,
    /// The id of the last answer.
    last: Option<String>,
    /// The answer of the main thread that is being written, and its usage at the end of it.
    open: Option<String>,
}

impl Answers {
    fn observe(&mut self, message: &Message) {
        match message {
            Message::Assistant(said) => self.take(said),
            Message::StreamEvent(event) if event.parent_tool_use_id.is_none() => match &event.event {
                ApiEvent::MessageStart(answer) => self.open.clone_from(&answer.id),
                ApiEvent::MessageDelta { usage: Some(usage), .. } => self.end(usage),
                _ => {}
            },
            _ => {}
        }
    }

    /// Takes the usage at the end of an answer, whose blocks were printed before.
    fn end(&mut self, usage: &Usage) {
        let is_last = self.open.take().is_some_and(|open| Some(open) == self.last);
        if let Some(Some(answer)) = self.found.last_mut().filter(|_| is_last) {
            answer.raise(usage);
            answer.output_tokens = Some(usage.output_tokens);
        }
    }

    fn take(&mut self, said: &AssistantMessage) {
        let is_visible = |block: &Block| match block {
            Block::Text(text) => !text.text.is_empty(),
            Block::Thinking(thinking) => !thinking.thinking.trim().is_empty(),
            Block::ToolUse(_) | Block::ServerToolUse(_) => true,
            _ => false,
        };
        if !said.message.content.iter().any(is_visible) {
            return;
        }
        let same = said.message.id.is_some() && said.message.id == self.last;
        self.last.clone_from(&said.message.id);
        if !same {
            self.found.push(None);
        }
        let Some(usage) = said.message.usage.as_ref().filter(|_| !said.is_synthetic()) else { return };
        if let Some(answer) = self.found.last_mut() {
            let answer = answer.get_or_insert_default();
            answer.model = said.message.model.clone().or_else(|| answer.model.take());
            answer.raise(usage);
            // Only the last line of an answer that is over has its final usage.
            if said.message.stop_reason.is_some() {
                answer.output_tokens = Some(usage.output_tokens);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(lines: &[&str]) -> Vec<Option<AnswerUsage>> {
        let mut answers = Answers::default();
        let mut reader = ClaudeReader::default();
        for line in lines {
            use super::super::reader::Reader as _;
            reader.parse_line(line.as_bytes()).unwrap().iter().for_each(|message| answers.observe(message));
        }
        answers.found
    }

    #[test]
    fn usage_of_an_answer_is_taken_once_and_its_output_only_at_its_end() {
        let usage = |input, cached, output| AnswerUsage {
            model: Some("m".to_owned()),
            input_tokens: input,
            cache_read_input_tokens: cached,
            cache_creation_input_tokens: 0,
            output_tokens: output,
        };
        let found = found(&[
            r#"{"type":"stream_event","event":{"type":"message_start","message":{"id":"a","model":"m"}}}"#,
            r#"{"type":"assistant","message":{"id":"a","model":"m","content":[{"type":"text","text":"I look."}],"usage":{"input_tokens":10,"cache_read_input_tokens":3,"output_tokens":1}}}"#,
            r#"{"type":"assistant","message":{"id":"a","model":"m","content":[{"type":"tool_use","id":"t","name":"Read","input":{}}],"usage":{"input_tokens":10,"cache_read_input_tokens":3,"output_tokens":1}}}"#,
            r#"{"type":"stream_event","event":{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":25}}}"#,
            r#"{"type":"assistant","message":{"id":"b","model":"m","content":[{"type":"text","text":"Done."}],"usage":{"input_tokens":20,"output_tokens":1}}}"#,
            r#"{"type":"assistant","message":{"content":[{"type":"text","text":"No usage."}]}}"#,
        ]);
        assert_eq!(found, [Some(usage(10, 3, Some(25))), Some(usage(20, 0, None)), None]);
    }
}
