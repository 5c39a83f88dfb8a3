//! The prompt adapter's API: hooks that make spans, and the context that knows which are open.

use std::sync::Arc;
use std::time::SystemTime;

use opentelemetry::{Context, KeyValue, Value as Attribute};
use serde_json::Value;
use yb_claude::sdk::event::{
    PostToolUse, PostToolUseFailure, PostToolUseFailureOutput, PostToolUseOutput, PreToolUse,
    PreToolUseOutput, Stop, StopOutput, SubagentStart, SubagentStartOutput, SubagentStop, SubagentStopOutput,
    UserPromptSubmit, UserPromptSubmitOutput,
};
use yb_claude::sdk::{HookMatcher, Hooks};
use yb_claude::{Message, Tokens};

use crate::agent_spans::{AgentSpans, AgentSpansConfig, End};
use crate::content::Redact;
use crate::metrics::Metrics;
use crate::names::{Vocabulary, agentmark_attributes};
use crate::propagate::traceparent;
use crate::tracers::Tracers;
use crate::tree::{Failure, MAIN, Tree, UNNAMED};
use crate::watch::Watched;

/// What hooks that make spans are made from.
#[derive(Debug, Clone)]
#[non_exhaustive]
#[must_use]
pub struct OtelHooksConfig {
    /// Who makes tracers: the process's global provider, unless told.
    pub tracers: Tracers,
    /// The prompt's name, on every span. Never empty.
    pub prompt_name: String,
    /// The model that is asked for.
    pub model: Option<String>,
    /// The user, on every span.
    pub user_id: Option<String>,
    /// What the user says. Giving it is asking for it: it is written whatever `content` says.
    pub user_prompt: Option<String>,
    /// More attributes for every span; they win over those that the spans have of their own.
    pub additional_attributes: Vec<KeyValue>,
    /// The words: the adapter's own, unless told.
    pub vocabulary: Vocabulary,
    /// Whether prompts, arguments and results that hooks and messages tell of are written.
    pub content: bool,
    /// What is taken out of everything that was said.
    pub redact: Redact,
    /// Where durations, tokens and cost are counted.
    pub metrics: Option<Metrics>,
    /// The span that sessions are part of: the current one, unless told.
    pub parent: Context,
}

impl OtelHooksConfig {
    /// For a prompt of this name, with the global provider and the adapter's names.
    pub fn new(prompt_name: impl Into<String>) -> Self {
        Self {
            tracers: Tracers::global(),
            prompt_name: prompt_name.into(),
            model: None,
            user_id: None,
            user_prompt: None,
            additional_attributes: Vec::new(),
            vocabulary: Vocabulary::Seed,
            content: false,
            redact: Redact::default(),
            metrics: None,
            parent: Context::current(),
        }
    }

    /// The same with tracers of this provider; [`Tracers::none`] traces nothing. What is no provider does not compile:
    ///
    /// ```compile_fail
    /// let config = yb_otel::OtelHooksConfig::new("greet").with_tracers(yb_otel::Tracers::new("not a provider"));
    /// ```
    pub fn with_tracers(mut self, tracers: Tracers) -> Self {
        self.tracers = tracers;
        self
    }

    /// The same with the model that is asked for.
    pub fn with_model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// The same for this user.
    pub fn with_user_id(mut self, user_id: impl Into<String>) -> Self {
        self.user_id = Some(user_id.into());
        self
    }

    /// The same with what the user says.
    pub fn with_user_prompt(mut self, prompt: impl Into<String>) -> Self {
        self.user_prompt = Some(prompt.into());
        self
    }

    /// The same with one more attribute on every span.
    pub fn with_attribute(mut self, key: impl Into<opentelemetry::Key>, value: impl Into<Attribute>) -> Self {
        self.additional_attributes.push(KeyValue::new(key, value));
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

    /// The same with metrics.
    pub fn with_metrics(mut self, metrics: Metrics) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// The same within the span of this context.
    pub fn with_parent(mut self, parent: Context) -> Self {
        self.parent = parent;
        self
    }
}

/// Why there are no hooks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OtelHooksError {
    /// Spans of different prompts could not be told apart.
    #[error("the prompt's name is empty\nhint: name the prompt in `OtelHooksConfig::new`")]
    EmptyPromptName,
}

