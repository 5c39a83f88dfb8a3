//! Hook outputs: fields common to all events.

use serde::Serialize;
use serde_json::{Map, Value, json};

/// The output of a hook.
pub trait HookOutput: Send + 'static {
    /// Converts to the CLI's format; an empty output is `{}`.
    fn into_json(self, event: &'static str) -> Value;
}

/// A permission decision about a tool call or a model switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum PermissionDecision {
    /// Allows without a permission request.
    Allow,
    /// Denies.
    Deny,
    /// Requests a permission decision.
    Ask,
    /// Defers: the run ends with the call pending.
    Defer,
}

/// The output fields that all events share.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct CommonHookFields {
    pub(super) fields: Map<String, Value>,
}

impl CommonHookFields {
    pub(super) fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.fields.insert(key.to_owned(), value.into());
    }

    pub(super) fn into_json(self, event: &'static str, mut specific: Map<String, Value>) -> Value {
        let mut fields = self.fields;
        if !specific.is_empty() {
            specific.insert("hookEventName".to_owned(), json!(event));
            fields.insert("hookSpecificOutput".to_owned(), Value::Object(specific));
        }
        Value::Object(fields)
    }
}
