//! Resource limits of a whole tree: memory, processes, CPU time, file size.
#![cfg_attr(windows, expect(dead_code, reason = "limits are not supported on Windows"))]

use std::fmt;
use std::time::Duration;

/// Resource limits of a whole process tree.
///
/// A cgroup controller enforces a limit where one is available. Otherwise the shim samples the tree several
/// times a second and kills it when it exceeds a limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[must_use]
pub struct ResourceLimits {
    pub(crate) memory: Option<u64>,
    pub(crate) processes: Option<u64>,
    pub(crate) cpu: Option<Duration>,
    pub(crate) file_size: Option<u64>,
}

impl ResourceLimits {
    /// Creates an empty set of limits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Limits the memory of the tree in bytes: private memory plus the proportional share of shared memory,
    /// without file cache. Not implemented with RLIMIT_AS, because JavaScript engines reserve far more
    /// address space than they use.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = Some(bytes);
        self
    }

    /// Limits the number of concurrent processes.
    pub fn processes(mut self, number: u64) -> Self {
        self.processes = Some(number);
        self
    }

    /// Limits the total CPU time of the tree.
    pub fn cpu(mut self, time: Duration) -> Self {
        self.cpu = Some(time);
        self
    }

    /// Limits the size of any file that is written (RLIMIT_FSIZE): exceeding it raises SIGXFSZ. Under
    /// bubblewrap at least 256 KiB, because bubblewrap writes the sandbox's own files under the same limit.
    pub fn file_size(mut self, bytes: u64) -> Self {
        self.file_size = Some(bytes);
        self
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A limited resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Resource {
    /// Memory, in bytes.
    Memory,
    /// Concurrent processes.
    Processes,
    /// CPU time, in milliseconds.
    Cpu,
}

impl fmt::Display for Resource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Memory => "memory",
            Self::Processes => "processes",
            Self::Cpu => "CPU time",
        })
    }
}

/// A limit that was exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExceededLimit {
    /// The limited resource.
    pub resource: Resource,
    /// The usage that was measured.
    pub used: u64,
    /// The limit.
    pub limit: u64,
    /// What enforced the limit.
    pub enforced_by: LimitEnforcer,
}

/// What enforces a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitEnforcer {
    /// The kernel, through the tree's cgroup.
    Cgroup,
    /// The shim, by sampling.
    Sampling,
}

impl fmt::Display for ExceededLimit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mb = |bytes: u64| format!("{} MB", bytes.div_ceil(1_000_000));
        let seconds = |millis: u64| format!("{:.1} s", millis as f64 / 1000.0);
        let (what, used, limit) = match self.resource {
            Resource::Memory => ("memory", mb(self.used), mb(self.limit)),
            Resource::Processes => ("process", self.used.to_string(), self.limit.to_string()),
            Resource::Cpu => ("CPU time", seconds(self.used), seconds(self.limit)),
        };
        let how = match self.enforced_by {
            LimitEnforcer::Cgroup => "enforced by cgroup",
            LimitEnforcer::Sampling => "found by sampling",
        };
        write!(formatter, "{what} limit exceeded: {used} (maximum {limit}, {how})")
    }
}
