//! The prompt adapter's API: hooks that create spans, and the context that holds the open ones.

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

use crate::agent_spans::{AgentOutcome, AgentSpans, AgentSpansConfig};
use crate::content::Redactor;
use crate::metrics::Metrics;
use crate::names::{SemanticConventions, agentmark_attributes};
use crate::propagate::traceparent;
use crate::traced_messages::TracedMessages;
use crate::tracers::Tracers;
use crate::tree::{MAIN, SpanFailure, SpanTree, UNNAMED};

/// Options for hooks that create spans.
#[derive(Debug, Clone)]
#[non_exhaustive]
#[must_use]
pub struct OtelHooksConfig {
    /// The tracer provider. Defaults to the global one.
    pub tracers: Tracers,
    /// The prompt name, an attribute of every span. Must not be empty.
    pub prompt_name: String,
    /// The requested model.
    pub model: Option<String>,
    /// The user id, an attribute of every span.
    pub user_id: Option<String>,
    /// The user prompt. If given, it is recorded even without `content`.
    pub user_prompt: Option<String>,
    /// Additional attributes of every span. They override the spans' own.
    pub additional_attributes: Vec<KeyValue>,
    /// The semantic conventions. Defaults to the prompt adapter's names.
    pub conventions: SemanticConventions,
    /// Whether prompts, tool arguments and tool results are recorded.
    pub content: bool,
    /// Redacts secrets in recorded content.
    pub redact: Redactor,
    /// The instruments for durations, tokens and cost.
    pub metrics: Option<Metrics>,
    /// The parent of the session spans. Defaults to the current context.
    pub parent: Context,
}

impl OtelHooksConfig {
    /// Creates options for the prompt with this name.
    pub fn new(prompt_name: impl Into<String>) -> Self {
        Self {
            tracers: Tracers::global(),
            prompt_name: prompt_name.into(),
            model: None,
            user_id: None,
            user_prompt: None,
            additional_attributes: Vec::new(),
            conventions: SemanticConventions::AgentMark,
            content: false,
            redact: Redactor::default(),
            metrics: None,
            parent: Context::current(),
        }
    }

    /// Sets the tracer provider. [`Tracers::none`] disables tracing. A value that is not a provider does not compile:
    ///
    /// ```compile_fail
    /// let config = yb_otel::OtelHooksConfig::new("greet").with_tracers(yb_otel::Tracers::new("not a provider"));
    /// ```
    pub fn with_tracers(mut self, tracers: Tracers) -> Self {
        self.tracers = tracers;
        self
    }

    /// Sets the requested model.
    pub fn with_model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// Sets the user id.
    pub fn with_user_id(mut self, user_id: impl Into<String>) -> Self {
        self.user_id = Some(user_id.into());
        self
    }

    /// Sets the user prompt.
    pub fn with_user_prompt(mut self, prompt: impl Into<String>) -> Self {
        self.user_prompt = Some(prompt.into());
        self
    }

    /// Adds an attribute to every span.
    pub fn with_attribute(mut self, key: impl Into<opentelemetry::Key>, value: impl Into<Attribute>) -> Self {
        self.additional_attributes.push(KeyValue::new(key, value));
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

    /// Sets the metric instruments.
    pub fn with_metrics(mut self, metrics: Metrics) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// Sets the parent of the session spans.
    pub fn with_parent(mut self, parent: Context) -> Self {
        self.parent = parent;
        self
    }
}

/// Invalid options for hooks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OtelHooksError {
    /// The prompt name is empty, so spans of different prompts could not be distinguished.
    #[error("prompt name is empty\nhint: pass a name to `OtelHooksConfig::new`")]
    EmptyPromptName,
}

/// The open spans of the sessions whose hooks were created with it.
#[derive(Debug, Clone)]
pub struct TelemetryContext {
    spans: AgentSpans,
    config: Arc<OtelHooksConfig>,
}

/// Creates hooks that create spans, and their context. If tracing is disabled, there are no hooks and the context does
/// nothing.
///
/// A headless session calls no hook when it starts or ends. Pass its messages to [`TelemetryContext::trace`] or
/// [`TelemetryContext::observe`] to record session id, model, usage and outcome as well.
///
/// # Errors
/// Fails if the prompt name is empty.
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
        conventions: config.conventions,
        content: config.content,
        redact: config.redact.clone(),
        attributes,
        metrics: config.metrics.clone(),
        ..AgentSpansConfig::default()
    };
    let spans = AgentSpans::prepare(&config.tracers, &config.parent, spans);
    let hooks = if config.tracers.is_none() { Hooks::new() } else { hooks(&spans) };
    Ok((hooks, TelemetryContext { spans, config: Arc::new(config) }))
}

/// Combines hooks, in order.
pub fn merge_hooks(hooks: impl IntoIterator<Item = Hooks>) -> Hooks {
    hooks.into_iter().fold(Hooks::new(), Hooks::and)
}

/// The response of a session.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum SessionResult {
    /// Text.
    Text(String),
    /// Structured output.
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

/// The token usage of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SessionUsage {
    /// Input tokens.
    pub input_tokens: Option<u64>,
    /// Output tokens.
    pub output_tokens: Option<u64>,
}

/// Ends a session successfully, with its response and usage. Spans still open below it end with `no_result`. Without an
/// open session it does nothing.
pub fn complete_session(
    context: &TelemetryContext,
    result: impl Into<SessionResult>,
    usage: Option<SessionUsage>,
) {
    let tree = &mut context.spans.state().tree;
    match result.into() {
        SessionResult::Text(text) => tree.set_root_output(&text),
        SessionResult::Object(value) => {
            let value = tree.settings.content.value(value);
            tree.set_root_output(&value.to_string());
        }
    }
    if let Some(usage) = usage {
        let mut tokens = Tokens::default();
        tokens.input = usage.input_tokens.unwrap_or_default();
        tree.set_root_usage(usage.input_tokens.map(|_| &tokens), usage.output_tokens);
    }
    tree.end(None, SystemTime::now());
}

