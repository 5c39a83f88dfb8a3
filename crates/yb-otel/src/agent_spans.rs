//! The spans of an agent from what it prints: a tree for whoever runs `claude --output-format stream-json`, or an SDK
//! session that hooks tell about as well.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use opentelemetry::trace::TraceContextExt as _;
use opentelemetry::{Context, InstrumentationScope, KeyValue};
use yb_claude::Message;

use crate::content::{Content, Redact};
use crate::frames::Frames;
use crate::metrics::Metrics;
use crate::names::Vocabulary;
use crate::tracers::Tracers;
use crate::tree::{Failure, Settings, Tree};

/// How an agent's spans are made.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
#[must_use]
pub struct AgentSpansConfig {
    /// The agent's name, `claude-code` for example.
    pub agent_name: String,
    /// The model that was asked for; the agent's own word for it otherwise.
    pub model: Option<String>,
    /// The prompt. Written only if `content` says so.
    pub prompt: Option<String>,
    /// The words.
    pub vocabulary: Vocabulary,
    /// Whether prompts, answers, arguments and results are written.
    pub content: bool,
    /// What is taken out of them.
    pub redact: Redact,
    /// On every span of the agent.
    pub attributes: Vec<KeyValue>,
    /// Where durations, tokens and cost are counted.
    pub metrics: Option<Metrics>,
    /// The session was begun by an earlier run: its first totals are not this run's.
    pub resumed: bool,
}

impl AgentSpansConfig {
    /// For an agent of this name.
    pub fn new(agent_name: impl Into<String>) -> Self {
        Self { agent_name: agent_name.into(), ..Self::default() }
    }

    /// The same with the model that was asked for.
    pub fn with_model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// The same with the prompt.
    pub fn with_prompt(mut self, prompt: impl Into<String>) -> Self {
        self.prompt = Some(prompt.into());
        self
    }

    /// The same in other words.
    pub fn with_vocabulary(mut self, vocabulary: Vocabulary) -> Self {
        self.vocabulary = vocabulary;
        self
    }

    /// The same with what was said, without what `redact` takes out.
    pub fn with_content(mut self, redact: Redact) -> Self {
        (self.content, self.redact) = (true, redact);
        self
    }

    /// The same with one more attribute on every span.
    pub fn with_attribute(mut self, attribute: KeyValue) -> Self {
        self.attributes.push(attribute);
        self
    }

    /// The same with metrics.
    pub fn with_metrics(mut self, metrics: Metrics) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// The same for a session that goes on.
    pub fn with_resumed(mut self) -> Self {
        self.resumed = true;
        self
    }
}

/// How an agent ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum End {
    /// By itself: as its result says, if it printed one.
    Ok,
    /// It failed, or was ended.
    Error {
        /// In one word, `timeout` for example.
        kind: Cow<'static, str>,
        /// In more.
        message: String,
    },
    /// Nobody wanted its answer any more.
    Aborted,
}

impl End {
    /// A failure of this kind.
    pub fn error(kind: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self::Error { kind: kind.into(), message: message.into() }
    }
}

/// The spans of one agent: tell it every message that the agent prints, and how it ended. Clones tell the same spans;
/// when the last one is gone, what is open ends as aborted.
///
/// Without anybody who records (no tracer, or a trace that is not sampled) nothing is done.
#[derive(Debug, Clone)]
pub struct AgentSpans(pub(crate) Arc<Mutex<State>>);

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) tree: Tree,
    frames: Frames,
}

impl AgentSpans {
    /// Begins the agent's span now, under the span of `parent`.
    #[must_use]
    pub fn start(tracers: &Tracers, parent: &Context, config: AgentSpansConfig) -> Self {
        Self::start_at(tracers, parent, config, SystemTime::now())
    }

    /// Begins the agent's span at another time than now.
    #[must_use]
    pub fn start_at(tracers: &Tracers, parent: &Context, config: AgentSpansConfig, at: SystemTime) -> Self {
        let spans = Self::prepare(tracers, parent, config);
        let mut state = spans.state();
        let prompt = state.tree.settings.prompt.take();
        state.tree.begin(prompt.as_deref(), at);
        drop(state);
        spans
    }

    /// Without a span until somebody tells of a prompt.
    pub(crate) fn prepare(tracers: &Tracers, parent: &Context, config: AgentSpansConfig) -> Self {
        let names = config.vocabulary.names();
        let scope =
            InstrumentationScope::builder(names.scope).with_version(env!("CARGO_PKG_VERSION")).build();
        let settings = Settings {
            agent_name: config.agent_name,
            model: config.model,
            prompt: config.prompt,
            content: Content { wanted: config.content, redact: config.redact },
            attributes: config.attributes,
            metrics: config.metrics,
        };
        let tree = Tree::new(tracers.tracer(scope), names, parent.clone(), settings);
        Self(Arc::new(Mutex::new(State { tree, frames: Frames::new(config.resumed) })))
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The agent printed this, at this time.
    pub fn frame(&self, message: &Message, at: SystemTime) {
        let State { tree, frames } = &mut *self.state();
        if !tree.is_silent() {
            frames.message(tree, message, at);
        }
    }

    /// The context of the agent's span: the parent of whatever the host does for it, and its `traceparent`.
    #[must_use]
    pub fn context(&self) -> Context {
        self.state().tree.root().map_or_else(Context::new, |root| root.context.clone())
    }

    /// Whether anybody records.
    #[must_use]
    pub fn is_recording(&self) -> bool {
        self.context().span().is_recording()
    }

    /// The agent has ended, now.
    pub fn end(&self, end: End) {
        self.end_at(end, SystemTime::now());
    }

    /// The agent has ended, at this time. Everything that is still open ends with it; a second end changes nothing.
    pub fn end_at(&self, end: End, at: SystemTime) {
        let tree = &mut self.state().tree;
        let failure = match end {
            End::Ok => tree.outcome.take().and_then(Result::err),
            End::Error { kind, message } => {
                let message = tree.settings.content.redact.apply(message);
                Some(Failure::new(kind, message))
            }
            End::Aborted => Some(Failure::new("aborted", "aborted")),
        };
        tree.end(failure.as_ref(), at);
    }
}
