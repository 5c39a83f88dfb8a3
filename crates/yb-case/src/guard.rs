//! Network access and resource limits of a case.

use serde::{Deserialize, Serialize};
use yb_model::NetworkMode;
use yb_supervise::HostRule;

use super::check::Checker;
use super::fields::{LIMITS, NETWORK_MODES};
use yb_yaml::{Node, Value};

/// The network access of a case.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Network {
    /// The mode.
    pub mode: NetworkMode,
    /// Additional hosts: `example.org`, `example.org:8443`, `*.example.org`.
    pub allow: Vec<String>,
}

impl Network {
    /// Creates a network mode without additional hosts.
    #[must_use]
    pub fn new(mode: NetworkMode) -> Self {
        Self { mode, allow: Vec::new() }
    }

    /// Returns the hosts as rules. They were validated when the case was loaded.
    pub fn rules(&self) -> impl Iterator<Item = HostRule> {
        self.allow.iter().filter_map(|host| host.parse().ok())
    }

    /// Reads `network`: a mode or a mapping.
    pub(crate) fn from_node(node: &Node) -> Option<Self> {
        let mode = node.text().or_else(|| node.get("mode")?.text())?;
        let allow = super::hook::texts(node.get("allow"));
        Some(Self { mode: NetworkMode::parse(mode)?, allow })
    }
}

/// Reports hosts with a mode that ignores them.
pub(super) fn check(node: Option<&Node>, checker: &mut Checker<'_, '_>) {
    let Some(entry) = node.and_then(|node| node.entry("allow")) else { return };
    let mode = node.and_then(|node| node.get("mode")).and_then(Node::text);
    if mode.is_some_and(|mode| mode != NetworkMode::ModelOnly.as_str()) {
        let modes = NETWORK_MODES[1];
        checker
            .found
            .error(entry.key.span, "network.allow", "`allow` has no effect with this mode")
            .expected(format!("`mode: {modes}`"));
    }
}

/// The resource limits of a trial, as far as they are set; zero means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TrialLimits {
    /// Memory of all processes together, in MB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u64>,
    /// Number of concurrent processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
    /// CPU time of all processes together, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<u64>,
    /// Disk usage of the workspace and the private directory, in MB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_mb: Option<u64>,
}

impl TrialLimits {
    /// Returns the names of the limits in case files.
    pub fn names() -> impl Iterator<Item = &'static str> {
        LIMITS.fields.iter().map(|field| field.name)
    }

    /// Returns the names with their values.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, Option<u64>)> {
        Self::names().zip([self.memory_mb, self.processes, self.cpu_seconds, self.disk_mb])
    }

    /// Sets a limit; returns `false` for an unknown name.
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
