//! Control frames as the host writes them, and the answers that have a type.

use serde_json::{Value, json};

use crate::RawJson;
use crate::frame::lax::lax_struct;

/// A question to the CLI.
pub(super) fn request(id: &str, body: &Value) -> Vec<u8> {
    json!({"type": "control_request", "request_id": id, "request": body}).to_string().into_bytes()
}

/// The host no longer wants an answer.
pub(super) fn cancel(id: &str) -> Vec<u8> {
    json!({"type": "control_cancel_request", "request_id": id}).to_string().into_bytes()
}

/// The host's answer to the CLI.
pub(super) enum Answer {
    Success(Value),
    Error {
        message: String,
        code: Option<&'static str>,
    },
    /// None at all.
    Silent,
}

impl Answer {
    pub(super) fn error(message: impl Into<String>) -> Self {
        Self::Error { message: message.into(), code: None }
    }

    /// The line that says it.
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

lax_struct! {
    /// What the CLI says about itself when a session begins.
    pub struct Initialized {
        raw,
        /// Whether a hook that fails can stop what it was asked about.
        hook_on_failure_supported: bool = "hook_on_failure_supported",
        /// Whether the hooks are in force; not said means yes.
        hooks_applied: Option<bool> = "hooks_applied",
        /// The style of its answers.
        output_style: Option<String> = "output_style",
        /// Its process.
        pid: Option<u64> = "pid",
        /// What it can do beside the usual, by name.
        capabilities: Vec<String> = "capabilities",
        /// Its commands.
        commands: Vec<RawJson> = "commands",
        /// Its agents.
        agents: Vec<RawJson> = "agents",
        /// Its models.
        models: Vec<RawJson> = "models",
        /// Whose account it uses.
        account: Option<RawJson> = "account",
    }
}

lax_struct! {
    /// An MCP server of a session.
    pub struct ServerStatus {
        /// Its name.
        name: String = "name",
        /// `connected`, `failed`, `pending`, `needs-auth` or `disabled`.
        status: String = "status",
        /// Why it failed.
        error: Option<String> = "error",
        /// Where it was configured.
        scope: Option<String> = "scope",
        /// What it is.
        server_info: Option<RawJson> = "serverInfo",
        /// Its tools.
        tools: Vec<RawJson> = "tools",
    }
}
