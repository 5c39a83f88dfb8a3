//! The span tree of one agent. Hooks and messages both feed it; a tool call reported by both is one span.

mod bounds;
mod ledger;
mod model_call;
mod root;
mod span;

use std::collections::HashMap;
use std::time::SystemTime;

use opentelemetry::global::BoxedTracer;
use opentelemetry::trace::{SpanBuilder, SpanKind, Status, TraceContextExt as _, Tracer as _};
use opentelemetry::{Array, Context, KeyValue, StringValue, Value as OtelValue};
use serde_json::Value;

use yb_claude::frame::Usage;

use crate::content::Content;
use crate::metrics::Metrics;
use crate::names::{NameTable, common};
use bounds::KnownIds;
use ledger::UsageLedger;
pub(crate) use span::{ModelCall, OpenSpan, SpanFailure};

/// Returns the cost of a model call in US dollars.
pub type CallPrice = fn(model: &str, usage: &Usage) -> f64;

/// The model provider of Claude Code.
pub(crate) const PROVIDER: &str = "anthropic";

/// Options of a span tree, fixed while the agent runs.
#[derive(Debug, Default)]
pub(crate) struct SpanSettings {
    pub(crate) agent_name: String,
    pub(crate) model: Option<String>,
    /// The model provider. Empty if it is unknown.
    pub(crate) provider: String,
    pub(crate) price: Option<CallPrice>,
    /// A prompt given by the host. It is recorded even without content capture.
    pub(crate) prompt: Option<String>,
    pub(crate) content: Content,
    /// Attributes of every span.
    pub(crate) attributes: Vec<KeyValue>,
    pub(crate) metrics: Option<Metrics>,
}

/// A conversation with the model: the agent's own, or a subagent's.
#[derive(Debug)]
struct Conversation {
    /// The parent of its spans.
    agent: Context,
    /// The time of the last input to the model, which is the start of its next response if no request is reported.
    last_input_at: SystemTime,
    /// When the request for the next response was sent, if the agent reported it.
    request_started_at: Option<SystemTime>,
    /// When its agent ended.
    ended_at: Option<SystemTime>,
    /// The input since the last response, if content is recorded.
    input_messages: Vec<Value>,
    /// The size of the input.
    input_size: usize,
    chat: Option<ModelCall>,
}

impl Conversation {
    fn new(agent: Context, at: SystemTime, input_messages: Vec<Value>) -> Self {
        Self {
            agent,
            last_input_at: at,
            request_started_at: None,
            ended_at: None,
            input_messages,
            input_size: 0,
            chat: None,
        }
    }
}

/// The spans of one agent.
#[derive(Debug)]
pub(crate) struct SpanTree {
    tracer: BoxedTracer,
    pub(crate) names: &'static NameTable,
    pub(crate) settings: SpanSettings,
    parent: Context,
    root: Option<OpenSpan>,
    /// The outcome that the agent's result message reports.
    pub(crate) outcome: Option<Result<(), SpanFailure>>,
    /// When a hook reported the end of the agent's response.
    stopped_at: Option<SystemTime>,
    ledger: UsageLedger,
    conversations: HashMap<String, Conversation>,
    tools: HashMap<String, OpenSpan>,
    ended_tools: KnownIds,
    /// Calls that were denied permission.
    denied: KnownIds,
    subagents: HashMap<String, OpenSpan>,
    ended_subagents: KnownIds,
    /// Subagents by the tool call that started them.
    calls: HashMap<String, String>,
    /// Subagents that keep running after the result of their call.
    background: KnownIds,
    session: Option<String>,
    /// Whether hooks report subagents. Messages then don't start subagent spans.
    uses_hooks: bool,
    /// The number of agent spans started.
    roots_started: u64,
    /// The size of content that waits for its span.
    waiting_content: usize,
    /// Spans that were not created because of their number.
    omitted_spans: u64,
    /// Whether the trace is not recorded, so that everything is ignored.
    disabled: bool,
}

/// The key of the agent's own conversation.
pub(crate) const MAIN: &str = "";
/// The key prefix of calls without an id. Such keys are reused.
pub(crate) const UNNAMED: &str = "unnamed:";

