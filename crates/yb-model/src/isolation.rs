//! The isolation that an agent ran under, and the network it could reach.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use yb_supervise::SandboxKind;

/// How an agent is isolated from the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// Not isolated.
    #[default]
    None,
    /// Bubblewrap: separate mount, process and user namespaces.
    Bubblewrap,
    /// Landlock: kernel rules for files, TCP and signals.
    Landlock,
    /// The machine itself is a sandbox, according to the user.
    External,
}

impl Isolation {
    /// Whether the agent runs in a sandbox, including an external one.
    #[must_use]
    pub fn is_sandbox(self) -> bool {
        self != Self::None
    }

    /// The backend of the sandbox; `None` without one or if it is external.
    #[must_use]
    pub fn kind(self) -> Option<SandboxKind> {
        match self {
            Self::Bubblewrap => Some(SandboxKind::Bubblewrap),
            Self::Landlock => Some(SandboxKind::Landlock),
            Self::None | Self::External => None,
        }
    }

    /// Whether system calls are filtered with this isolation on this machine; `None` without a sandbox of ours.
    #[must_use]
    pub fn syscall_filter(self) -> Option<bool> {
        self.kind().map(|kind| kind.probe_syscall_filter().is_ok())
    }

    /// A rank for comparing isolations; an external sandbox is unverified and ranks as none.
    #[must_use]
    pub fn strength(self) -> u8 {
        match self {
            Self::None | Self::External => 0,
            Self::Landlock => 1,
            Self::Bubblewrap => 2,
        }
    }
}

/// Writes the name in case files.
impl fmt::Display for Isolation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::None => "none",
            Self::Bubblewrap => "bubblewrap",
            Self::Landlock => "landlock",
            Self::External => "external",
        })
    }
}

/// The network access of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NetworkMode {
    /// The same as this machine.
    #[default]
    Open,
    /// The model API and explicitly allowed hosts.
    ModelOnly,
    /// No network.
    None,
}

impl NetworkMode {
    /// All modes, least restrictive first.
    pub const ALL: [Self; 3] = [Self::Open, Self::ModelOnly, Self::None];

    /// The name in case files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::ModelOnly => "model-only",
            Self::None => "none",
        }
    }

    /// Parses the name in case files.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == name)
    }
}

impl fmt::Display for NetworkMode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}
