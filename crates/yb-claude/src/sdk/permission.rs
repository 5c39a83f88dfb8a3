//! Who may do what: the question whether a tool may be used, and questions that an MCP server has for the user.

use serde_json::{Map, Value, json};

use crate::RawJson;
use crate::frame::lax::lax_struct;

lax_struct! {
    /// May this tool be used so?
    pub struct ToolRequest {
        raw,
        /// The tool.
        tool_name: String = "tool_name",
        /// Its arguments.
        input: RawJson = "input",
        /// The call.
        tool_use_id: Option<String> = "tool_use_id",
        /// The subagent that wants it; none for the main thread.
        agent_id: Option<String> = "agent_id",
        /// What it does, in words.
        description: Option<String> = "description",
        /// What the question could be answered with for good: objects for [`Permission::with_updates`].
        suggestions: Vec<RawJson> = "permission_suggestions",
        /// The path that is out of bounds.
        blocked_path: Option<String> = "blocked_path",
        /// Why it is asked.
        decision_reason: Option<String> = "decision_reason",
    }
}

/// The answer to a [`ToolRequest`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Permission {
    /// It may.
    Allow {
        /// Other arguments than the model gave.
        updated_input: Option<Value>,
        /// Rules that change with it, in the CLI's form.
        updated_permissions: Vec<Value>,
    },
    /// It may not.
    Deny {
        /// Why, which is told to the model.
        message: String,
        /// Whether the turn ends with it.
        interrupt: bool,
    },
}

impl Permission {
    /// It may, as it is.
    #[must_use]
    pub fn allow() -> Self {
        Self::Allow { updated_input: None, updated_permissions: Vec::new() }
    }

    /// It may, with other arguments.
    #[must_use]
    pub fn allow_with(input: Value) -> Self {
        Self::Allow { updated_input: Some(input), updated_permissions: Vec::new() }
    }

    /// It may not; the model is told why.
    pub fn deny(message: impl Into<String>) -> Self {
        Self::Deny { message: message.into(), interrupt: false }
    }

    /// It may not, and the turn ends.
    pub fn deny_and_stop(message: impl Into<String>) -> Self {
        Self::Deny { message: message.into(), interrupt: true }
    }

    /// The same, with rules for the future; only an allowance has them.
    #[must_use]
    pub fn with_updates(mut self, updates: impl IntoIterator<Item = Value>) -> Self {
        if let Self::Allow { updated_permissions, .. } = &mut self {
            updated_permissions.extend(updates);
        }
        self
    }

    /// The CLI insists on an input, also on the one that it sent.
    pub(super) fn into_json(self, original: Value) -> Value {
        match self {
            Self::Allow { updated_input, updated_permissions } => {
                let mut answer = json!({
                    "behavior": "allow",
                    "updatedInput": updated_input.unwrap_or(original),
                });
                if !updated_permissions.is_empty() {
                    answer["updatedPermissions"] = json!(updated_permissions);
                }
                answer
            }
            Self::Deny { message, interrupt } => {
                let mut answer = json!({"behavior": "deny", "message": message});
                if interrupt {
                    answer["interrupt"] = Value::Bool(true);
                }
                answer
            }
        }
    }
}

lax_struct! {
    /// An MCP server wants to know something from the user.
    pub struct Elicitation {
        raw,
        /// Which server.
        mcp_server_name: String = "mcp_server_name",
        /// What it asks.
        message: String = "message",
        /// `form` or `url`.
        mode: Option<String> = "mode",
        /// Where the user has to go, in mode `url`.
        url: Option<String> = "url",
        /// The shape of the answer, in mode `form`.
        requested_schema: Option<RawJson> = "requested_schema",
    }
}

/// The answer to an [`Elicitation`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ElicitationAnswer {
    /// The user says this.
    Accept(Map<String, Value>),
    /// The user does not want to say.
    Decline,
    /// The user turned away.
    Cancel,
}

impl ElicitationAnswer {
    pub(super) fn into_json(self) -> Value {
        match self {
            Self::Accept(content) => json!({"action": "accept", "content": content}),
            Self::Decline => json!({"action": "decline"}),
            Self::Cancel => json!({"action": "cancel"}),
        }
    }
}
