//! The spans of one agent: what is open, under what, and how each of them ends. Hooks and frames both feed it, and a
//! call of a tool is one span whoever tells of it first.

mod chat;
mod open;
mod root;

use std::collections::{HashMap, HashSet};
use std::time::SystemTime;

use opentelemetry::global::BoxedTracer;
use opentelemetry::trace::{SpanBuilder, SpanKind, Status, TraceContextExt as _, Tracer as _};
use opentelemetry::{Array, Context, KeyValue, StringValue, Value as OtelValue};
use serde_json::Value;

use crate::content::Content;
use crate::metrics::Metrics;
use crate::names::{Convention, common};
pub(crate) use open::{Chat, Failure, Open};

/// The provider whose models Claude Code calls.
pub(crate) const PROVIDER: &str = "anthropic";

/// What does not change while an agent runs.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    pub(crate) agent_name: String,
    pub(crate) model: Option<String>,
    /// The prompt, if the host gave it: giving it is asking for it.
    pub(crate) prompt: Option<String>,
    pub(crate) content: Content,
    /// On every span.
    pub(crate) attributes: Vec<KeyValue>,
    pub(crate) metrics: Option<Metrics>,
}

/// A conversation with a model: the agent's own, or a subagent's.
#[derive(Debug)]
struct Thread {
    /// What it said and did hangs under this.
    agent: Context,
    /// When the model was last told something: its next answer began then.
    told_at: SystemTime,
    /// What it was told since its last answer, if content is wanted.
    told: Vec<Value>,
    chat: Option<Chat>,
}

/// The spans of one agent.
#[derive(Debug)]
pub(crate) struct Tree {
    tracer: BoxedTracer,
    pub(crate) names: &'static Convention,
    pub(crate) settings: Settings,
    parent: Context,
    root: Option<Open>,
    /// What the agent's own result says about its end.
    pub(crate) outcome: Option<Result<(), Failure>>,
    threads: HashMap<String, Thread>,
    tools: HashMap<String, Open>,
    ended_tools: HashSet<String>,
    /// Why a tool did not run.
    denied: HashSet<String>,
    subagents: HashMap<String, Open>,
    ended_subagents: HashSet<String>,
    /// Which subagent a call began, and which go on when the call has its result.
    calls: HashMap<String, String>,
    background: HashSet<String>,
    session: Option<String>,
    /// Hooks tell of subagents, and messages only add to that.
    hooked: bool,
    /// How often a span of the agent began.
    begun: u64,
    /// Nobody records: nothing is done any more.
    silent: bool,
}

/// The key of the agent's own thread.
pub(crate) const MAIN: &str = "";
/// What the key of a call without an id begins with. Such a key is used again.
pub(crate) const UNNAMED: &str = "unnamed:";

impl Tree {
    pub(crate) fn new(
        tracer: BoxedTracer,
        names: &'static Convention,
        parent: Context,
        settings: Settings,
    ) -> Self {
        Self {
            tracer,
            names,
            settings,
            parent,
            root: None,
            outcome: None,
            threads: HashMap::new(),
            tools: HashMap::new(),
            ended_tools: HashSet::new(),
            denied: HashSet::new(),
            subagents: HashMap::new(),
            ended_subagents: HashSet::new(),
            calls: HashMap::new(),
            background: HashSet::new(),
            session: None,
            hooked: false,
            begun: 0,
            silent: false,
        }
    }

    /// Whether anybody records what is told.
    pub(crate) fn is_silent(&self) -> bool {
        self.silent
    }

    /// From now on hooks tell of subagents. Who tells first is not the same every time, and a hook does not know the
    /// call that it is about, so the place of a subagent would not be either.
    pub(crate) fn hooked(&mut self) {
        self.hooked = true;
    }

    /// How often a span of the agent began.
    pub(crate) fn begun(&self) -> u64 {
        self.begun
    }

    pub(crate) fn root(&self) -> Option<&Open> {
        self.root.as_ref()
    }

    pub(crate) fn open_tools(&self) -> Vec<String> {
        sorted(self.tools.keys())
    }

    pub(crate) fn open_subagents(&self) -> Vec<String> {
        sorted(self.subagents.keys())
    }

