//! What has to be written down about a running tree so that another process can find it again.

use serde::{Deserialize, Serialize};

/// A process that can't be mistaken for a later one with the same pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub(crate) pid: u32,
    /// In the kernel's own unit since boot (Linux) or since the epoch (elsewhere); only ever compared.
    pub(crate) start: u64,
}

/// What a journal keeps of a running tree, to find it again with [`reap`](crate::reap) after the host died.
///
/// It holds no secret, means nothing on another machine or after a restart, and is read by this crate only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeRecord {
    /// The start of the system, and the PID namespace, in which the numbers below mean something.
    pub(crate) boot: String,
    /// Unique to the tree: the mark in the environment of its processes, and the name of its cgroup.
    pub(crate) id: String,
    pub(crate) leader: Identity,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) shim: Option<Identity>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cgroup: Option<String>,
}

impl TreeRecord {
    pub(crate) fn new(id: String, leader: Identity) -> Self {
        Self { boot: boot(), id, leader, shim: None, cgroup: None }
    }

    /// The pid that the tree's leader had.
    pub fn pid(&self) -> u32 {
        self.leader.pid
    }
}

/// This start of the system and this PID namespace; empty if the system does not tell, which equals nothing.
#[cfg(target_os = "linux")]
pub(crate) fn boot() -> String {
    // Neither changes while a process lives, and every child asks for it.
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

/// A job object needs no finding again.
#[cfg(windows)]
pub(crate) fn boot() -> String {
    "job object".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_a_small_object_and_tolerates_what_a_later_version_adds() {
        let leader = Identity { pid: 7, start: 9 };
        let record = TreeRecord { boot: "b".to_owned(), ..TreeRecord::new("yb-1".to_owned(), leader) };
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(text, r#"{"boot":"b","id":"yb-1","leader":{"pid":7,"start":9}}"#);
        let later = text.replace("\"id\"", "\"color\":1,\"id\"");
        assert_eq!(serde_json::from_str::<TreeRecord>(&later).unwrap(), record);
    }
}
