//! The definition of an agent, as the JSON that `--agents` takes.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value, json};

/// What an agent is.
#[derive(Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct AgentDefinition {
    /// When to use it; the CLI insists on one.
    pub description: String,
    /// Its system prompt.
    pub prompt: String,
    /// Its tools; all of them, unless it says.
    pub tools: Option<Vec<String>>,
    /// Tools that it has not.
    pub disallowed_tools: Option<Vec<String>>,
    /// Its model: an alias, a full name or `inherit`.
    pub model: Option<String>,
    /// Anything else that the CLI knows, under the CLI's names: `maxTurns`, `effort`, `permissionMode`, `skills`, …
    pub more: Map<String, Value>,
}

/// What is in `more` may hold the variables of MCP servers; only its keys are shown.
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
    /// An agent with all tools and the model of the session.
    pub fn new(description: impl Into<String>, prompt: impl Into<String>) -> Self {
        Self { description: description.into(), prompt: prompt.into(), ..Self::default() }
    }

    /// The same with these tools and no others.
    #[must_use]
    pub fn with_tools(mut self, tools: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.tools = Some(tools.into_iter().map(Into::into).collect());
        self
    }

    /// The same with this model.
    #[must_use]
    pub fn with_model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// Whether it may hold a secret, which must not be seen in a list of processes.
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