    /// Something happened that has no span of its own.
    pub(crate) fn event(&self, name: &'static str, attributes: Vec<KeyValue>, at: SystemTime) {
        if let Some(root) = &self.root {
            root.context.span().add_event_with_timestamp(name, at, attributes);
        }
    }

    /// A tool begins. Told again of the same call, nothing happens.
    pub(crate) fn tool_begins(&mut self, thread: &str, id: &str, name: &str, input: &str, at: SystemTime) {
        if self.silent || self.root.is_none() || self.tools.contains_key(id) || self.ended_tools.contains(id)
        {
            return;
        }
        let names = self.names;
        let mut attributes = self.common();
        if let Some(operation) = names.operation {
            attributes.push(KeyValue::new(operation, names.tool_span));
        }
        attributes.push(KeyValue::new(names.tool_name, name.to_owned()));
        attributes.push(KeyValue::new(names.tool_call_id, id.to_owned()));
        attributes.extend(names.tool_type.map(|key| KeyValue::new(key, "function")));
        if self.settings.content.wanted {
            let input = serde_json::from_str(input).map(|value| self.settings.content.value(value));
            attributes.extend(input.map(|value| KeyValue::new(names.tool_input, value.to_string())).ok());
        }
        let parent = self.agent_of(thread);
        let mut tool =
            self.start(specific(names, names.tool_span, name), SpanKind::Internal, attributes, &parent, at);
        tool.label = name.to_owned();
        self.tools.insert(id.to_owned(), tool);
    }

    /// A tool may not run; its result follows.
    pub(crate) fn tool_denied(&mut self, id: &str) {
        self.denied.insert(id.to_owned());
    }

    /// A tool has its result. A call that nobody told of is passed over.
    pub(crate) fn tool_ends(&mut self, id: &str, output: &str, failure: Option<&Failure>, at: SystemTime) {
        let Some(mut tool) = self.tools.remove(id) else { return };
        if !id.starts_with(UNNAMED) {
            self.ended_tools.insert(id.to_owned());
        }
        if let Some(output) = self.settings.content.wanted(output) {
            tool.set(KeyValue::new(self.names.tool_output, output));
        }
        let denied = Failure::new("permission_denied", "the tool was not allowed to run");
        let failure = match failure {
            Some(_) if self.denied.remove(id) => Some(&denied),
            other => other,
        };
        self.finish_tool(&tool, failure, at);
        if let Some(agent) = self.calls.get(id).filter(|agent| !self.background.contains(*agent)).cloned() {
            self.subagent_ends(&agent, failure, at);
        }
    }

    fn finish_tool(&self, tool: &Open, failure: Option<&Failure>, at: SystemTime) {
        tool.end(failure, self.settings.content.wanted, at);
        if let Some(metrics) = &self.settings.metrics {
            metrics.tool(&tool.label, failure.map(|failure| failure.kind.as_ref()), tool.took(at));
        }
    }

    /// A subagent begins, under its call when that is known and wanted.
    pub(crate) fn subagent_begins(&mut self, agent: &str, kind: &str, call: Option<&str>, at: SystemTime) {
        if let Some(call) = call {
            self.calls.insert(call.to_owned(), agent.to_owned());
            if self.hooked {
                return;
            }
        }
        if self.silent || self.subagents.contains_key(agent) || self.ended_subagents.contains(agent) {
            return;
        }
        let Some(root) = &self.root else { return };
        let tool = call.and_then(|call| self.tools.get(call));
        let parent = tool.map_or_else(|| root.context.clone(), |tool| tool.context.clone());
        let names = self.names;
        let mut attributes = self.common();
        if let Some(operation) = names.operation {
            attributes.push(KeyValue::new(operation, names.agent_span));
        }
        attributes.push(KeyValue::new(names.agent_id, agent.to_owned()));
        if !kind.is_empty() {
            attributes.push(KeyValue::new(names.subagent_type, kind.to_owned()));
        }
        let name = specific(names, names.subagent_span, kind);
        let span = self.start(name, SpanKind::Internal, attributes, &parent, at);
        let thread = Thread { agent: span.context.clone(), told_at: at, told: Vec::new(), chat: None };
        self.threads.insert(agent.to_owned(), thread);
        self.subagents.insert(agent.to_owned(), span);
    }

