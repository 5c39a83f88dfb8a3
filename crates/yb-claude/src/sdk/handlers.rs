//! Handlers of control requests from the CLI: hooks, permissions, tools and elicitations.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use yb_supervise::CancellationToken;

use super::control::HandlerResponse;
use super::hooks::Callback;
use super::mcp::{self, OpenCalls};
use super::permission::{
    DialogResponse, Elicitation, ElicitationResponse, PermissionResult, ToolRequest, UserDialog,
};
use super::servers::{ServerMap, SessionMcpServer, SessionServers};
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

/// A dialog callback.
type ShowDialog =
    Arc<dyn Fn(UserDialog, CallContext) -> BoxFuture<Result<DialogResponse, String>> + Send + Sync>;

/// The dialogs that the host can show.
#[derive(Clone)]
pub(super) struct DialogHandler {
    pub(super) kinds: Vec<String>,
    pub(super) show: ShowDialog,
}

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
    pub(super) dialog: Option<DialogHandler>,
    pub(super) servers: ServerMap,
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
            && self.dialog.is_none()
            && self.servers.is_empty()
    }

    pub(super) async fn handle(
        self: Arc<Self>,
        request: ControlRequest,
        context: CallContext,
        servers: &SessionServers,
        open_calls: &OpenCalls,
    ) -> HandlerResponse {
        let body = request.request.body;
        match request.request.subtype.as_str() {
            "hook_callback" => self.hook(&body, context).await,
            "can_use_tool" => self.permission(&body, context).await,
            "mcp_message" => mcp_message(&body, context, servers, open_calls).await,
            "elicitation" => self.elicit(&body, context).await,
            "request_user_dialog" => self.user_dialog(&body, context).await,
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

    async fn elicit(&self, body: &RawJson, context: CallContext) -> HandlerResponse {
        let Some(elicit) = &self.elicitation else {
            return HandlerResponse::Success(ElicitationResponse::Decline.into_json());
        };
        match elicit(from_raw::<Elicitation>(body).unwrap_or_default(), context).await {
            Ok(response) => HandlerResponse::Success(response.into_json()),
            Err(message) => HandlerResponse::error(message),
        }
    }

    /// Responds to declared dialogs only: the CLI continues without a response to others. It would ignore an error and
    /// wait, so a failed callback dismisses the dialog.
    async fn user_dialog(&self, body: &RawJson, context: CallContext) -> HandlerResponse {
        let dialog = from_raw::<UserDialog>(body).unwrap_or_default();
        let declared = self.dialog.as_ref().filter(|known| known.kinds.contains(&dialog.dialog_kind));
        let Some(handler) = declared else { return HandlerResponse::Silent };
        let response = (handler.show)(dialog, context).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "the dialog callback failed");
            DialogResponse::Cancelled
        });
        HandlerResponse::Success(response.into_json())
    }
}

async fn mcp_message(
    body: &RawJson,
    context: CallContext,
    servers: &SessionServers,
    open_calls: &OpenCalls,
) -> HandlerResponse {
    let Some(call) = from_raw::<McpMessageRequest>(body) else {
        return HandlerResponse::error("MCP request without a body");
    };
    let message: Value = call.message.to_value().unwrap_or_default();
    let response = match servers.get(&call.server_name) {
        Some(SessionMcpServer::Tools(server)) => mcp::respond(&server, &message, context, open_calls).await,
        Some(SessionMcpServer::Service(service)) => {
            // A notification has no response, but the control request that carries it has.
            service.handle(message, context).await.or_else(|| Some(json!({"jsonrpc": "2.0", "result": {}})))
        }
        Some(SessionMcpServer::External(_)) | None => mcp::no_server(&call.server_name, &message),
    };
    response.map_or(HandlerResponse::Silent, |response| {
        HandlerResponse::Success(json!({ "mcp_response": response }))
    })
}
