//! Pausing, terminating and killing the tree.

#[cfg(target_os = "linux")]
use std::collections::HashSet;
use std::io::Read;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};

use super::{PauseMethod, Shim};
use crate::process_table;
use crate::record::ProcessIdentity;
use crate::{KILL_TIMEOUT, suspend, sys};

/// Interval between kill rounds; doubles while the set of living processes does not change.
const MIN_KILL_INTERVAL: Duration = Duration::from_millis(1);
const MAX_KILL_INTERVAL: Duration = Duration::from_millis(20);

impl Shim {
    pub(super) fn pause(&mut self) {
        if self.paused.is_some() {
            return;
        }
        #[cfg(target_os = "linux")]
        if let Some(cgroup) = self.cgroup.as_ref().filter(|cgroup| cgroup.freeze(true)) {
            cgroup.wait_until_frozen();
            self.paused = Some(PauseMethod::Freezer);
            return;
        }
        self.paused = Some(PauseMethod::Signals(suspend::suspend(&self.tree)));
    }

    pub(super) fn resume(&mut self) {
        match self.paused.take() {
            #[cfg(target_os = "linux")]
            Some(PauseMethod::Freezer) => drop(self.cgroup.as_ref().map(|cgroup| cgroup.freeze(false))),
            Some(PauseMethod::Signals(stopped)) => suspend::resume(stopped),
            None => {}
        }
    }

    pub(super) fn terminate(&mut self) {
        // The group id can't be reused until the leader is reaped, or while the group has members.
        if self.status.is_none() || self.tree.living().iter().any(|process| in_group(*process, self.leader)) {
            let group = self.sandboxed_group().unwrap_or(self.leader);
            let _ = kill_process_group(group, Signal::TERM);
            let _ = kill_process_group(group, Signal::CONT);
        }
        // Last, so that suspended processes see the signal first.
        self.resume();
    }

    /// Returns the process group inside the sandbox. The wrapper can't be signaled, because its death kills
    /// the sandbox. The group leader is the init of the PID namespace, which ignores signals other than
    /// SIGKILL and SIGSTOP.
    fn sandboxed_group(&self) -> Option<Pid> {
        if !self.sandboxed || self.status.is_some() {
            return None;
        }
        let first = self.tree.child_of_leader()?;
        let pid = Pid::from_raw(i32::try_from(first.pid).ok()?)?;
        (in_group(first, pid) && process_table::is_alive(first)).then_some(pid)
    }

    /// Kills repeatedly, because killing a daemon reparents its children to the shim. Returns the pids that
    /// remain.
    pub(super) fn kill_all(&mut self) -> Vec<u32> {
        let deadline = Instant::now() + KILL_TIMEOUT;
        let (mut pause, mut before) = (MIN_KILL_INTERVAL, Vec::new());
        loop {
            #[cfg(target_os = "linux")]
            if let Some(cgroup) = &self.cgroup {
                cgroup.kill();
            }
            // Adopted children first: this is fast enough to outrun a fork bomb.
            #[cfg(target_os = "linux")]
            {
                let mut seen = HashSet::new();
                for _ in 0..100 {
                    if !self.kill_children(&mut seen) {
                        break;
                    }
                }
            }
            // Then descendants of unkillable processes, and processes recognized only by their marker.
            let living = self.tree.kill();
            self.reap();
            if self.is_tree_empty() {
                return Vec::new();
            }
            if Instant::now() > deadline {
                return living.iter().map(|process| process.pid).collect();
            }
            // The shim has raised priority; yield the CPU so that killed processes can exit.
            pause = if living == before { (2 * pause).min(MAX_KILL_INTERVAL) } else { MIN_KILL_INTERVAL };
            before = living;
            let wait = Timespec::try_from(pause).unwrap_or_default();
            let _ = poll(&mut [PollFd::new(&self.child_ended, PollFlags::IN)], Some(&wait));
            while matches!((&self.child_ended).read(&mut [0; 64]), Ok(1..)) {}
        }
    }

    /// Kills all children, including adopted ones. Returns whether a new one was seen. The pids can't be
    /// reused, because only the shim reaps them.
    #[cfg(target_os = "linux")]
    fn kill_children(&mut self, seen: &mut HashSet<Pid>) -> bool {
        let me = std::process::id();
        let children = std::fs::read_to_string(format!("/proc/{me}/task/{me}/children")).unwrap_or_default();
        let children = children.split_ascii_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?));
        let mut any = false;
        for pid in children {
            any |= seen.insert(pid);
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
        self.reap();
        any
    }
}

fn in_group(process: ProcessIdentity, leader: Pid) -> bool {
    sys::group_of(process.pid) == Some(leader.as_raw_nonzero().get())
}
