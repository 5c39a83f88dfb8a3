//! Handlers of control requests from the CLI: hooks, permissions, tools and elicitations.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use yb_supervise::CancellationToken;

use super::control::HandlerResponse;
use super::hooks::Callback;
use super::mcp::{self, OpenCalls};
use super::permission::{Elicitation, ElicitationResponse, PermissionResult, ToolRequest};
use super::tools::ToolServer;
use crate::RawJson;
use crate::frame::ControlRequest;
use crate::frame::lenient::{from_raw, lenient_struct};

/// How long a handler may run after its request was cancelled.
pub(super) const CANCEL_GRACE: Duration = Duration::from_secs(1);

/// The future of a handler.
pub(super) type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A permission callback.
pub(super) type PermissionHandler =
    Arc<dyn Fn(ToolRequest, CallContext) -> BoxFuture<Result<PermissionResult, String>> + Send + Sync>;
/// An elicitation callback.
pub(super) type ElicitationHandler =
    Arc<dyn Fn(Elicitation, CallContext) -> BoxFuture<Result<ElicitationResponse, String>> + Send + Sync>;

/// The context of a handler call.
#[derive(Clone)]
pub struct CallContext {
    cancel: CancellationToken,
}

impl CallContext {
    pub(super) fn new(cancel: CancellationToken) -> Self {
        Self { cancel }
    }

    /// Waits until the CLI cancels the request, because of an interrupt or a timeout. The handler is dropped one second
    /// later.
    pub async fn cancelled(&self) {
        self.cancel.cancelled().await;
    }

    /// Returns whether the CLI cancelled the request.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// Returns the cancellation token.
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

/// All handlers of a session.
#[derive(Clone, Default)]
pub(super) struct Handlers {
    pub(super) hooks: Vec<Callback>,
    pub(super) can_use_tool: Option<PermissionHandler>,
    pub(super) elicitation: Option<ElicitationHandler>,
    pub(super) servers: BTreeMap<String, ToolServer>,
}

lenient_struct! {
    /// A `hook_callback` request.
    struct HookCallbackRequest {
        /// The callback ID.
        callback_id: String = "callback_id",
        /// The hook's input.
        input: RawJson = "input",
    }
}

lenient_struct! {
    /// An `mcp_message` request.
    struct McpMessageRequest {
        /// The server's name.
        server_name: String = "server_name",
        /// The JSON-RPC message.
        message: RawJson = "message",
    }
}

impl Handlers {
    /// Whether there are no handlers. With handlers, stdin has to stay open.
    pub(super) fn is_empty(&self) -> bool {
        self.hooks.is_empty()
            && self.can_use_tool.is_none()
            && self.elicitation.is_none()
            && self.servers.is_empty()
    }

    pub(super) async fn handle(
        self: Arc<Self>,
        request: ControlRequest,
        context: CallContext,
        open_calls: &OpenCalls,
    ) -> HandlerResponse {
        let body = request.request.body;
        match request.request.subtype.as_str() {
            "hook_callback" => self.hook(&body, context).await,
            "can_use_tool" => self.permission(&body, context).await,
            "mcp_message" => self.mcp(&body, context, open_calls).await,
            "elicitation" => self.elicit(&body, context).await,
            // Dialogs are not supported, and the CLI continues without a response.
            "request_user_dialog" => HandlerResponse::Silent,
            other => HandlerResponse::Error {
                message: format!("Unsupported control request subtype: {other}"),
                code: Some("unsupported_request"),
            },
        }
    }

    async fn hook(&self, body: &RawJson, context: CallContext) -> HandlerResponse {
        let Some(call) = from_raw::<HookCallbackRequest>(body) else {
            return HandlerResponse::error("hook request without a body");
        };
        let number = call.callback_id.strip_prefix("hook_").and_then(|number| number.parse::<usize>().ok());
        let Some(callback) = number.and_then(|number| self.hooks.get(number)) else {
            return HandlerResponse::error(format!("unknown hook callback: `{}`", call.callback_id));
        };
        match (callback.run)(call.input, context).await {
            Ok(output) => HandlerResponse::Success(output),
            Err(message) => HandlerResponse::error(message),
        }
    }

    async fn permission(&self, body: &RawJson, context: CallContext) -> HandlerResponse {
        let Some(decide) = &self.can_use_tool else {
            return HandlerResponse::error("no permission handler");
        };
        let Some(request) = from_raw::<ToolRequest>(body) else {
            return HandlerResponse::error("permission request without a body");
        };
        let original = request.input.to_value().unwrap_or_default();
        match decide(request, context).await {
            Ok(permission) => HandlerResponse::Success(permission.into_json(original)),
            Err(message) => HandlerResponse::error(message),
        }
    }

    async fn mcp(&self, body: &RawJson, context: CallContext, open_calls: &OpenCalls) -> HandlerResponse {
        let Some(call) = from_raw::<McpMessageRequest>(body) else {
            return HandlerResponse::error("MCP request without a body");
        };
        let message: Value = call.message.to_value().unwrap_or_default();
        let response = match self.servers.get(&call.server_name) {
            Some(server) => mcp::respond(server, &message, context, open_calls).await,
            None => mcp::no_server(&call.server_name, &message),
        };
        response.map_or(HandlerResponse::Silent, |response| {
            HandlerResponse::Success(json!({ "mcp_response": response }))
        })
    }

    async fn elicit(&self, body: &RawJson, context: CallContext) -> HandlerResponse {
        let Some(elicit) = &self.elicitation else {
            return HandlerResponse::Success(ElicitationResponse::Decline.into_json());
        };
        match elicit(from_raw::<Elicitation>(body).unwrap_or_default(), context).await {
            Ok(response) => HandlerResponse::Success(response.into_json()),
            Err(message) => HandlerResponse::error(message),
        }
    }
}
