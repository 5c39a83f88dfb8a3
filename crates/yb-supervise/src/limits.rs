//! What a whole tree may use: memory, processes, CPU time, the size of a file.
#![cfg_attr(windows, expect(dead_code, reason = "nothing looks at a job object yet"))]

use std::fmt;
use std::time::Duration;

/// What a child and all that it starts may use together. Where the kernel gives the tree a cgroup with the controller
/// for it, that holds the limit; elsewhere the tree is looked at several times a second, and ended when it is over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[must_use]
pub struct ResourceLimits {
    pub(crate) memory: Option<u64>,
    pub(crate) processes: Option<u64>,
    pub(crate) cpu: Option<Duration>,
    pub(crate) file_size: Option<u64>,
}

impl ResourceLimits {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes of memory: what is theirs, and their share of what they share with each other. Files that are only read
    /// don't count. Never by RLIMIT_AS: a JavaScript engine reserves fifty times of what it uses.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = Some(bytes);
        self
    }

    /// Processes at the same time.
    pub fn processes(mut self, number: u64) -> Self {
        self.processes = Some(number);
        self
    }

    /// CPU time of all together.
    pub fn cpu(mut self, time: Duration) -> Self {
        self.cpu = Some(time);
        self
    }

    /// The largest file that can be written, by RLIMIT_FSIZE; who goes on writing gets SIGXFSZ. In bubblewrap at least 256
    /// KiB, which its own files may have.
    pub fn file_size(mut self, bytes: u64) -> Self {
        self.file_size = Some(bytes);
        self
    }

    pub(crate) fn are_none(&self) -> bool {
        *self == Self::default()
    }
}

/// Something that is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Resource {
    /// Bytes.
    Memory,
    /// How many.
    Processes,
    /// Milliseconds.
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

/// A limit that was passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct OverLimit {
    /// Which.
    pub resource: Resource,
    /// What was used when that was seen.
    pub used: u64,
    /// What was allowed.
    pub limit: u64,
    /// Who held the limit.
    pub held_by: HeldBy,
}

/// Who holds a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeldBy {
    /// The kernel, for the tree's cgroup.
    Cgroup,
    /// The shim, which looks several times a second.
    Sampling,
}

impl fmt::Display for OverLimit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mb = |bytes: u64| format!("{} MB", bytes.div_ceil(1_000_000));
        let seconds = |millis: u64| format!("{:.1} s", millis as f64 / 1000.0);
        let what = self.resource;
        let (used, limit) = match what {
            Resource::Memory => (mb(self.used), mb(self.limit)),
            Resource::Processes => (self.used.to_string(), self.limit.to_string()),
            Resource::Cpu => (seconds(self.used), seconds(self.limit)),
        };
        let how = match self.held_by {
            HeldBy::Cgroup => "held by its cgroup",
            HeldBy::Sampling => "found by looking",
        };
        write!(formatter, "over its limit of {what}: {used}, allowed are {limit} ({how})")
    }
}