/// What is open, of the session whose hooks came with it.
#[derive(Debug, Clone)]
pub struct TelemetryContext {
    spans: AgentSpans,
    config: Arc<OtelHooksConfig>,
}

/// Hooks that make spans, and the context in which they do. Without tracers there are no hooks, and the context does
/// nothing.
///
/// Told of messages as well ([`TelemetryContext::watch`] or [`TelemetryContext::frame`]), the spans also have the session,
/// the model, the usage and how it ended: a session without a terminal calls no hook when it begins or ends.
///
/// # Errors
/// When the prompt's name is empty.
pub fn create_otel_hooks(config: OtelHooksConfig) -> Result<(Hooks, TelemetryContext), OtelHooksError> {
    if config.prompt_name.trim().is_empty() {
        return Err(OtelHooksError::EmptyPromptName);
    }
    let mut attributes = vec![KeyValue::new(agentmark_attributes::PROMPT_NAME, config.prompt_name.clone())];
    attributes.extend(config.user_id.clone().map(|user| KeyValue::new(agentmark_attributes::USER_ID, user)));
    attributes.extend(config.additional_attributes.iter().cloned());
    let spans = AgentSpansConfig {
        agent_name: config.prompt_name.clone(),
        model: config.model.clone(),
        prompt: config.user_prompt.clone(),
        vocabulary: config.vocabulary,
        content: config.content,
        redact: config.redact.clone(),
        attributes,
        metrics: config.metrics.clone(),
        resumed: false,
    };
    let spans = AgentSpans::prepare(&config.tracers, &config.parent, spans);
    let hooks = if config.tracers.is_none() { Hooks::new() } else { hooks(&spans) };
    Ok((hooks, TelemetryContext { spans, config: Arc::new(config) }))
}

/// These hooks one after the other, in this order; none of them is changed.
pub fn merge_hooks(hooks: impl IntoIterator<Item = Hooks>) -> Hooks {
    hooks.into_iter().fold(Hooks::new(), Hooks::and)
}

/// What a session answered.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum SessionResult {
    /// In words.
    Text(String),
    /// In the shape that was asked for.
    Object(Value),
}

impl From<&str> for SessionResult {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for SessionResult {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Value> for SessionResult {
    fn from(value: Value) -> Self {
        Self::Object(value)
    }
}

/// What a session used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SessionUsage {
    /// Tokens read.
    pub input_tokens: Option<u64>,
    /// Tokens written.
    pub output_tokens: Option<u64>,
}

/// Ends a session with its answer: the answer and the usage go onto its span, whose status becomes OK. What is still
/// open below it never got its end, and says so. Without an open session nothing happens.
pub fn complete_session(
    context: &TelemetryContext,
    result: impl Into<SessionResult>,
    usage: Option<SessionUsage>,
) {
    let tree = &mut context.spans.state().tree;
    match result.into() {
        SessionResult::Text(text) => tree.root_output(&text),
        SessionResult::Object(value) => {
            let value = tree.settings.content.value(value);
            tree.root_output(&value.to_string());
        }
    }
    if let Some(usage) = usage {
        let mut tokens = Tokens::default();
        tokens.input = usage.input_tokens.unwrap_or_default();
        tree.root_usage(usage.input_tokens.map(|_| &tokens), usage.output_tokens);
    }
    tree.end(None, SystemTime::now());
}

/// Ends a session that failed: its span and everything that is open below it end with ERROR.
pub fn fail_session(context: &TelemetryContext, error: &dyn std::error::Error) {
    context.spans.end(End::error("error", error.to_string()));
}

/// Ends a session that nobody wants any more: its span and everything that is open below it end with ERROR.
pub fn abort_session(context: &TelemetryContext) {
    context.spans.end(End::Aborted);
}

impl TelemetryContext {
    /// What it was made from.
    pub fn config(&self) -> &OtelHooksConfig {
        &self.config
    }

    /// The context of the session's span; none between sessions.
    #[must_use]
    pub fn root_span(&self) -> Option<Context> {
        self.spans.state().tree.root().map(|root| root.context.clone())
    }

    /// The calls of tools whose spans are open.
    #[must_use]
    pub fn active_tool_spans(&self) -> Vec<String> {
        self.spans.state().tree.open_tools()
    }

