//! The persisted record of a running tree, with which another process can find it.

use serde::{Deserialize, Serialize};

/// A process identity that survives pid reuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct ProcessIdentity {
    pub(crate) pid: u32,
    /// In kernel units since boot (Linux), a hash elsewhere; only compared for equality and order.
    pub(crate) start: u64,
}

/// A record of a running tree, to find it with [`reap`](crate::reap) after the host died.
///
/// It contains no secrets and is only valid on this machine until the next boot. The serialized form is
/// private to this crate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeRecord {
    /// The boot and PID namespace in which the pids are valid.
    pub(crate) boot: String,
    /// Unique id of the tree: the marker in the environment of its processes, and the name of its cgroup.
    pub(crate) id: String,
    pub(crate) leader: ProcessIdentity,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) shim: Option<ProcessIdentity>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cgroup: Option<String>,
}

impl TreeRecord {
    pub(crate) fn new(id: String, leader: ProcessIdentity) -> Self {
        Self { boot: boot(), id, leader, shim: None, cgroup: None }
    }

    /// Returns the pid of the tree's leader.
    pub fn pid(&self) -> u32 {
        self.leader.pid
    }
}

/// Returns an id of this boot and PID namespace; empty if unknown, which never matches.
#[cfg(target_os = "linux")]
pub(crate) fn boot() -> String {
    // Constant for the life of the process, and needed for every child.
    static BOOT: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    let boot = BOOT.get_or_init(|| {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        if boot.is_empty() { boot } else { format!("{} {}", boot.trim(), namespace.display()) }
    });
    boot.clone()
}

#[cfg(all(unix, not(target_os = "linux")))]
pub(crate) fn boot() -> String {
    crate::sys::boot_session().unwrap_or_default()
}

/// Job objects need no record.
#[cfg(windows)]
pub(crate) fn boot() -> String {
    "job object".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tree_record_ignores_unknown_fields() {
        let leader = ProcessIdentity { pid: 7, start: 9 };
        let record = TreeRecord { boot: "b".to_owned(), ..TreeRecord::new("yb-1".to_owned(), leader) };
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(text, r#"{"boot":"b","id":"yb-1","leader":{"pid":7,"start":9}}"#);
        let later = text.replace("\"id\"", "\"color\":1,\"id\"");
        assert_eq!(serde_json::from_str::<TreeRecord>(&later).unwrap(), record);
    }
}
