//! What hooks answer: what all of them may say, and what belongs to one event.

use serde::Serialize;
use serde_json::{Map, Value, json};

/// What a hook answers.
pub trait HookOutput: Send + 'static {
    /// In the CLI's form; nothing to say is `{}`.
    fn into_json(self, event: &'static str) -> Value;
}

/// About a tool, or a change of model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Decision {
    /// Without asking anybody.
    Allow,
    /// Not at all.
    Deny,
    /// Whoever decides about permissions.
    Ask,
    /// Later: the run ends with the call open.
    Defer,
}

/// What every hook may say.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Common {
    pub(super) fields: Map<String, Value>,
}

impl Common {
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
