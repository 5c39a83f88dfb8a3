//! Control frames from the host, and typed control responses.

use serde_json::{Value, json};

use crate::RawJson;
use crate::frame::lenient::lenient_struct;

/// Returns the line of a control request.
pub(super) fn request(id: &str, body: &Value) -> Vec<u8> {
    json!({"type": "control_request", "request_id": id, "request": body}).to_string().into_bytes()
}

/// Returns the line that cancels a control request.
pub(super) fn cancel(id: &str) -> Vec<u8> {
    json!({"type": "control_cancel_request", "request_id": id}).to_string().into_bytes()
}

/// The response of a handler to a control request.
pub(super) enum HandlerResponse {
    Success(Value),
    Error {
        message: String,
        code: Option<&'static str>,
    },
    /// No response is sent.
    Silent,
}

impl HandlerResponse {
    pub(super) fn error(message: impl Into<String>) -> Self {
        Self::Error { message: message.into(), code: None }
    }

    /// Returns the line to write.
    pub(super) fn line(self, request_id: &str) -> Option<Vec<u8>> {
        let response = match self {
            Self::Silent => return None,
            Self::Success(response) => {
                json!({"subtype": "success", "request_id": request_id, "response": response})
            }
            Self::Error { message, code: None } => {
                json!({"subtype": "error", "request_id": request_id, "error": message})
            }
            Self::Error { message, code } => {
                json!({"subtype": "error", "request_id": request_id, "error": message, "error_code": code})
            }
        };
        Some(json!({"type": "control_response", "response": response}).to_string().into_bytes())
    }
}

lenient_struct! {
    /// The CLI's response to the `initialize` request.
    pub struct InitializeResponse {
        raw,
        /// Whether a failing hook can block the action.
        hook_on_failure_supported: bool = "hook_on_failure_supported",
        /// Whether hooks are active; `None` means yes.
        hooks_applied: Option<bool> = "hooks_applied",
        /// The output style.
        output_style: Option<String> = "output_style",
        /// The process ID.
        pid: Option<u64> = "pid",
        /// The additional capabilities.
        capabilities: Vec<String> = "capabilities",
        /// The available commands.
        commands: Vec<RawJson> = "commands",
        /// The available agents.
        agents: Vec<RawJson> = "agents",
        /// The available models.
        models: Vec<RawJson> = "models",
        /// The account.
        account: Option<RawJson> = "account",
    }
}

lenient_struct! {
    /// The status of an MCP server of a session.
    pub struct McpServerInfo {
        /// The name.
        name: String = "name",
        /// `connected`, `failed`, `pending`, `needs-auth` or `disabled`.
        status: String = "status",
        /// The error, if it failed.
        error: Option<String> = "error",
        /// The scope of its configuration.
        scope: Option<String> = "scope",
        /// The server information.
        server_info: Option<RawJson> = "serverInfo",
        /// The tools.
        tools: Vec<RawJson> = "tools",
    }
}
