//! Agent definitions for `--agents`.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value, json};

/// The definition of an agent.
#[derive(Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct AgentDefinition {
    /// When to use the agent; required by the CLI.
    pub description: String,
    /// The system prompt.
    pub prompt: String,
    /// The tools; `None` means all tools.
    pub tools: Option<Vec<String>>,
    /// Tools that are removed.
    pub disallowed_tools: Option<Vec<String>>,
    /// The model: an alias, a full name or `inherit`.
    pub model: Option<String>,
    /// Other fields under the CLI's names: `maxTurns`, `effort`, `permissionMode`, `skills`, …
    pub more: Map<String, Value>,
}

/// Shows only the keys of `more`, which may hold secrets of MCP servers.
impl fmt::Debug for AgentDefinition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("AgentDefinition")
            .field("description", &self.description)
            .field("prompt", &self.prompt)
            .field("tools", &self.tools)
            .field("disallowed_tools", &self.disallowed_tools)
            .field("model", &self.model)
            .field("more", &self.more.keys().collect::<Vec<_>>())
            .finish()
    }
}

impl AgentDefinition {
    /// Creates an agent with all tools and the session's model.
    pub fn new(description: impl Into<String>, prompt: impl Into<String>) -> Self {
        Self { description: description.into(), prompt: prompt.into(), ..Self::default() }
    }

    /// Restricts the agent to these tools.
    #[must_use]
    pub fn with_tools(mut self, tools: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.tools = Some(tools.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the model.
    #[must_use]
    pub fn with_model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// Whether the definition may hold a secret, which must not appear in a process list.
    pub(crate) fn is_private(&self) -> bool {
        self.more.contains_key("mcpServers")
    }

    fn to_json(&self) -> Value {
        let mut map = self.more.clone();
        map.insert("description".to_owned(), json!(self.description));
        map.insert("prompt".to_owned(), json!(self.prompt));
        let lists = [("tools", &self.tools), ("disallowedTools", &self.disallowed_tools)];
        for (key, list) in lists {
            if let Some(list) = list {
                map.insert(key.to_owned(), json!(list));
            }
        }
        if let Some(model) = &self.model {
            map.insert("model".to_owned(), json!(model));
        }
        Value::Object(map)
    }
}

pub(crate) fn config(agents: &BTreeMap<String, AgentDefinition>) -> Value {
    agents.iter().map(|(name, agent)| (name.clone(), agent.to_json())).collect()
}
