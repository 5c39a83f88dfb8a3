//! Looks several times a second at what the tree uses.

use std::fs;
use std::time::{Duration, Instant};

use crate::cgroup::Cgroup;
use crate::limits::{HeldBy, OverLimit, Resource, ResourceLimits};
use crate::sys;
use crate::table::Tree;

/// How often to look, at the most.
const INTERVAL: Duration = Duration::from_millis(100);
/// How much of its time the shim spends on looking, at the most: one part of so many.
const SHARE_OF_TIME: u32 = 10;
/// The kernel counts CPU time in hundredths of a second, whatever its own clock does.
const TICK_MS: u64 = 10;

pub(super) struct Meter {
    limits: ResourceLimits,
    /// Processes that only make the sandbox.
    own: u64,
    due: Instant,
}

impl Meter {
    pub(super) fn new(limits: ResourceLimits, sandboxed: bool) -> Self {
        Self { limits, own: if sandboxed { 2 } else { 0 }, due: Instant::now() }
    }

    /// How long until the next look; none is needed without limits.
    pub(super) fn wait(&self) -> Option<Duration> {
        let watched =
            self.limits.memory.is_some() || self.limits.processes.is_some() || self.limits.cpu.is_some();
        watched.then(|| self.due.saturating_duration_since(Instant::now()))
    }

    /// Looks, if it is time to.
    pub(super) fn look(&mut self, tree: &Tree, cgroup: Option<&Cgroup>) -> Option<OverLimit> {
        if !self.wait()?.is_zero() {
            return None;
        }
        let began = Instant::now();
        let over = self.over(tree, cgroup);
        self.due = Instant::now() + INTERVAL.max(began.elapsed() * SHARE_OF_TIME);
        over
    }

    /// What the kernel held, as far as it can tell afterwards.
    pub(super) fn held(&self, cgroup: Option<&Cgroup>) -> Option<OverLimit> {
        cgroup.and_then(|cgroup| cgroup.over(&self.limits))
    }

    /// What is over its limit now.
    fn over(&self, tree: &Tree, cgroup: Option<&Cgroup>) -> Option<OverLimit> {
        let sampled = |resource, used, limit| {
            (used > limit).then_some(OverLimit { resource, used, limit, held_by: HeldBy::Sampling })
        };
        if let Some(over) = self.held(cgroup) {
            return Some(over);
        }
        let pids = match cgroup {
            Some(cgroup) => cgroup.members(),
            None => tree.living().into_iter().map(|process| process.pid).collect(),
        };
        let count = (pids.len() as u64).saturating_sub(self.own);
        if let Some(over) = self.limits.processes.and_then(|limit| sampled(Resource::Processes, count, limit))
        {
            return Some(over);
        }
        if let Some(limit) = self.limits.memory {
            // What is cheap to know is at least what is exact.
            let roughly: u64 = pids.iter().map(|pid| resident(*pid)).sum();
            if roughly > limit {
                let exactly =
                    pids.iter().map(|pid| proportional(*pid).unwrap_or_else(|| resident(*pid))).sum();
                if let Some(over) = sampled(Resource::Memory, exactly, limit) {
                    return Some(over);
                }
            }
        }
        let limit = u64::try_from(self.limits.cpu?.as_millis()).unwrap_or(u64::MAX);
        let used = match cgroup.and_then(Cgroup::cpu) {
            Some((user, system)) => millis(user + system),
            None => {
                let waited = sys::waited_children_usage();
                millis(waited.user + waited.system) + pids.iter().map(|pid| cpu(*pid)).sum::<u64>()
            }
        };
        sampled(Resource::Cpu, used, limit)
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// A field in kB of a file that has one in each line.
fn kilobytes(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    line.trim().trim_end_matches("kB").trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

/// What a process has in memory that is no file; what it shares with its parent is counted in both.
fn resident(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    ["RssAnon", "RssShmem"].iter().filter_map(|key| kilobytes(&text, key)).sum()
}

/// The same with its share of what is shared. The kernel walks all of its pages for this.
fn proportional(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    Some(kilobytes(&text, "Pss_Anon")? + kilobytes(&text, "Pss_Shmem").unwrap_or(0))
}

/// CPU time of a process and of those that it waited for, in milliseconds.
fn cpu(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = text.rsplit_once(") ").map(|(_, rest)| rest.split_ascii_whitespace().skip(11).take(4));
    fields.into_iter().flatten().filter_map(|field| field.parse::<u64>().ok()).sum::<u64>() * TICK_MS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_memory_and_its_share_is_no_more() {
        let me = std::process::id();
        let (roughly, exactly) = (resident(me), proportional(me).unwrap());
        assert!(roughly > 0 && exactly <= roughly + (1 << 20), "{roughly} {exactly}");
    }
}
