//! The spans of one agent, from the messages of `claude --output-format stream-json` or of an SDK session.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use opentelemetry::trace::TraceContextExt as _;
use opentelemetry::{Context, InstrumentationScope, KeyValue};
use yb_claude::Message;
use yb_claude::frame::AssistantMessage;

use crate::content::{Content, Redactor};
use crate::messages::MessageRecorder;
use crate::metrics::Metrics;
use crate::names::SemanticConventions;
use crate::tracers::Tracers;
use crate::tree::{CallPrice, PROVIDER, SpanFailure, SpanSettings, SpanTree};

/// Options for the spans of an agent.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
#[must_use]
pub struct AgentSpansConfig {
    /// The agent's name, `claude-code` for example.
    pub agent_name: String,
    /// The requested model. Defaults to the model that the agent reports.
    pub model: Option<String>,
    /// The model provider. Defaults to that of Claude Code; empty if it is unknown.
    pub provider: Option<String>,
    /// Computes the cost of a model call. Without it, only the agent's span has a cost.
    pub price: Option<CallPrice>,
    /// The prompt. Recorded only if `content` is set.
    pub prompt: Option<String>,
    /// The semantic conventions.
    pub conventions: SemanticConventions,
    /// Whether prompts, responses, tool arguments and tool results are recorded.
    pub content: bool,
    /// Redacts secrets in recorded content.
    pub redact: Redactor,
    /// Additional attributes of every span.
    pub attributes: Vec<KeyValue>,
    /// The instruments for durations, tokens and cost.
    pub metrics: Option<Metrics>,
    /// Whether an earlier run started the session. Its first totals then include usage of that run.
    pub resumed: bool,
}

impl AgentSpansConfig {
    /// Creates options for the agent with this name.
    pub fn new(agent_name: impl Into<String>) -> Self {
        Self { agent_name: agent_name.into(), ..Self::default() }
    }

    /// Sets the requested model.
    pub fn with_model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// Sets the model provider.
    pub fn with_provider(mut self, provider: impl Into<String>) -> Self {
        self.provider = Some(provider.into());
        self
    }

    /// Sets the price of model calls.
    pub fn with_price(mut self, price: CallPrice) -> Self {
        self.price = Some(price);
        self
    }

    /// Sets the prompt.
    pub fn with_prompt(mut self, prompt: impl Into<String>) -> Self {
        self.prompt = Some(prompt.into());
        self
    }

    /// Sets the semantic conventions.
    pub fn with_conventions(mut self, conventions: SemanticConventions) -> Self {
        self.conventions = conventions;
        self
    }

    /// Enables recording of content, redacted by `redact`.
    pub fn with_content(mut self, redact: Redactor) -> Self {
        (self.content, self.redact) = (true, redact);
        self
    }

    /// Adds an attribute to every span.
    pub fn with_attribute(mut self, attribute: KeyValue) -> Self {
        self.attributes.push(attribute);
        self
    }

    /// Sets the metric instruments.
    pub fn with_metrics(mut self, metrics: Metrics) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// Marks the session as resumed.
    pub fn with_resumed(mut self) -> Self {
        self.resumed = true;
        self
    }
}

/// How an agent ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AgentOutcome {
    /// It ended by itself. Its result message, if any, decides the status.
    Ok,
    /// It failed or was stopped.
    Error {
        /// The `error.type`, for example `timeout`.
        kind: Cow<'static, str>,
        /// The status message.
        message: String,
    },
    /// It was aborted by the host.
    Aborted,
}

impl AgentOutcome {
    /// Creates a failure with this `error.type`.
    pub fn error(kind: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self::Error { kind: kind.into(), message: message.into() }
    }
}

/// The spans of one agent. Pass it every message that the agent prints, and how the agent ended. Clones share the spans;
/// when the last clone is dropped, open spans end as aborted.
///
/// Without a tracer, or in a trace that is not sampled, it does nothing.
#[derive(Debug, Clone)]
pub struct AgentSpans(pub(crate) Arc<Mutex<State>>);

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) tree: SpanTree,
    recorder: MessageRecorder,
}

