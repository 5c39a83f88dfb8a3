//! The prompt adapter's plain events: a function of the host hears what happens, without any span.

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

/// What plain events carry.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TelemetryConfig {
    /// Whether there are any.
    pub is_enabled: bool,
    /// The function.
    pub function_id: Option<String>,
    /// Whatever else should be in every event.
    pub metadata: Map<String, Value>,
    /// The prompt.
    pub prompt_name: String,
    /// What it was filled with.
    pub props: Map<String, Value>,
}

/// Something happened.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TelemetryEvent {
    /// What: `tool_start` for example.
    pub event_name: &'static str,
    /// When, in milliseconds since 1970.
    pub timestamp: u64,
    /// The session.
    pub session_id: String,
    /// The prompt.
    pub prompt_name: String,
    /// What belongs to the event, with the function, the metadata and the props.
    pub data: Map<String, Value>,
}

type Handler = Arc<dyn Fn(TelemetryEvent) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// The events that no hook is called for: the beginning of a session, its end, and notices. They are made from messages.
#[derive(Clone)]
pub struct TelemetryEvents(Option<Arc<Teller>>);

struct Teller {
    config: TelemetryConfig,
    handler: Handler,
    /// The session that has begun and not ended.
    session: Mutex<Option<String>>,
}

/// Hooks that tell a function of what happens, and what tells it of what hooks are not called for. Disabled, there are
/// no hooks, and nothing is told.
///
/// A session without a terminal calls no hook for its beginning, its end and its notices: hand every message to
/// [`TelemetryEvents::frame`], and they are told from `init`, `result` and `notification`.
pub fn create_telemetry_hooks<F, R>(config: TelemetryConfig, handler: F) -> (Hooks, TelemetryEvents)
where
    F: Fn(TelemetryEvent) -> R + Send + Sync + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    if !config.is_enabled {
        return (Hooks::new(), TelemetryEvents(None));
    }
    let handler: Handler = Arc::new(move |event| Box::pin(handler(event)));
    let teller = Arc::new(Teller { config, handler, session: Mutex::new(None) });
    macro_rules! tells {
        ($hooks:ident, $event:ident -> $output:ident, $name:literal, |$hook:ident| $data:expr) => {
            let teller_of = Arc::clone(&teller);
            let $hooks = $hooks.on(HookMatcher::any(), move |$hook: $event, _| {
                let teller = Arc::clone(&teller_of);
                let (session, data) = ($hook.session_id.clone(), $data);
                async move {
                    teller.tell($name, &session, data).await;
                    $output::new()
                }
            });
        };
    }
    let hooks = Hooks::new();
    tells!(hooks, SessionStart -> SessionStartOutput, "session_start", |hook| {
        json!({"cwd": hook.cwd, "transcript_path": hook.transcript_path, "source": hook.source})
    });
    tells!(hooks, SessionEnd -> SessionEndOutput, "session_end", |hook| json!({"reason": hook.reason}));
    tells!(hooks, PreToolUse -> PreToolUseOutput, "tool_start", |hook| {
        json!({"tool_name": hook.tool_name, "tool_input": value(&hook.tool_input), "tool_use_id": hook.tool_use_id})
    });
    tells!(hooks, PostToolUse -> PostToolUseOutput, "tool_end", |hook| {
        json!({"tool_name": hook.tool_name, "tool_response": value(&hook.tool_response), "tool_use_id": hook.tool_use_id})
    });
    tells!(hooks, PostToolUseFailure -> PostToolUseFailureOutput, "tool_error", |hook| {
        json!({"tool_name": hook.tool_name, "error": hook.error, "tool_use_id": hook.tool_use_id})
    });
    tells!(hooks, Stop -> StopOutput, "agent_stop", |hook| json!({"result": hook.last_assistant_message}));
    tells!(hooks, SubagentStart -> SubagentStartOutput, "subagent_start", |hook| {
        json!({"agent_id": hook.agent_id, "subagent_type": hook.agent_type})
    });
    tells!(hooks, SubagentStop -> SubagentStopOutput, "subagent_stop", |hook| {
        json!({"agent_id": hook.agent_id, "subagent_type": hook.agent_type,
            "subagent_result": hook.last_assistant_message})
    });
    (hooks, TelemetryEvents(Some(teller)))
}

impl TelemetryEvents {
    /// The CLI printed this: what it says about the session's beginning, its end or a notice is told.
    pub async fn frame(&self, message: &Message) {
        let Some(teller) = &self.0 else { return };
        let session = message.session_id().unwrap_or_default();
        match message {
            // It comes again at every turn; one that is open goes on.
            Message::System(SystemMessage::Init(init)) if teller.begins(session) => {
                let data = json!({"cwd": init.cwd, "model": init.model, "source": "startup"});
                teller.tell("session_start", session, data).await;
            }
            Message::Result(result) if teller.ends() => {
                teller.tell("session_end", session, json!({"reason": result.subtype.as_str()})).await;
            }
            Message::System(SystemMessage::Notification(note)) => {
                teller.tell("notification", session, json!({"message": note.text})).await;
            }
            _ => {}
        }
    }
}

impl Teller {
    fn begins(&self, session: &str) -> bool {
        let mut open = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        let begins = open.as_deref() != Some(session);
        *open = Some(session.to_owned());
        begins
    }

    fn ends(&self) -> bool {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).take().is_some()
    }

    async fn tell(&self, event_name: &'static str, session: &str, data: Value) {
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
        let config = self.0.as_ref().map(|teller| &teller.config);
        formatter.debug_tuple("TelemetryEvents").field(&config).finish()
    }
}

fn value(raw: &RawJson) -> Value {
    raw.to_value().unwrap_or_default()
}
