//! Kills what a dead host left behind, using its persisted record.

use crate::record::TreeRecord;

/// The result of [`reap`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReapReport {
    /// Number of processes that were still alive and were killed, including the shim.
    pub killed: usize,
    /// Pids of processes that SIGKILL did not end in time, because they hang in the kernel.
    pub unkillable: Vec<u32>,
    /// The record is from another machine, boot or PID namespace. Nothing of the tree can be alive or visible
    /// here, and nothing was signaled.
    pub elsewhere: bool,
}

/// Kills every remaining process of a tree whose host died. Returns within three seconds.
///
/// Call it only when the host is known to be dead, for instance because its lock is free: it would also kill
/// a tree that still has an owner. The function blocks; async code should call it through `spawn_blocking`.
///
/// It finds the members of the tree's cgroup; all descendants of a surviving shim, even a stopped one; the
/// leader with its session, process group and descendants; and all processes whose environment has the tree's
/// marker, with their descendants. Without a cgroup, and with the shim killed, it does not find a daemon that
/// left its session *and* cleared its environment.
pub fn reap(record: &TreeRecord) -> ReapReport {
    if record.boot.is_empty() || record.boot != crate::record::boot() {
        return ReapReport { elsewhere: true, ..ReapReport::default() };
    }
    platform::reap(record)
}

#[cfg(unix)]
mod platform {
    use std::collections::HashSet;
    use std::time::{Duration, Instant};

    use rustix::process::Signal;

    use super::ReapReport;
    #[cfg(target_os = "linux")]
    use crate::cgroup::Cgroup;
    use crate::process_table::{self, ProcessTree};
    use crate::record::{ProcessIdentity, TreeRecord};
    use crate::{KILL_TIMEOUT, env};

    pub(super) fn reap(record: &TreeRecord) -> ReapReport {
        let mut killed = HashSet::new();
        // Kill the shim last: while it is alive, orphans are its descendants and can be found that way.
        let shim = record.shim.filter(|shim| process_table::is_alive(*shim));
        let mut unkillable = sweep(record, shim, &mut killed);
        if let Some(shim) = shim {
            // A shim that was not stopped kills the tree by itself and is gone by now.
            if process_table::is_alive(shim) {
                killed.insert(shim);
                process_table::signal(shim, Signal::KILL);
            }
            unkillable = sweep(record, None, &mut killed);
        }
        ReapReport { killed: killed.len(), unkillable, elsewhere: false }
    }

    /// Kills repeatedly until no process of the tree is found. Returns the pids that remain.
    fn sweep(
        record: &TreeRecord,
        below: Option<ProcessIdentity>,
        killed: &mut HashSet<ProcessIdentity>,
    ) -> Vec<u32> {
        let marker = Some(env::marker(&record.id));
        let tree = ProcessTree { born: None, below, leader: Some(record.leader), marker };
        #[cfg(target_os = "linux")]
        let cgroup = adopt(record);
        let deadline = Instant::now() + KILL_TIMEOUT;
        let remaining = loop {
            #[cfg(target_os = "linux")]
            let members = cgroup.as_ref().map_or_else(Vec::new, |cgroup| {
                let members = cgroup.members();
                let known = members.iter().filter_map(|pid| identity(*pid));
                killed.extend(known);
                cgroup.kill();
                members
            });
            let living = tree.kill();
            killed.extend(&living);
            let remaining: Vec<u32> = living.into_iter().map(|process| process.pid).collect();
            #[cfg(target_os = "linux")]
            let remaining = [remaining, members].concat();
            if remaining.is_empty() || Instant::now() > deadline {
                break remaining;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        #[cfg(target_os = "linux")]
        if let Some(cgroup) = cgroup.filter(|_| remaining.is_empty()) {
            cgroup.remove();
        }
        remaining.into_iter().collect::<HashSet<_>>().into_iter().collect()
    }

    #[cfg(target_os = "linux")]
    fn identity(pid: u32) -> Option<ProcessIdentity> {
        Some(ProcessIdentity { pid, start: process_table::start_time(pid)? })
    }

    /// Returns the tree's cgroup. Its name is unique to the tree; a record with any other name is not
    /// trusted.
    #[cfg(target_os = "linux")]
    fn adopt(record: &TreeRecord) -> Option<Cgroup> {
        let path = std::path::Path::new(record.cgroup.as_deref()?);
        let is_its_own = record.id.starts_with("yb-") && path.file_name()? == record.id.as_str();
        is_its_own.then(|| Cgroup::adopt(path).ok())?
    }
}

#[cfg(windows)]
mod platform {
    use super::ReapReport;
    use crate::record::TreeRecord;

    /// A job object kills its tree when the last handle closes, which happens when the host dies.
    pub(super) fn reap(_: &TreeRecord) -> ReapReport {
        ReapReport::default()
    }
}
