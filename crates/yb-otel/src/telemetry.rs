//! The prompt adapter's telemetry events, passed to a callback instead of spans.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};
use yb_claude::frame::SystemMessage;
use yb_claude::sdk::event::{
    PostToolUse, PostToolUseFailure, PostToolUseFailureOutput, PostToolUseOutput, PreToolUse,
    PreToolUseOutput, SessionEnd, SessionEndOutput, SessionStart, SessionStartOutput, Stop, StopOutput,
    SubagentStart, SubagentStartOutput, SubagentStop, SubagentStopOutput,
};
use yb_claude::sdk::{HookMatcher, Hooks};
use yb_claude::{Message, RawJson};

/// Options for telemetry events.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TelemetryConfig {
    /// Whether events are emitted.
    pub is_enabled: bool,
    /// The function id.
    pub function_id: Option<String>,
    /// Additional data of every event.
    pub metadata: Map<String, Value>,
    /// The prompt name.
    pub prompt_name: String,
    /// The props of the prompt.
    pub props: Map<String, Value>,
}

/// A telemetry event.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TelemetryEvent {
    /// The event name, for example `tool_start`.
    pub event_name: &'static str,
    /// Milliseconds since the Unix epoch.
    pub timestamp: u64,
    /// The session id.
    pub session_id: String,
    /// The prompt name.
    pub prompt_name: String,
    /// The event's own data, with function id, metadata and props.
    pub data: Map<String, Value>,
}

type Handler = Arc<dyn Fn(TelemetryEvent) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// Emits the events that have no hook in a headless session (session start, session end, notifications), from messages.
#[derive(Clone)]
pub struct TelemetryEvents(Option<Arc<EventEmitter>>);

struct EventEmitter {
    config: TelemetryConfig,
    handler: Handler,
    /// The session that is open.
    session: Mutex<Option<String>>,
}

/// Creates hooks that pass events to a callback. If disabled, there are no hooks and no events.
///
/// A headless session calls no hook for its start, its end and its notifications. Pass every message to
/// [`TelemetryEvents::observe`] to emit these events from `init`, `result` and `notification`.
pub fn create_telemetry_hooks<F, R>(config: TelemetryConfig, handler: F) -> (Hooks, TelemetryEvents)
where
    F: Fn(TelemetryEvent) -> R + Send + Sync + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    if !config.is_enabled {
        return (Hooks::new(), TelemetryEvents(None));
    }
    let handler: Handler = Arc::new(move |event| Box::pin(handler(event)));
    let emitter = Arc::new(EventEmitter { config, handler, session: Mutex::new(None) });
    macro_rules! emit_on {
        ($hooks:ident, $event:ident -> $output:ident, $name:literal, |$hook:ident| $data:expr) => {
            let emitter_clone = Arc::clone(&emitter);
            let $hooks = $hooks.on(HookMatcher::any(), move |$hook: $event, _| {
                let emitter = Arc::clone(&emitter_clone);
                let (session, data) = ($hook.session_id.clone(), $data);
                async move {
                    emitter.emit($name, &session, data).await;
                    $output::new()
                }
            });
        };
    }
    let hooks = Hooks::new();
    emit_on!(hooks, SessionStart -> SessionStartOutput, "session_start", |hook| {
        json!({"cwd": hook.cwd, "transcript_path": hook.transcript_path, "source": hook.source})
    });
    emit_on!(hooks, SessionEnd -> SessionEndOutput, "session_end", |hook| json!({"reason": hook.reason}));
    emit_on!(hooks, PreToolUse -> PreToolUseOutput, "tool_start", |hook| {
        json!({"tool_name": hook.tool_name, "tool_input": value(&hook.tool_input), "tool_use_id": hook.tool_use_id})
    });
    emit_on!(hooks, PostToolUse -> PostToolUseOutput, "tool_end", |hook| {
        json!({"tool_name": hook.tool_name, "tool_response": value(&hook.tool_response), "tool_use_id": hook.tool_use_id})
    });
    emit_on!(hooks, PostToolUseFailure -> PostToolUseFailureOutput, "tool_error", |hook| {
        json!({"tool_name": hook.tool_name, "error": hook.error, "tool_use_id": hook.tool_use_id})
    });
    emit_on!(hooks, Stop -> StopOutput, "agent_stop", |hook| json!({"result": hook.last_assistant_message}));
    emit_on!(hooks, SubagentStart -> SubagentStartOutput, "subagent_start", |hook| {
        json!({"agent_id": hook.agent_id, "subagent_type": hook.agent_type})
    });
    emit_on!(hooks, SubagentStop -> SubagentStopOutput, "subagent_stop", |hook| {
        json!({"agent_id": hook.agent_id, "subagent_type": hook.agent_type,
            "subagent_result": hook.last_assistant_message})
    });
    (hooks, TelemetryEvents(Some(emitter)))
}

impl TelemetryEvents {
    /// Emits the event of a message, if it is a session start, a session end or a notification.
    pub async fn observe(&self, message: &Message) {
        let Some(emitter) = &self.0 else { return };
        let session = message.session_id().unwrap_or_default();
        match message {
            // `init` is repeated at every turn of an open session.
            Message::System(SystemMessage::Init(init)) if emitter.open_session(session) => {
                let data = json!({"cwd": init.cwd, "model": init.model, "source": "startup"});
                emitter.emit("session_start", session, data).await;
            }
            Message::Result(result) if emitter.close_session() => {
                emitter.emit("session_end", session, json!({"reason": result.subtype.as_str()})).await;
            }
            Message::System(SystemMessage::Notification(note)) => {
                emitter.emit("notification", session, json!({"message": note.text})).await;
            }
            _ => {}
        }
    }
}

impl EventEmitter {
    fn open_session(&self, session: &str) -> bool {
        let mut open = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = open.as_deref() != Some(session);
        *open = Some(session.to_owned());
        is_new
    }

    fn close_session(&self) -> bool {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).take().is_some()
    }

    async fn emit(&self, event_name: &'static str, session: &str, data: Value) {
        let Value::Object(mut data) = data else { return };
        data.retain(|_, value| !value.is_null());
        let config = &self.config;
        data.extend(config.function_id.clone().map(|id| ("function_id".to_owned(), Value::String(id))));
        data.insert("metadata".to_owned(), Value::Object(config.metadata.clone()));
        data.insert("props".to_owned(), Value::Object(config.props.clone()));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let event = TelemetryEvent {
            event_name,
            timestamp: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
            session_id: session.to_owned(),
            prompt_name: config.prompt_name.clone(),
            data,
        };
        (self.handler)(event).await;
    }
}

impl std::fmt::Debug for TelemetryEvents {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let config = self.0.as_ref().map(|emitter| &emitter.config);
        formatter.debug_tuple("TelemetryEvents").field(&config).finish()
    }
}

fn value(raw: &RawJson) -> Value {
    raw.to_value().unwrap_or_default()
}
