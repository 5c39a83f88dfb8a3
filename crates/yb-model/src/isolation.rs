//! The isolation that an agent ran under, and the network it could reach.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use yb_supervise::SandboxKind;

/// What stands between an agent and the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// Nothing.
    #[default]
    None,
    /// Bubblewrap: a file system, processes and a user of its own.
    Bubblewrap,
    /// Landlock: files, TCP and signals by rules of the kernel.
    Landlock,
    /// The machine itself is the sandbox: the user said so.
    External,
}

impl Isolation {
    /// Whether the agent is in a sandbox, ours or the user's.
    #[must_use]
    pub fn is_sandbox(self) -> bool {
        self != Self::None
    }

    /// What makes the sandbox, if there is one of ours.
    #[must_use]
    pub fn kind(self) -> Option<SandboxKind> {
        match self {
            Self::Bubblewrap => Some(SandboxKind::Bubblewrap),
            Self::Landlock => Some(SandboxKind::Landlock),
            Self::None | Self::External => None,
        }
    }

    /// How much it stops; what the user vouches for is nothing that we know of.
    #[must_use]
    pub fn strength(self) -> u8 {
        match self {
            Self::None | Self::External => 0,
            Self::Landlock => 1,
            Self::Bubblewrap => 2,
        }
    }
}

/// As a case writes it.
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

/// What an agent can connect to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NetworkMode {
    /// What this machine can.
    #[default]
    Open,
    /// Its model's API, and hosts that are named.
    ModelOnly,
    /// Nothing.
    None,
}

impl NetworkMode {
    /// All of them, the widest first.
    pub const ALL: [Self; 3] = [Self::Open, Self::ModelOnly, Self::None];

    /// As a case writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::ModelOnly => "model-only",
            Self::None => "none",
        }
    }

    /// From the word of a case.
    #[must_use]
    pub fn read(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == word)
    }
}

impl fmt::Display for NetworkMode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}
