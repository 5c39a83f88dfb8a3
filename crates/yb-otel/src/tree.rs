//! The spans of one agent: what is open, under what, and how each of them ends. Hooks and frames both feed it, and a
//! call of a tool is one span whoever tells of it first.

mod open;

use std::collections::{HashMap, HashSet};
use std::time::SystemTime;

use opentelemetry::global::BoxedTracer;
use opentelemetry::trace::{SpanBuilder, SpanKind, Status, TraceContextExt as _, Tracer as _};
use opentelemetry::{Array, Context, KeyValue, StringValue, Value as OtelValue};
use serde_json::Value;
use yb_claude::Tokens;

use crate::content::{Content, answer, message, text_part};
use crate::metrics::{Metrics, Operation};
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

    pub(crate) fn root(&self) -> Option<&Open> {
        self.root.as_ref()
    }

    pub(crate) fn open_tools(&self) -> Vec<String> {
        sorted(self.tools.keys())
    }

    pub(crate) fn open_subagents(&self) -> Vec<String> {
        sorted(self.subagents.keys())
    }

    /// Begins the agent's span. One that is still open ends first: as its result says, or as superseded.
    pub(crate) fn begin(&mut self, prompt: Option<&str>, at: SystemTime) {
        if self.silent {
            return;
        }
        if self.root.is_some() {
            self.close_chats(at, None);
            let failure = match self.outcome.take() {
                Some(Ok(())) => None,
                Some(Err(failure)) => Some(failure),
                None => Some(Failure::new("superseded", "another prompt came before the answer")),
            };
            self.end_root(at, failure.as_ref());
        }
        self.outcome = None;
        let mut attributes = self.common();
        let names = self.names;
        if let Some(operation) = names.operation {
            attributes.push(KeyValue::new(operation, names.agent_span));
        }
        if let Some(agent_name) = names.agent_name {
            attributes.push(KeyValue::new(agent_name, self.settings.agent_name.clone()));
        }
        let content = &self.settings.content;
        let given = self.settings.prompt.as_deref().map(|prompt| content.text(prompt));
        let prompt = prompt.and_then(|prompt| content.wanted(prompt)).or(given);
        let told = prompt.iter().map(|prompt| message("user", &[text_part(prompt)])).collect::<Vec<_>>();
        if let Some(prompt) = prompt {
            let text = if names.messages { Value::Array(told.clone()).to_string() } else { prompt };
            attributes.push(KeyValue::new(names.input, text));
        }
        let name = specific(names, names.agent_span, &self.settings.agent_name);
        let root = self.start(name, SpanKind::Internal, attributes, &self.parent.clone(), at);
        if !root.context.span().is_recording() {
            self.silent = true;
            return;
        }
        let thread = Thread { agent: root.context.clone(), told_at: at, told, chat: None };
        self.threads.insert(MAIN.to_owned(), thread);
        self.root = Some(root);
    }

    /// The session, for this and every later span.
    pub(crate) fn session(&mut self, session: &str) {
        if session.is_empty() || self.session.as_deref() == Some(session) {
            return;
        }
        let first = self.session.replace(session.to_owned()).is_none();
        if let (Some(root), true) = (&mut self.root, first) {
            root.set(KeyValue::new(self.names.conversation, session.to_owned()));
        }
    }

    /// The model, when nobody asked for one.
    pub(crate) fn model(&mut self, model: &str) {
        if self.settings.model.is_none() {
            self.settings.model = Some(model.to_owned());
            if let Some(root) = &mut self.root {
                root.set(KeyValue::new(self.names.request_model, model.to_owned()));
            }
        }
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

    /// The model is told something.
    pub(crate) fn told(&mut self, thread: &str, parts: Vec<Value>, role: &str, at: SystemTime) {
        let wanted = self.settings.content.wanted;
        let Some(thread) = self.threads.get_mut(thread) else { return };
        thread.told_at = at;
        if wanted && !parts.is_empty() {
            let parts: Vec<Value> = parts.into_iter().map(|part| self.settings.content.value(part)).collect();
            thread.told.push(message(role, &parts));
        }
    }

    /// The call of the model that this answer is part of; a new one when the answer is another.
    pub(crate) fn chat(&mut self, thread: &str, id: &str, at: SystemTime) -> Option<&mut Chat> {
        if self.silent || self.names.chat_span.is_none() || self.root.is_none() {
            return None;
        }
        let other = self.threads.get(thread)?.chat.as_ref().is_some_and(|chat| chat.id != id);
        if other {
            self.close_chat(thread, at, None);
        }
        let thread = self.threads.get_mut(thread)?;
        if thread.chat.is_none() {
            let (told, started) = (std::mem::take(&mut thread.told), thread.told_at);
            thread.chat = Some(Chat::new(id, told, started, at));
        }
        thread.chat.as_mut().inspect(|_| thread.told_at = at)
    }

    /// The call of the model that is open in a thread.
    pub(crate) fn open_chat(&mut self, thread: &str) -> Option<&mut Chat> {
        self.threads.get_mut(thread)?.chat.as_mut()
    }

    /// A call of the model becomes a span when it is over: only then is everything known.
    pub(crate) fn close_chat(&mut self, thread: &str, _at: SystemTime, failure: Option<&Failure>) {
        let Some(thread) = self.threads.get_mut(thread) else { return };
        let (Some(chat), agent) = (thread.chat.take(), thread.agent.clone()) else { return };
        let Some(kind) = self.names.chat_span else { return };
        let names = self.names;
        let failure = failure.or(chat.failure.as_ref());
        let model = chat.model.clone().or_else(|| self.settings.model.clone());
        let mut attributes = self.common();
        if let Some(operation) = names.operation {
            attributes.push(KeyValue::new(operation, kind));
        }
        if !names.provider_everywhere {
            attributes.push(KeyValue::new(names.provider, PROVIDER));
        }
        if self.settings.model.is_none() {
            attributes.extend(model.clone().map(|model| KeyValue::new(names.request_model, model)));
        }
        attributes.extend(chat.model.clone().map(|model| KeyValue::new(names.response_model, model)));
        if !chat.id.is_empty() {
            attributes.push(KeyValue::new(names.response_id, chat.id.clone()));
        }
        attributes.extend(chat.stop_reason.clone().map(|reason| finish(names, reason)));
        attributes.extend(self.usage(chat.input.as_ref(), chat.output, true));
        if self.settings.content.wanted {
            if !chat.told.is_empty() {
                attributes.push(KeyValue::new(names.input, Value::Array(chat.told.clone()).to_string()));
            }
            let parts: Vec<Value> =
                chat.parts.iter().cloned().map(|part| self.settings.content.value(part)).collect();
            attributes.push(KeyValue::new(
                names.output,
                Value::Array(vec![answer(&parts, chat.stop_reason.as_deref())]).to_string(),
            ));
        }
        let name = specific(names, kind, model.as_deref().unwrap_or_default());
        let span = self.start(name, SpanKind::Client, attributes, &agent, chat.started);
        span.end(failure, self.settings.content.wanted, chat.last);
        if let Some(metrics) = &self.settings.metrics {
            let operation = Operation {
                name: kind,
                provider: PROVIDER,
                model: model.as_deref(),
                error_type: failure.map(|failure| failure.kind.as_ref()),
            };
            metrics.operation(operation, span.took(chat.last));
        }
    }

    fn close_chats(&mut self, at: SystemTime, failure: Option<&Failure>) {
        for thread in sorted(self.threads.keys()) {
            self.close_chat(&thread, at, failure);
        }
    }

    /// What was used, with the names that the conventions have for it.
    fn usage(&self, input: Option<&Tokens>, output: Option<u64>, with_cache: bool) -> Vec<KeyValue> {
        let names = self.names;
        let number = |key, count: u64| KeyValue::new(key, i64::try_from(count).unwrap_or(i64::MAX));
        let mut attributes = Vec::new();
        if let Some(input) = input {
            let cached = input.cache_read.saturating_add(input.cache_creation);
            let read = if names.input_with_cache { input.input.saturating_add(cached) } else { input.input };
            attributes.push(number(names.usage_input, read));
            if with_cache {
                attributes.extend(names.cache_read.map(|key| number(key, input.cache_read)));
                attributes.extend(names.cache_write.map(|key| number(key, input.cache_creation)));
            }
        }
        attributes.extend(output.map(|output| number(names.usage_output, output)));
        attributes
    }

    /// What the agent used, on its own span.
    pub(crate) fn root_usage(&mut self, input: Option<&Tokens>, output: Option<u64>) {
        for attribute in self.usage(input, output, false) {
            self.root_set(attribute);
        }
    }

    /// One more attribute of the agent's own span.
    pub(crate) fn root_set(&mut self, attribute: KeyValue) {
        if let Some(root) = &mut self.root {
            root.set(attribute);
        }
    }

    /// Why the model stopped for the last time.
    pub(crate) fn root_finish(&mut self, reason: &str) {
        self.root_set(finish(self.names, reason.to_owned()));
    }

    /// The model has stopped, and nobody has said why.
    pub(crate) fn root_stopped(&mut self) {
        if self.root.as_ref().is_some_and(|root| !root.has(self.names.finish_reasons)) {
            self.root_finish("stop");
        }
        self.outcome.get_or_insert(Ok(()));
    }

    /// What the agent answered.
    pub(crate) fn root_output(&mut self, text: &str) {
        let text = self.settings.content.text(text);
        let text = if self.names.messages {
            Value::Array(vec![answer(&[text_part(&text)], Some("stop"))]).to_string()
        } else {
            text
        };
        self.root_set(KeyValue::new(self.names.output, text));
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

    fn end_root(&mut self, at: SystemTime, failure: Option<&Failure>) {
        let Some(root) = self.root.take() else { return };
        root.end(failure, true, at);
        if let Some(metrics) = &self.settings.metrics {
            let operation = Operation {
                name: "invoke_agent",
                provider: PROVIDER,
                model: self.settings.model.as_deref(),
                error_type: failure.map(|failure| failure.kind.as_ref()),
            };
            metrics.operation(operation, root.took(at));
        }
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