/// Ends a session with a failure. Its span and all open spans below it get status ERROR.
pub fn fail_session(context: &TelemetryContext, error: &dyn std::error::Error) {
    context.spans.end(AgentOutcome::error("error", error.to_string()));
}

/// Ends a session that was aborted. Its span and all open spans below it get status ERROR.
pub fn abort_session(context: &TelemetryContext) {
    context.spans.end(AgentOutcome::Aborted);
}

impl TelemetryContext {
    /// Returns the options.
    pub fn config(&self) -> &OtelHooksConfig {
        &self.config
    }

    /// Returns the context of the session's span, or `None` between sessions.
    #[must_use]
    pub fn root_span(&self) -> Option<Context> {
        self.spans.state().tree.root().map(|root| root.context.clone())
    }

    /// Returns the ids of the tool calls with open spans.
    #[must_use]
    pub fn active_tool_spans(&self) -> Vec<String> {
        self.spans.state().tree.open_tools()
    }

    /// Returns the ids of the subagents with open spans.
    #[must_use]
    pub fn active_subagent_spans(&self) -> Vec<String> {
        self.spans.state().tree.open_subagents()
    }

    /// Returns the `traceparent` of the session's span, or an empty string between sessions.
    #[must_use]
    pub fn traceparent(&self) -> String {
        self.root_span().map(|root| traceparent(&root)).unwrap_or_default()
    }

    /// Records a message that the CLI printed just now.
    pub fn observe(&self, message: &Message) {
        self.spans.observe(message, SystemTime::now());
    }

    /// Ends the session with all open spans.
    pub fn end(&self, outcome: AgentOutcome) {
        self.spans.end(outcome);
    }

    /// Records a stream of messages while it is read. The session ends with the outcome of its result at the end of the
    /// stream, with the error if the stream fails, and as aborted if the stream is dropped.
    pub fn trace<S>(&self, messages: S) -> TracedMessages<S> {
        TracedMessages::new(messages, self.spans.clone())
    }
}

/// Creates the hooks.
fn hooks(spans: &AgentSpans) -> Hooks {
    spans.state().tree.enable_hooks();
    let updater = || {
        let spans = spans.clone();
        move |update: &dyn Fn(&mut SpanTree, SystemTime)| {
            let tree = &mut spans.state().tree;
            if !tree.is_disabled() {
                update(tree, SystemTime::now());
            }
        }
    };
    let (prompt, before, after, failed) = (updater(), updater(), updater(), updater());
    let (stop, sub_starts, sub_stops) = (updater(), updater(), updater());
    Hooks::new()
        .on(HookMatcher::any(), move |hook: UserPromptSubmit, _| {
            prompt(&|tree, at| {
                tree.set_session(&hook.session_id);
                tree.start_root(Some(&hook.prompt), at);
            });
            async { UserPromptSubmitOutput::new() }
        })
        .on(HookMatcher::any(), move |hook: PreToolUse, _| {
            before(&|tree, at| {
                tree.set_session(&hook.session_id);
                if tree.root().is_none() {
                    tree.start_root(None, at);
                }
                let conversation = hook.agent_id.as_deref().unwrap_or(MAIN);
                let id = call_id(hook.tool_use_id.as_deref(), &hook.tool_name);
                tree.start_tool(conversation, &id, &hook.tool_name, hook.tool_input.as_str(), at);
            });
            async { PreToolUseOutput::new() }
        })
        .on(HookMatcher::any(), move |hook: PostToolUse, _| {
            after(&|tree, at| {
                let id = call_id(hook.tool_use_id.as_deref(), &hook.tool_name);
                tree.end_tool(&id, hook.tool_response.as_str(), None, at);
            });
            async { PostToolUseOutput::new() }
        })
        .on(HookMatcher::any(), move |hook: PostToolUseFailure, _| {
            failed(&|tree, at| {
                let kind = if hook.is_interrupt { "interrupted" } else { "tool_error" };
                let id = call_id(hook.tool_use_id.as_deref(), &hook.tool_name);
                tree.end_tool(&id, &hook.error, Some(&SpanFailure::new(kind, hook.error.clone())), at);
            });
            async { PostToolUseFailureOutput::new() }
        })
        .on(HookMatcher::any(), move |hook: Stop, _| {
            stop(&|tree, at| {
                if let (Some(text), true) = (&hook.last_assistant_message, tree.settings.content.enabled) {
                    tree.set_root_output(text);
                }
                tree.mark_root_stopped(at);
            });
            async { StopOutput::new() }
        })
        .on(HookMatcher::any(), move |hook: SubagentStart, _| {
            sub_starts(&|tree, at| {
                let agent = hook.agent_id.as_deref().unwrap_or(&hook.session_id);
                tree.start_subagent(agent, hook.agent_type.as_deref().unwrap_or_default(), None, at);
            });
            async { SubagentStartOutput::new() }
        })
        .on(HookMatcher::any(), move |hook: SubagentStop, _| {
            sub_stops(&|tree, at| {
                let agent = hook.agent_id.as_deref().unwrap_or(&hook.session_id);
                tree.end_subagent(agent, None, at);
            });
            async { SubagentStopOutput::new() }
        })
}

/// Returns the id of a call. A call without an id is identified by its tool until it ends.
fn call_id(id: Option<&str>, tool: &str) -> String {
    id.map_or_else(|| format!("{UNNAMED}{tool}"), str::to_owned)
}