impl AgentSpans {
    /// Starts the agent's span now, as a child of the span in `parent`.
    #[must_use]
    pub fn start(tracers: &Tracers, parent: &Context, config: AgentSpansConfig) -> Self {
        Self::start_at(tracers, parent, config, SystemTime::now())
    }

    /// Starts the agent's span at the given time.
    #[must_use]
    pub fn start_at(tracers: &Tracers, parent: &Context, config: AgentSpansConfig, at: SystemTime) -> Self {
        let spans = Self::prepare(tracers, parent, config);
        let mut state = spans.state();
        let prompt = state.tree.settings.prompt.take();
        state.tree.start_root(prompt.as_deref(), at);
        drop(state);
        spans
    }

    /// Creates the tree without a span. The first prompt starts it.
    pub(crate) fn prepare(tracers: &Tracers, parent: &Context, config: AgentSpansConfig) -> Self {
        let names = config.conventions.names();
        let scope =
            InstrumentationScope::builder(names.scope).with_version(env!("CARGO_PKG_VERSION")).build();
        let settings = SpanSettings {
            agent_name: config.agent_name,
            model: config.model,
            provider: config.provider.unwrap_or_else(|| PROVIDER.to_owned()),
            price: config.price,
            prompt: config.prompt,
            content: Content { enabled: config.content, redact: config.redact },
            attributes: config.attributes,
            metrics: config.metrics,
        };
        let tree = SpanTree::new(tracers.tracer(scope), names, parent.clone(), settings);
        Self(Arc::new(Mutex::new(State { tree, recorder: MessageRecorder::new(config.resumed) })))
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a message that the agent printed at this time.
    pub fn observe(&self, message: &Message, at: SystemTime) {
        let State { tree, recorder } = &mut *self.state();
        if !tree.is_disabled() {
            recorder.record(tree, message, at);
        }
    }

    /// Records a response to a subagent from the transcript that Claude Code writes. Messages report these without their output tokens,
    /// and not all of them. Ignores subagents that no message reported.
    pub fn record_subagent_call(&self, agent: &str, response: &AssistantMessage, at: SystemTime) {
        self.state().tree.record_subagent_call(agent, &response.message, at);
    }

    /// Returns the id of the session, if a message reported it.
    #[must_use]
    pub fn session_id(&self) -> Option<String> {
        self.state().tree.session_id().map(str::to_owned)
    }

    /// Sets the version of the agent, unless a message reported it.
    pub fn set_agent_version(&self, version: &str) {
        self.state().tree.set_agent_version(version);
    }

    /// Returns whether the agent reported its outcome.
    #[must_use]
    pub fn has_outcome(&self) -> bool {
        self.state().tree.outcome.is_some()
    }

    /// Returns the context of the agent's span, for child spans and for [`traceparent`](crate::traceparent).
    #[must_use]
    pub fn context(&self) -> Context {
        self.state().tree.root().map_or_else(Context::new, |root| root.context.clone())
    }

    /// Returns whether the spans are recorded.
    #[must_use]
    pub fn is_recording(&self) -> bool {
        self.context().span().is_recording()
    }

    /// Ends the agent's span now.
    pub fn end(&self, end: AgentOutcome) {
        self.end_at(end, SystemTime::now());
    }

    /// Ends the agent's span at this time, with all open spans below it. A second call has no effect.
    pub fn end_at(&self, end: AgentOutcome, at: SystemTime) {
        let tree = &mut self.state().tree;
        let failure = match end {
            AgentOutcome::Ok => tree.outcome.take().and_then(Result::err),
            AgentOutcome::Error { kind, message } => {
                let message = tree.settings.content.redact.apply(message);
                Some(SpanFailure::new(kind, message))
            }
            AgentOutcome::Aborted => Some(SpanFailure::new("aborted", "aborted")),
        };
        tree.end(failure.as_ref(), at);
    }
}
