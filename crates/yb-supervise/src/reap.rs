//! Ends what a dead host left, from the record that it had written down.

use crate::record::TreeRecord;

/// What [`reap`] found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reaped {
    /// How many processes of the tree, its shim among them, were still alive and were killed.
    pub killed: usize,
    /// Those that SIGKILL did not end in time (they hang in the kernel), by pid.
    pub left: Vec<u32>,
    /// The record is of another machine, of before a restart or of another PID namespace: nothing of it can be alive
    /// or be seen here, and nothing was touched.
    pub elsewhere: bool,
}

/// Ends whatever is left of a tree whose host died, and nothing else; returns within three seconds.
///
/// Call it only when the host is known to be dead, for instance because its lock is free: a tree that is still owned
/// would be killed under its owner. Blocks: in async code it belongs on a thread that may.
///
/// Found are: all members of the tree's cgroup; all that hangs below a shim that is still there, stopped ones too;
/// the leader with its session, group and descendants; and all whose environment carries the tree's mark, with their
/// descendants. Without a cgroup and with the shim killed, a daemon that left its session *and* cleaned its
/// environment is not found.
pub fn reap(record: &TreeRecord) -> Reaped {
    if record.boot.is_empty() || record.boot != crate::record::boot() {
        return Reaped { elsewhere: true, ..Reaped::default() };
    }
    platform::reap(record)
}

#[cfg(unix)]
mod platform {
    use std::collections::HashSet;
    use std::time::{Duration, Instant};

    use rustix::process::Signal;

    use super::Reaped;
    #[cfg(target_os = "linux")]
    use crate::cgroup::Cgroup;
    use crate::record::{Identity, TreeRecord};
    use crate::table::{self, Tree};
    use crate::{KILL_LIMIT, env};

    pub(super) fn reap(record: &TreeRecord) -> Reaped {
        let mut killed = HashSet::new();
        // As long as the shim is there, orphans hang below it and can be known by that alone: it goes last.
        let shim = record.shim.filter(|shim| table::lives(*shim));
        let mut left = sweep(record, shim, &mut killed);
        if let Some(shim) = shim {
            // A shim that was not stopped does all this by itself, and is gone by now.
            if table::lives(shim) {
                killed.insert(shim);
                table::signal(shim, Signal::KILL);
            }
            left = sweep(record, None, &mut killed);
        }
        Reaped { killed: killed.len(), left, elsewhere: false }
    }

    /// Kills until nothing of the tree is seen; returns what is, at the end.
    fn sweep(record: &TreeRecord, below: Option<Identity>, killed: &mut HashSet<Identity>) -> Vec<u32> {
        let marker = Some(env::marker(&record.id));
        let tree = Tree { born: None, below, leader: Some(record.leader), marker };
        #[cfg(target_os = "linux")]
        let cgroup = adopt(record);
        let limit = Instant::now() + KILL_LIMIT;
        let left = loop {
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
            let left: Vec<u32> = living.into_iter().map(|process| process.pid).collect();
            #[cfg(target_os = "linux")]
            let left = [left, members].concat();
            if left.is_empty() || Instant::now() > limit {
                break left;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        #[cfg(target_os = "linux")]
        if let Some(cgroup) = cgroup.filter(|_| left.is_empty()) {
            cgroup.remove();
        }
        left.into_iter().collect::<HashSet<_>>().into_iter().collect()
    }

    #[cfg(target_os = "linux")]
    fn identity(pid: u32) -> Option<Identity> {
        Some(Identity { pid, start: table::start_time(pid)? })
    }

    /// The tree's own cgroup. Its name is unique to the tree; a record that names another is not believed.
    #[cfg(target_os = "linux")]
    fn adopt(record: &TreeRecord) -> Option<Cgroup> {
        let path = std::path::Path::new(record.cgroup.as_deref()?);
        let is_its_own = record.id.starts_with("yb-") && path.file_name()? == record.id.as_str();
        is_its_own.then(|| Cgroup::adopt(path).ok())?
    }
}

#[cfg(windows)]
mod platform {
    use super::Reaped;
    use crate::record::TreeRecord;

    /// A job object ends its tree when the last handle closes, which the host's death does.
    pub(super) fn reap(_: &TreeRecord) -> Reaped {
        Reaped::default()
    }
}
