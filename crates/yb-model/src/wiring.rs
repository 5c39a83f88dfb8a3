//! The add-ons of an execution: what a case declares, whether it was loaded, and how often the agent used it.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kind of an add-on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AddOnKind {
    /// A plugin.
    Plugin,
    /// A skill.
    Skill,
    /// An MCP server.
    McpServer,
    /// The definition of a named agent.
    Agent,
    /// The instruction file.
    Instructions,
}

impl AddOnKind {
    /// The name in messages.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Plugin => "plugin",
            Self::Skill => "skill",
            Self::McpServer => "MCP server",
            Self::Agent => "agent",
            Self::Instructions => "instructions",
        }
    }
}

impl fmt::Display for AddOnKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.label())
    }
}

/// Whether an add-on was loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WiringStatus {
    /// The agent reported it before its first answer, or it was in a model request.
    Proven,
    /// The agent did not load it, or it was in no model request.
    Missing,
    /// Neither the agent nor its model requests show it.
    Unproven,
}

/// An add-on that a case declares.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AddOnRecord {
    /// The kind.
    pub kind: AddOnKind,
    /// The name.
    pub name: String,
    /// The BLAKE3 digest of its files; absent for an add-on without files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Whether it was loaded.
    pub status: WiringStatus,
    /// Why it was not, or why that is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How often the agent used it; absent if that can't be known. Instructions count as used in each trial whose requests have them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uses: Option<u64>,
}

impl AddOnRecord {
    /// An add-on about which nothing is known yet.
    pub fn declared(kind: AddOnKind, name: impl Into<String>) -> Self {
        Self {
            kind,
            name: name.into(),
            digest: None,
            status: WiringStatus::Unproven,
            reason: None,
            uses: None,
        }
    }

    /// Kind and name: ``plugin `greeter` ``.
    #[must_use]
    pub fn label(&self) -> String {
        format!("{} `{}`", self.kind, self.name)
    }
}
