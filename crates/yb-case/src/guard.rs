//! What a case says about the network and about limits.

use serde::{Deserialize, Serialize};
use yb_model::NetworkMode;
use yb_supervise::HostRule;

use super::check::Checker;
use super::fields::{LIMITS, NETWORK_MODES};
use yb_yaml::{Node, Value};

/// The network of a case.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Network {
    /// What it can connect to.
    pub mode: NetworkMode,
    /// Hosts beside the model's: `example.org`, `example.org:8443`, `*.example.org`.
    pub allow: Vec<String>,
}

impl Network {
    /// A mode, and no more hosts.
    #[must_use]
    pub fn new(mode: NetworkMode) -> Self {
        Self { mode, allow: Vec::new() }
    }

    /// The hosts as rules; what is none was refused when the case was read.
    pub fn rules(&self) -> impl Iterator<Item = HostRule> {
        self.allow.iter().filter_map(|host| host.parse().ok())
    }

    /// Reads `network`, a word or a mapping.
    pub(crate) fn from_node(node: &Node) -> Option<Self> {
        let mode = node.text().or_else(|| node.get("mode")?.text())?;
        let allow = super::hook::texts(node.get("allow"));
        Some(Self { mode: NetworkMode::parse(mode)?, allow })
    }
}

/// Hosts without a mode in which they mean something are a mistake.
pub(super) fn check(node: Option<&Node>, checker: &mut Checker<'_, '_>) {
    let Some(entry) = node.and_then(|node| node.entry("allow")) else { return };
    let mode = node.and_then(|node| node.get("mode")).and_then(Node::text);
    if mode.is_some_and(|mode| mode != NetworkMode::ModelOnly.as_str()) {
        let modes = NETWORK_MODES[1];
        checker
            .found
            .error(entry.key.span, "network.allow", "`allow` means nothing here")
            .expected(format!("`mode: {modes}` beside it"));
    }
}

/// How much a trial may use, as far as somebody says it; zero is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Limits {
    /// Memory of all processes together, in millions of bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u64>,
    /// Processes at the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
    /// CPU time of all processes together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<u64>,
    /// What may be written into the workspace and the private directory, in millions of bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_mb: Option<u64>,
}

impl Limits {
    /// The names, as a case writes them.
    pub fn names() -> impl Iterator<Item = &'static str> {
        LIMITS.fields.iter().map(|field| field.name)
    }

    /// Each name with what was said about it.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, Option<u64>)> {
        Self::names().zip([self.memory_mb, self.processes, self.cpu_seconds, self.disk_mb])
    }

    /// Says one; false if there is no such name.
    pub fn set(&mut self, name: &str, value: u64) -> bool {
        let field = match name {
            "memory_mb" => &mut self.memory_mb,
            "processes" => &mut self.processes,
            "cpu_seconds" => &mut self.cpu_seconds,
            "disk_mb" => &mut self.disk_mb,
            _ => return false,
        };
        *field = Some(value);
        true
    }

    pub(crate) fn from_node(node: Option<&Node>) -> Self {
        let mut limits = Self::default();
        for entry in node.map(Node::entries).unwrap_or_default() {
            if let Value::Int(number) = entry.node.value {
                limits.set(&entry.key.name, u64::try_from(number).unwrap_or(0));
            }
        }
        limits
    }
}