    /// Nobody waits for this subagent: the result of its call is not its end.
    pub(crate) fn in_background(&mut self, agent: &str) {
        self.background.insert(agent.to_owned());
    }

    /// A subagent has finished. One that nobody told of is passed over.
    pub(crate) fn subagent_ends(&mut self, agent: &str, failure: Option<&Failure>, at: SystemTime) {
        self.close_chat(agent, at, None);
        let Some(span) = self.subagents.remove(agent) else { return };
        self.ended_subagents.insert(agent.to_owned());
        span.end(failure, self.settings.content.wanted, at);
    }

    /// The thread of a subagent by the call that began it; the agent's own without one.
    pub(crate) fn thread_of(&self, call: Option<&str>, agent: Option<&str>) -> String {
        let known = |agent: &&str| self.threads.contains_key(*agent);
        match (agent.filter(known), call.and_then(|call| self.calls.get(call))) {
            (Some(agent), _) => agent.to_owned(),
            (None, Some(agent)) => agent.clone(),
            (None, None) => MAIN.to_owned(),
        }
    }

    fn agent_of(&self, thread: &str) -> Context {
        let thread = self.threads.get(thread).or_else(|| self.threads.get(MAIN));
        thread.map_or_else(Context::new, |thread| thread.agent.clone())
    }

    /// Ends everything. What is open at a failure has failed with it; what is open at a success never got its result.
    pub(crate) fn end(&mut self, failure: Option<&Failure>, at: SystemTime) {
        let unfinished = Failure::new("no_result", "the agent ended before this did");
        let open = failure.unwrap_or(&unfinished);
        self.close_chats(at, failure);
        for id in sorted(self.tools.keys()) {
            if let Some(tool) = self.tools.remove(&id) {
                self.ended_tools.insert(id);
                self.finish_tool(&tool, Some(open), at);
            }
        }
        for agent in sorted(self.subagents.keys()) {
            self.subagent_ends(&agent, Some(open), at);
        }
        self.end_root(at, failure);
    }

    /// What every span has.
    fn common(&self) -> Vec<KeyValue> {
        let names = self.names;
        let mut attributes = Vec::with_capacity(12);
        if names.provider_everywhere {
            attributes.push(KeyValue::new(names.provider, PROVIDER));
        }
        attributes.extend(self.settings.model.clone().map(|model| KeyValue::new(names.request_model, model)));
        attributes.extend(self.session.clone().map(|session| KeyValue::new(names.conversation, session)));
        for attribute in &self.settings.attributes {
            attributes.retain(|own| own.key != attribute.key);
            attributes.push(attribute.clone());
        }
        attributes
    }

    fn start(
        &self,
        name: String,
        kind: SpanKind,
        attributes: Vec<KeyValue>,
        parent: &Context,
        at: SystemTime,
    ) -> Open {
        let builder =
            SpanBuilder::from_name(name).with_kind(kind).with_start_time(at).with_attributes(attributes);
        let span = self.tracer.build_with_context(builder, parent);
        Open { context: parent.with_span(span), started: at, label: String::new(), later: Vec::new() }
    }
}

impl Drop for Tree {
    /// Whoever forgets a session leaves no span open.
    fn drop(&mut self) {
        let failure = Failure::new("aborted", "nobody waited for the end");
        self.end(Some(&failure), SystemTime::now());
    }
}

/// A span's name, with what it is about where the conventions want that.
fn specific(names: &Convention, span: &'static str, about: &str) -> String {
    if names.specific_names && !about.is_empty() { format!("{span} {about}") } else { span.to_owned() }
}

fn finish(names: &Convention, reason: String) -> KeyValue {
    KeyValue::new(names.finish_reasons, OtelValue::Array(Array::String(vec![StringValue::from(reason)])))
}

fn sorted<'a>(keys: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut keys: Vec<String> = keys.cloned().collect();
    keys.sort();
    keys
}

/// The status of a span that ended so.
fn status(failure: Option<&Failure>, in_words: bool) -> Status {
    match failure {
        None => Status::Ok,
        Some(failure) => {
            Status::error(if in_words { failure.message.clone() } else { failure.kind.to_string() })
        }
    }
}

/// The attribute of a failure.
fn error_type(failure: &Failure) -> KeyValue {
    KeyValue::new(common::ERROR_TYPE, failure.kind.to_string())
}
