//! The messages of a trial as steps: an answer with its tool calls and their results, in one thread per agent.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value, json};
use yb_engine::adapter::AnswerUsage;
use yb_engine::log::{LogMessage, MessageToolCall, Role, ToolCallRecord};

use crate::record::TrialRecord;

/// The threads of a trial.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Conversation {
    /// The main agent.
    pub main: Thread,
    /// The subagents, by the tool call that started each.
    pub subagents: BTreeMap<String, Thread>,
}

/// The steps of one agent, in order.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Thread {
    /// The steps.
    pub steps: Vec<Step>,
}

/// The author of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepSource {
    /// The system prompt, or a tool result without its call.
    System,
    /// The prompt.
    User,
    /// The model.
    Agent,
}

/// A message, and for an answer its tool calls.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Step {
    /// The author.
    pub source: StepSource,
    /// The text.
    pub message: String,
    /// The thinking before the text.
    pub thinking: String,
    /// ISO 8601.
    pub timestamp: String,
    /// The tool calls.
    pub calls: Vec<ToolUse>,
    /// Results of calls that no answer has.
    pub orphans: Vec<String>,
    /// The usage of the answer, if it is known.
    pub usage: Option<AnswerUsage>,
    /// Whether a model wrote the step. Calls that only the list of calls has form a step that no model wrote.
    pub is_answer: bool,
}

/// A tool call and its result.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ToolUse {
    /// Its id.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments, always an object.
    pub arguments: Map<String, Value>,
    /// The result, if there is one.
    pub result: Option<String>,
    /// Whether it failed.
    pub is_error: Option<bool>,
    /// When the call was made, ISO 8601.
    pub started_at: Option<String>,
    /// When its result arrived, ISO 8601.
    pub completed_at: Option<String>,
}

impl Step {
    fn new(source: StepSource, message: &LogMessage) -> Self {
        Self {
            source,
            message: message.content.clone(),
            thinking: message.thinking.clone(),
            timestamp: message.timestamp.clone(),
            calls: Vec::new(),
            orphans: Vec::new(),
            usage: None,
            is_answer: source == StepSource::Agent,
        }
    }
}

impl Conversation {
    /// Folds the messages of a trial.
    #[must_use]
    pub fn of(record: &TrialRecord<'_>) -> Self {
        let mut records: HashMap<&str, &ToolCallRecord> = HashMap::new();
        for call in &record.log.tool_calls {
            if let Some(id) = call.id.as_deref() {
                records.insert(id, call);
            }
        }
        let mut folded = Self::default();
        let mut usage = record.usage.iter();
        for message in &record.messages {
            let thread = folded.thread(message.parent_tool_call_id.as_deref());
            match message.role {
                Role::System => thread.steps.push(Step::new(StepSource::System, message)),
                Role::User => thread.steps.push(Step::new(StepSource::User, message)),
                Role::Assistant => {
                    let mut step = Step::new(StepSource::Agent, message);
                    step.calls = message.tool_calls.iter().map(|call| tool_use(call, &records)).collect();
                    step.usage = usage.next().cloned().flatten();
                    thread.steps.push(step);
                }
                Role::Tool => thread.take_result(message),
            }
        }
        folded.take_unmentioned(record);
        folded
    }

    fn thread(&mut self, parent: Option<&str>) -> &mut Thread {
        match parent {
            None => &mut self.main,
            Some(parent) => self.subagents.entry(parent.to_owned()).or_default(),
        }
    }

    /// Iterates over all threads, the main one first, each with the call that started it.
    pub fn threads(&self) -> impl Iterator<Item = (Option<&str>, &Thread)> {
        let subagents = self.subagents.iter().map(|(id, thread)| (Some(id.as_str()), thread));
        std::iter::once((None, &self.main)).chain(subagents)
    }

    /// Adds the calls that no message has: those of agents that print plain text.
    fn take_unmentioned(&mut self, record: &TrialRecord<'_>) {
        if record.log.omitted.as_ref().is_some_and(|omitted| omitted.tool_calls > 0) {
            return;
        }
        let mentioned: std::collections::HashSet<String> = self
            .threads()
            .flat_map(|(_, thread)| thread.steps.iter().flat_map(|step| &step.calls))
            .map(|call| call.id.clone())
            .collect();
        for (at, call) in record.log.tool_calls.iter().enumerate() {
            if call.id.as_ref().is_some_and(|id| mentioned.contains(id)) {
                continue;
            }
            let id = call.id.clone().unwrap_or_else(|| format!("call-{}", at + 1));
            let timestamp =
                call.started_at.clone().unwrap_or_else(|| record.log.execution.started_at.clone());
            let step = Step {
                source: StepSource::Agent,
                message: String::new(),
                thinking: String::new(),
                timestamp,
                calls: vec![ToolUse {
                    id,
                    name: call.name.clone(),
                    arguments: arguments(&call.arguments),
                    result: call.result.clone(),
                    is_error: call.is_error,
                    started_at: call.started_at.clone(),
                    completed_at: call.completed_at.clone(),
                }],
                orphans: Vec::new(),
                usage: None,
                is_answer: false,
            };
            let thread = self.thread(call.parent_tool_call_id.as_deref());
            // The last message is the answer of the agent, which came after its calls.
            let last = thread.steps.len().saturating_sub(1);
            let at = if thread.steps.last().is_some_and(|last| last.is_answer) { last } else { last + 1 };
            thread.steps.insert(at.min(thread.steps.len()), step);
        }
    }
}

impl Thread {
    /// Adds a result to its call, which is in one of the last steps.
    fn take_result(&mut self, message: &LogMessage) {
        let id = message.tool_call_id.as_deref();
        for step in self.steps.iter_mut().rev() {
            let call = step.calls.iter_mut().find(|call| Some(call.id.as_str()) == id);
            if let Some(call) = call.filter(|call| call.result.is_none()) {
                call.result = Some(message.content.clone());
                call.completed_at.get_or_insert_with(|| message.timestamp.clone());
                return;
            }
        }
        let mut step = Step::new(StepSource::System, message);
        step.orphans.push(std::mem::take(&mut step.message));
        self.steps.push(step);
    }
}

fn tool_use(call: &MessageToolCall, records: &HashMap<&str, &ToolCallRecord>) -> ToolUse {
    let record = records.get(call.id.as_str());
    ToolUse {
        id: call.id.clone(),
        name: call.function.name.clone(),
        arguments: arguments(&call.function.arguments),
        result: None,
        is_error: record.and_then(|record| record.is_error),
        started_at: record.and_then(|record| record.started_at.clone()),
        completed_at: record.and_then(|record| record.completed_at.clone()),
    }
}

/// Returns arguments as an object. Other JSON, and what is no JSON, is its only value.
fn arguments(text: &str) -> Map<String, Value> {
    match serde_json::from_str(text) {
        Ok(Value::Object(fields)) => fields,
        Ok(Value::Null) => Map::new(),
        Ok(other) => Map::from_iter([("value".to_owned(), other)]),
        Err(_) if text.is_empty() => Map::new(),
        Err(_) => Map::from_iter([("text".to_owned(), json!(text))]),
    }
}
