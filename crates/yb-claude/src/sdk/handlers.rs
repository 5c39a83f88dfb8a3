//! What the host can be asked: hooks, permissions, tools and questions to the user. Every question gets one answer.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use yb_supervise::CancellationToken;

use super::control::Answer;
use super::hooks::Callback;
use super::mcp::{self, OpenCalls};
use super::permission::{Elicitation, ElicitationAnswer, Permission, ToolRequest};
use super::tools::ToolServer;
use crate::RawJson;
use crate::frame::ControlRequest;
use crate::frame::lax::{from_raw, lax_struct};

/// How long a handler may go on after its question was taken back.
pub(super) const CANCEL_GRACE: Duration = Duration::from_secs(1);

/// A future that a handler gave.
pub(super) type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Decides about a tool.
pub(super) type Decide =
    Arc<dyn Fn(ToolRequest, CallContext) -> Boxed<Result<Permission, String>> + Send + Sync>;
/// Answers a question that an MCP server has for the user.
pub(super) type Elicit =
    Arc<dyn Fn(Elicitation, CallContext) -> Boxed<Result<ElicitationAnswer, String>> + Send + Sync>;

/// What a handler knows beside the question.
#[derive(Clone)]
pub struct CallContext {
    cancel: CancellationToken,
}

impl CallContext {
    pub(super) fn new(cancel: CancellationToken) -> Self {
        Self { cancel }
    }

    /// Waits until the CLI no longer wants an answer: it was interrupted, or waited long enough. A second later the
    /// handler is dropped.
    pub async fn cancelled(&self) {
        self.cancel.cancelled().await;
    }

    /// Whether the CLI no longer wants an answer.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// The same as a token, to hand on.
    #[must_use]
    pub fn token(&self) -> CancellationToken {
        self.cancel.clone()
    }
}

impl fmt::Debug for CallContext {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("CallContext").field("cancelled", &self.is_cancelled()).finish()
    }
}

/// Everything that a session may ask of its host.
#[derive(Clone, Default)]
pub(super) struct Handlers {
    pub(super) hooks: Vec<Callback>,
    pub(super) can_use_tool: Option<Decide>,
    pub(super) elicitation: Option<Elicit>,
    pub(super) servers: BTreeMap<String, ToolServer>,
}

lax_struct! {
    /// A hook is due.
    struct HookCall {
        /// Which.
        callback_id: String = "callback_id",
        /// What happened.
        input: RawJson = "input",
    }
}

lax_struct! {
    /// A message to a tool server.
    struct McpCall {
        /// Which server.
        server_name: String = "server_name",
        /// The message.
        message: RawJson = "message",
    }
}

impl Handlers {
    /// Whether the CLI may ask anything, so that its input has to stay open.
    pub(super) fn is_empty(&self) -> bool {
        self.hooks.is_empty()
            && self.can_use_tool.is_none()
            && self.elicitation.is_none()
            && self.servers.is_empty()
    }

    pub(super) async fn answer(
        self: Arc<Self>,
        request: ControlRequest,
        context: CallContext,
        open_calls: &OpenCalls,
    ) -> Answer {
        let body = request.request.body;
        match request.request.subtype.as_str() {
            "hook_callback" => self.hook(&body, context).await,
            "can_use_tool" => self.permission(&body, context).await,
            "mcp_message" => self.mcp(&body, context, open_calls).await,
            "elicitation" => self.elicit(&body, context).await,
            // Nobody can show a dialog here, and the CLI goes on without an answer.
            "request_user_dialog" => Answer::Silent,
            other => Answer::Error {
                message: format!("Unsupported control request subtype: {other}"),
                code: Some("unsupported_request"),
            },
        }
    }

    async fn hook(&self, body: &RawJson, context: CallContext) -> Answer {
        let Some(call) = from_raw::<HookCall>(body) else { return Answer::error("the hook has no body") };
        let number = call.callback_id.strip_prefix("hook_").and_then(|number| number.parse::<usize>().ok());
        let Some(callback) = number.and_then(|number| self.hooks.get(number)) else {
            return Answer::error(format!("no hook callback is called `{}`", call.callback_id));
        };
        match (callback.run)(call.input, context).await {
            Ok(output) => Answer::Success(output),
            Err(message) => Answer::error(message),
        }
    }

    async fn permission(&self, body: &RawJson, context: CallContext) -> Answer {
        let Some(decide) = &self.can_use_tool else {
            return Answer::error("nobody decides about permissions here");
        };
        let Some(request) = from_raw::<ToolRequest>(body) else {
            return Answer::error("the question has no body");
        };
        let original = request.input.to_value().unwrap_or_default();
        match decide(request, context).await {
            Ok(permission) => Answer::Success(permission.into_json(original)),
            Err(message) => Answer::error(message),
        }
    }

    async fn mcp(&self, body: &RawJson, context: CallContext, open_calls: &OpenCalls) -> Answer {
        let Some(call) = from_raw::<McpCall>(body) else { return Answer::error("the message has no body") };
        let message: Value = call.message.to_value().unwrap_or_default();
        let response = match self.servers.get(&call.server_name) {
            Some(server) => mcp::answer(server, &message, context, open_calls).await,
            None => mcp::no_server(&call.server_name, &message),
        };
        response.map_or(Answer::Silent, |response| Answer::Success(json!({ "mcp_response": response })))
    }

    async fn elicit(&self, body: &RawJson, context: CallContext) -> Answer {
        let Some(elicit) = &self.elicitation else {
            return Answer::Success(ElicitationAnswer::Decline.into_json());
        };
        match elicit(from_raw::<Elicitation>(body).unwrap_or_default(), context).await {
            Ok(answer) => Answer::Success(answer.into_json()),
            Err(message) => Answer::error(message),
        }
    }
}