    /// The subagents whose spans are open.
    #[must_use]
    pub fn active_subagent_spans(&self) -> Vec<String> {
        self.spans.state().tree.open_subagents()
    }

    /// The `traceparent` of the session's span; empty between sessions.
    #[must_use]
    pub fn traceparent(&self) -> String {
        self.root_span().map(|root| traceparent(&root)).unwrap_or_default()
    }

    /// The CLI printed this, just now.
    pub fn frame(&self, message: &Message) {
        self.spans.frame(message, SystemTime::now());
    }

    /// The session has ended so; what is open ends with it.
    pub fn end(&self, end: End) {
        self.spans.end(end);
    }

    /// The same messages, told to the spans as they pass; at their end the session ends as its result says, at an error
    /// with that, and when nobody reads on, as aborted.
    pub fn watch<S>(&self, messages: S) -> Watched<S> {
        Watched::new(messages, self.spans.clone())
    }
}

/// What each event does to the spans.
fn hooks(spans: &AgentSpans) -> Hooks {
    spans.state().tree.hooked();
    let tell = || {
        let spans = spans.clone();
        move |act: &dyn Fn(&mut Tree, SystemTime)| {
            let tree = &mut spans.state().tree;
            if !tree.is_silent() {
                act(tree, SystemTime::now());
            }
        }
    };
    let (prompt, before, after, failed) = (tell(), tell(), tell(), tell());
    let (stop, sub_starts, sub_stops) = (tell(), tell(), tell());
    Hooks::new()
        .on(HookMatcher::any(), move |hook: UserPromptSubmit, _| {
            prompt(&|tree, at| {
                tree.session(&hook.session_id);
                tree.begin(Some(&hook.prompt), at);
            });
            async { UserPromptSubmitOutput::new() }
        })
        .on(HookMatcher::any(), move |hook: PreToolUse, _| {
            before(&|tree, at| {
                tree.session(&hook.session_id);
                if tree.root().is_none() {
                    tree.begin(None, at);
                }
                let thread = hook.agent_id.as_deref().unwrap_or(MAIN);
                let id = call_id(hook.tool_use_id.as_deref(), &hook.tool_name);
                tree.tool_begins(thread, &id, &hook.tool_name, hook.tool_input.as_str(), at);
            });
            async { PreToolUseOutput::new() }
        })
        .on(HookMatcher::any(), move |hook: PostToolUse, _| {
            after(&|tree, at| {
                let id = call_id(hook.tool_use_id.as_deref(), &hook.tool_name);
                tree.tool_ends(&id, hook.tool_response.as_str(), None, at);
            });
            async { PostToolUseOutput::new() }
        })
        .on(HookMatcher::any(), move |hook: PostToolUseFailure, _| {
            failed(&|tree, at| {
                let kind = if hook.is_interrupt { "interrupted" } else { "tool_error" };
                let id = call_id(hook.tool_use_id.as_deref(), &hook.tool_name);
                tree.tool_ends(&id, &hook.error, Some(&Failure::new(kind, hook.error.clone())), at);
            });
            async { PostToolUseFailureOutput::new() }
        })
        .on(HookMatcher::any(), move |hook: Stop, _| {
            stop(&|tree, _| {
                if let (Some(text), true) = (&hook.last_assistant_message, tree.settings.content.wanted) {
                    tree.root_output(text);
                }
                tree.root_stopped();
            });
            async { StopOutput::new() }
        })
        .on(HookMatcher::any(), move |hook: SubagentStart, _| {
            sub_starts(&|tree, at| {
                let agent = hook.agent_id.as_deref().unwrap_or(&hook.session_id);
                tree.subagent_begins(agent, hook.agent_type.as_deref().unwrap_or_default(), None, at);
            });
            async { SubagentStartOutput::new() }
        })
        .on(HookMatcher::any(), move |hook: SubagentStop, _| {
            sub_stops(&|tree, at| {
                let agent = hook.agent_id.as_deref().unwrap_or(&hook.session_id);
                tree.subagent_ends(agent, None, at);
            });
            async { SubagentStopOutput::new() }
        })
}

/// A call by its id; one without is known by its tool, until it ends.
fn call_id(id: Option<&str>, tool: &str) -> String {
    id.map_or_else(|| format!("{UNNAMED}{tool}"), str::to_owned)
}