impl SpanTree {
    pub(crate) fn new(
        tracer: BoxedTracer,
        names: &'static NameTable,
        parent: Context,
        settings: SpanSettings,
    ) -> Self {
        Self {
            tracer,
            names,
            settings,
            parent,
            root: None,
            outcome: None,
            stopped_at: None,
            ledger: UsageLedger::default(),
            conversations: HashMap::new(),
            tools: HashMap::new(),
            ended_tools: KnownIds::default(),
            denied: KnownIds::default(),
            subagents: HashMap::new(),
            ended_subagents: KnownIds::default(),
            calls: HashMap::new(),
            background: KnownIds::default(),
            session: None,
            uses_hooks: false,
            roots_started: 0,
            waiting_content: 0,
            omitted_spans: 0,
            disabled: false,
        }
    }

    /// Returns whether the trace is not recorded.
    pub(crate) fn is_disabled(&self) -> bool {
        self.disabled
    }

    /// Makes hooks the only source of subagent spans. The order of hook and message varies, and only the message knows the
    /// parent call, so the position of the span would vary too.
    pub(crate) fn enable_hooks(&mut self) {
        self.uses_hooks = true;
    }

    pub(crate) fn session_id(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// The number of agent spans started.
    pub(crate) fn roots_started(&self) -> u64 {
        self.roots_started
    }

    pub(crate) fn root(&self) -> Option<&OpenSpan> {
        self.root.as_ref()
    }

    pub(crate) fn open_tools(&self) -> Vec<String> {
        sorted(self.tools.keys())
    }

    pub(crate) fn open_subagents(&self) -> Vec<String> {
        sorted(self.subagents.keys())
    }

    /// Adds an event to the agent's span.
    pub(crate) fn event(&self, name: &'static str, attributes: Vec<KeyValue>, at: SystemTime) {
        if let Some(root) = &self.root {
            root.context.span().add_event_with_timestamp(name, at, attributes);
        }
    }

    /// Starts the span of a tool call, unless it exists.
    pub(crate) fn start_tool(
        &mut self,
        conversation: &str,
        id: &str,
        name: &str,
        input: &str,
        at: SystemTime,
    ) {
        if self.disabled
            || self.root.is_none()
            || self.tools.contains_key(id)
            || self.ended_tools.contains(id)
        {
            return;
        }
        if self.tools.len() >= self.max_open() {
            self.omitted_spans += 1;
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
        if self.settings.content.enabled {
            let input =
                serde_json::from_str(input).map(|value| self.settings.content.value(value).to_string());
            let short = |text: String| {
                if text.len() > bounds::ARGUMENTS { self.settings.content.text(&text) } else { text }
            };
            attributes.extend(input.map(|text| KeyValue::new(names.tool_input, short(text))).ok());
        }
        let parent = self.parent_context(conversation);
        let mut tool = self.start_span(
            specific(names, names.tool_span, name),
            SpanKind::Internal,
            attributes,
            &parent,
            at,
        );
        tool.label = name.to_owned();
        self.tools.insert(id.to_owned(), tool);
    }

    /// Marks a tool call as denied. Its result follows.
    pub(crate) fn mark_denied(&mut self, id: &str) {
        self.denied.insert(id);
    }

    /// Ends the span of a tool call. Ignores unknown calls.
    pub(crate) fn end_tool(&mut self, id: &str, output: &str, failure: Option<&SpanFailure>, at: SystemTime) {
        let Some(mut tool) = self.tools.remove(id) else { return };
        if !id.starts_with(UNNAMED) {
            self.ended_tools.insert(id);
        }
        if let Some(output) = self.settings.content.text_if_enabled(output) {
            tool.set(KeyValue::new(self.names.tool_output, output));
        }
        let denied = SpanFailure::new("permission_denied", "permission denied");
        let failure = match failure {
            Some(_) if self.denied.remove(id) => Some(&denied),
            other => other,
        };
        self.finish_tool(&tool, failure, at);
        if let Some(agent) = self.calls.get(id).filter(|agent| !self.background.contains(agent)).cloned() {
            self.end_subagent(&agent, failure, at);
        }
    }

    fn finish_tool(&self, tool: &OpenSpan, failure: Option<&SpanFailure>, at: SystemTime) {
        self.end_span(tool, failure, self.settings.content.enabled, at);
        if let Some(metrics) = &self.settings.metrics {
            metrics.tool(&tool.label, failure.map(|failure| failure.kind.as_ref()), tool.duration(at));
        }
    }

    /// Starts the span of a subagent, below its tool call if that is known.
    pub(crate) fn start_subagent(&mut self, agent: &str, kind: &str, call: Option<&str>, at: SystemTime) {
        if let Some(call) = call {
            if self.calls.len() < bounds::IDS || self.calls.contains_key(call) {
                self.calls.insert(call.to_owned(), agent.to_owned());
            }
            if self.uses_hooks {
                return;
            }
        }
        if self.disabled || self.subagents.contains_key(agent) || self.ended_subagents.contains(agent) {
            return;
        }
        if self.subagents.len() >= self.max_open() || self.conversations.len() > bounds::SUBAGENTS {
            self.omitted_spans += 1;
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
        attributes.extend(self.provider().filter(|_| !names.provider_everywhere));
        attributes.push(KeyValue::new(names.agent_id, agent.to_owned()));
        if !kind.is_empty() {
            attributes.push(KeyValue::new(names.subagent_type, kind.to_owned()));
        }
        let name = specific(names, names.subagent_span, kind);
        let span = self.start_span(name, SpanKind::Internal, attributes, &parent, at);
        let conversation = Conversation::new(span.context.clone(), at, Vec::new());
        self.conversations.insert(agent.to_owned(), conversation);
        self.subagents.insert(agent.to_owned(), span);
    }

    /// Marks a subagent as running in the background: the result of its call is not its end.
    pub(crate) fn mark_background(&mut self, agent: &str) {
        self.background.insert(agent);
    }

    /// Ends the span of a subagent. Ignores unknown subagents.
    pub(crate) fn end_subagent(&mut self, agent: &str, failure: Option<&SpanFailure>, at: SystemTime) {
        self.close_chat(agent, None);
        let Some(span) = self.subagents.remove(agent) else { return };
        self.ended_subagents.insert(agent);
        if let Some(conversation) = self.conversations.get_mut(agent) {
            conversation.ended_at = Some(at);
        }
        self.end_span(&span, failure, self.settings.content.enabled, at);
    }

    /// Returns the conversation of a subagent, by its id or by the call that started it, or else the agent's own.
    pub(crate) fn conversation_of(&self, call: Option<&str>, agent: Option<&str>) -> String {
        let known = |agent: &&str| self.conversations.contains_key(*agent);
        match (agent.filter(known), call.and_then(|call| self.calls.get(call))) {
            (Some(agent), _) => agent.to_owned(),
            (None, Some(agent)) => agent.clone(),
            (None, None) => MAIN.to_owned(),
        }
    }

    fn parent_context(&self, conversation: &str) -> Context {
        let conversation = self.conversations.get(conversation).or_else(|| self.conversations.get(MAIN));
        conversation.map_or_else(Context::new, |conversation| conversation.agent.clone())
    }

    /// Ends all spans. Spans open at a failure get that failure, except that a timeout interrupts tools; spans open at a success end
    /// with `no_result`.
    pub(crate) fn end(&mut self, failure: Option<&SpanFailure>, at: SystemTime) {
        let unfinished = SpanFailure::new("no_result", "the agent ended before this span");
        let open = failure.unwrap_or(&unfinished);
        let interrupted = SpanFailure::new("interrupted", open.message.clone());
        let cut_off = if open.kind == "timeout" { &interrupted } else { open };
        self.close_chats(failure);
        for id in sorted(self.tools.keys()) {
            if let Some(tool) = self.tools.remove(&id) {
                self.ended_tools.insert(&id);
                self.finish_tool(&tool, Some(cut_off), at);
            }
        }
        for agent in sorted(self.subagents.keys()) {
            self.end_subagent(&agent, Some(open), at);
        }
        self.settle_usage(at);
        if self.omitted_spans > 0 {
            let omitted = i64::try_from(self.omitted_spans).unwrap_or(i64::MAX);
            self.set_root_attribute(KeyValue::new(common::OMITTED_SPANS, omitted));
        }
        self.end_root(at, failure);
    }

    /// The most open spans of a kind.
    fn max_open(&self) -> usize {
        if self.settings.content.enabled { bounds::OPEN_SPANS_WITH_CONTENT } else { bounds::OPEN_SPANS }
    }

    /// Returns whether there is room for more content that waits for its span, and reserves it.
    fn reserve_content(&mut self, size: usize) -> bool {
        let fits = self.waiting_content.saturating_add(size) <= bounds::WAITING_CONTENT;
        if fits {
            self.waiting_content += size;
        }
        fits
    }

    /// Ends a span. A failure's message may contain tool output, so it is written only if `with_message` is set.
    fn end_span(&self, span: &OpenSpan, failure: Option<&SpanFailure>, with_message: bool, at: SystemTime) {
        let status = match failure {
            None if self.names.ok_status => Status::Ok,
            None => Status::Unset,
            Some(failure) if with_message => Status::error(failure.message.clone()),
            Some(failure) => Status::error(failure.kind.to_string()),
        };
        span.end(failure, status, at);
    }

    /// Returns the provider attribute, if the provider is known.
    fn provider(&self) -> Option<KeyValue> {
        let provider = Some(self.settings.provider.clone()).filter(|provider| !provider.is_empty());
        provider.map(|provider| KeyValue::new(self.names.provider, provider))
    }

    /// Returns the attributes of every span.
    fn common(&self) -> Vec<KeyValue> {
        let names = self.names;
        let mut attributes = Vec::with_capacity(12);
        if names.provider_everywhere {
            attributes.extend(self.provider());
        }
        attributes.extend(self.settings.model.clone().map(|model| KeyValue::new(names.request_model, model)));
        attributes.extend(self.session.clone().map(|session| KeyValue::new(names.conversation, session)));
        for attribute in &self.settings.attributes {
            attributes.retain(|own| own.key != attribute.key);
            attributes.push(attribute.clone());
        }
        attributes
    }

    fn start_span(
        &self,
        name: String,
        kind: SpanKind,
        attributes: Vec<KeyValue>,
        parent: &Context,
        at: SystemTime,
    ) -> OpenSpan {
        let builder =
            SpanBuilder::from_name(name).with_kind(kind).with_start_time(at).with_attributes(attributes);
        let span = self.tracer.build_with_context(builder, parent);
        OpenSpan {
            context: parent.with_span(span),
            started: at,
            label: String::new(),
            late_attributes: Vec::new(),
        }
    }
}

impl Drop for SpanTree {
    /// Ends a session that was never ended: with its outcome if a result or a hook reported one, and otherwise as aborted.
    fn drop(&mut self) {
        let failure = match self.outcome.take() {
            Some(outcome) => outcome.err(),
            None => Some(SpanFailure::new("aborted", "the session was dropped before it ended")),
        };
        let at = self.stopped_at.unwrap_or_else(SystemTime::now);
        self.end(failure.as_ref(), at);
    }
}

/// Returns a span name, with its subject if the conventions ask for it.
fn specific(names: &NameTable, span: &'static str, about: &str) -> String {
    if names.specific_names && !about.is_empty() { format!("{span} {about}") } else { span.to_owned() }
}

fn finish(names: &NameTable, reason: String) -> KeyValue {
    KeyValue::new(names.finish_reasons, OtelValue::Array(Array::String(vec![StringValue::from(reason)])))
}

fn sorted<'a>(keys: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut keys: Vec<String> = keys.cloned().collect();
    keys.sort();
    keys
}

/// Returns the `error.type` attribute of a failure.
fn error_type(failure: &SpanFailure) -> KeyValue {
    KeyValue::new(common::ERROR_TYPE, failure.kind.to_string())
}
