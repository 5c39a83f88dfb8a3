//! Permission requests for tool calls, MCP elicitations and dialogs.

use serde_json::{Map, Value, json};

use crate::RawJson;
use crate::frame::lenient::lenient_struct;

lenient_struct! {
    /// A permission request for a tool call.
    pub struct ToolRequest {
        raw,
        /// The tool's name.
        tool_name: String = "tool_name",
        /// The arguments.
        input: RawJson = "input",
        /// The tool call's ID.
        tool_use_id: Option<String> = "tool_use_id",
        /// The calling subagent's ID; `None` for the main thread.
        agent_id: Option<String> = "agent_id",
        /// The question for the user, as a full sentence.
        title: Option<String> = "title",
        /// A short label of the tool.
        display_name: Option<String> = "display_name",
        /// A description of the call.
        description: Option<String> = "description",
        /// Suggested permission rules: objects for [`PermissionResult::with_updates`].
        suggestions: Vec<RawJson> = "permission_suggestions",
        /// The path that is not allowed.
        blocked_path: Option<String> = "blocked_path",
        /// Why permission is requested.
        decision_reason: Option<String> = "decision_reason",
        /// The kind of reason: `rule`, `mode`, `hook`, `safetyCheck` and others.
        decision_reason_type: Option<String> = "decision_reason_type",
        /// Whether the user has to answer in person, so that no automatic approval is appropriate.
        requires_user_interaction: bool = "requires_user_interaction",
    }
}

/// The decision about a [`ToolRequest`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum PermissionResult {
    /// The call is allowed.
    Allow {
        /// Replacement arguments.
        updated_input: Option<Value>,
        /// Permission rule updates, in the CLI's format.
        updated_permissions: Vec<Value>,
    },
    /// The call is denied.
    Deny {
        /// The reason, which the model receives.
        message: String,
        /// Whether the turn is interrupted.
        interrupt: bool,
    },
}

impl PermissionResult {
    /// Allows the call.
    #[must_use]
    pub fn allow() -> Self {
        Self::Allow { updated_input: None, updated_permissions: Vec::new() }
    }

    /// Allows the call with replacement arguments.
    #[must_use]
    pub fn allow_with(input: Value) -> Self {
        Self::Allow { updated_input: Some(input), updated_permissions: Vec::new() }
    }

    /// Denies the call. The model receives the message.
    pub fn deny(message: impl Into<String>) -> Self {
        Self::Deny { message: message.into(), interrupt: false }
    }

    /// Denies the call and interrupts the turn.
    pub fn deny_and_interrupt(message: impl Into<String>) -> Self {
        Self::Deny { message: message.into(), interrupt: true }
    }

    /// Adds permission rule updates; ignored for a denial.
    #[must_use]
    pub fn with_updates(mut self, updates: impl IntoIterator<Item = Value>) -> Self {
        if let Self::Allow { updated_permissions, .. } = &mut self {
            updated_permissions.extend(updates);
        }
        self
    }

    /// The CLI requires an input, even if unchanged.
    pub(super) fn into_json(self, original: Value) -> Value {
        match self {
            Self::Allow { updated_input, updated_permissions } => {
                let mut result = json!({
                    "behavior": "allow",
                    "updatedInput": updated_input.unwrap_or(original),
                });
                if !updated_permissions.is_empty() {
                    result["updatedPermissions"] = json!(updated_permissions);
                }
                result
            }
            Self::Deny { message, interrupt } => {
                let mut result = json!({"behavior": "deny", "message": message});
                if interrupt {
                    result["interrupt"] = Value::Bool(true);
                }
                result
            }
        }
    }
}

lenient_struct! {
    /// A request of an MCP server for input from the user.
    pub struct Elicitation {
        raw,
        /// The server's name.
        mcp_server_name: String = "mcp_server_name",
        /// The message for the user.
        message: String = "message",
        /// `form` or `url`.
        mode: Option<String> = "mode",
        /// The URL to open, in mode `url`.
        url: Option<String> = "url",
        /// The JSON Schema of the input, in mode `form`.
        requested_schema: Option<RawJson> = "requested_schema",
    }
}

/// The response to an [`Elicitation`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ElicitationResponse {
    /// The user's input.
    Accept(Map<String, Value>),
    /// The user declined.
    Decline,
    /// The user cancelled.
    Cancel,
}

impl ElicitationResponse {
    pub(super) fn into_json(self) -> Value {
        match self {
            Self::Accept(content) => json!({"action": "accept", "content": content}),
            Self::Decline => json!({"action": "decline"}),
            Self::Cancel => json!({"action": "cancel"}),
        }
    }
}

lenient_struct! {
    /// A dialog that a session asks the user to answer.
    pub struct UserDialog {
        raw,
        /// The kind, one of those that the host declared.
        dialog_kind: String = "dialog_kind",
        /// The content, whose shape depends on the kind.
        payload: RawJson = "payload",
        /// The ID of the tool call that caused it.
        tool_use_id: Option<String> = "tool_use_id",
    }
}

/// The response to a [`UserDialog`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum DialogResponse {
    /// The user's choice, whose shape depends on the kind.
    Completed(Value),
    /// The user dismissed the dialog.
    Cancelled,
}

impl DialogResponse {
    pub(super) fn into_json(self) -> Value {
        match self {
            Self::Completed(result) => json!({"behavior": "completed", "result": result}),
            Self::Cancelled => json!({"behavior": "cancelled"}),
        }
    }
}
