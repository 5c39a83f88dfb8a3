//! Samples the resource usage of the tree several times a second.

use std::fs;
use std::time::{Duration, Instant};

use crate::cgroup::Cgroup;
use crate::limits::{ExceededLimit, LimitEnforcer, Resource, ResourceLimits};
use crate::process_table::ProcessTree;
use crate::sys;

/// Minimum interval between samples.
const MIN_INTERVAL: Duration = Duration::from_millis(100);
/// The interval is at least this many times the duration of the last sample.
const IDLE_FACTOR: u32 = 10;
/// The kernel reports CPU time in units of 10 ms, independently of its own clock.
const TICK_MS: u64 = 10;

pub(super) struct UsageMeter {
    limits: ResourceLimits,
    /// Number of processes that belong to the sandbox wrapper.
    sandbox_processes: u64,
    due: Instant,
}

impl UsageMeter {
    pub(super) fn new(limits: ResourceLimits, sandboxed: bool) -> Self {
        Self { limits, sandbox_processes: if sandboxed { 2 } else { 0 }, due: Instant::now() }
    }

    /// Returns the time until the next sample; `None` without limits.
    pub(super) fn until_next_sample(&self) -> Option<Duration> {
        let watched =
            self.limits.memory.is_some() || self.limits.processes.is_some() || self.limits.cpu.is_some();
        watched.then(|| self.due.saturating_duration_since(Instant::now()))
    }

    /// Takes a sample if one is due.
    pub(super) fn sample(&mut self, tree: &ProcessTree, cgroup: Option<&Cgroup>) -> Option<ExceededLimit> {
        if !self.until_next_sample()?.is_zero() {
            return None;
        }
        let started = Instant::now();
        let exceeded = self.check(tree, cgroup);
        self.due = Instant::now() + MIN_INTERVAL.max(started.elapsed() * IDLE_FACTOR);
        exceeded
    }

    /// Returns the limit that the kernel enforced, if any.
    pub(super) fn kernel_enforced(&self, cgroup: Option<&Cgroup>) -> Option<ExceededLimit> {
        cgroup.and_then(|cgroup| cgroup.exceeded(&self.limits))
    }

    /// Returns a limit that is currently exceeded.
    fn check(&self, tree: &ProcessTree, cgroup: Option<&Cgroup>) -> Option<ExceededLimit> {
        let sampled = |resource, used, limit| {
            (used > limit).then_some(ExceededLimit {
                resource,
                used,
                limit,
                enforced_by: LimitEnforcer::Sampling,
            })
        };
        if let Some(exceeded) = self.kernel_enforced(cgroup) {
            return Some(exceeded);
        }
        let pids = match cgroup {
            Some(cgroup) => cgroup.members(),
            None => tree.living().into_iter().map(|process| process.pid).collect(),
        };
        let count = (pids.len() as u64).saturating_sub(self.sandbox_processes);
        if let Some(exceeded) =
            self.limits.processes.and_then(|limit| sampled(Resource::Processes, count, limit))
        {
            return Some(exceeded);
        }
        if let Some(limit) = self.limits.memory {
            // RSS is cheap to read and an upper bound of the proportional set size.
            let upper_bound: u64 = pids.iter().map(|pid| resident(*pid)).sum();
            if upper_bound > limit {
                let exact = pids.iter().map(|pid| proportional(*pid).unwrap_or_else(|| resident(*pid))).sum();
                if let Some(exceeded) = sampled(Resource::Memory, exact, limit) {
                    return Some(exceeded);
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

/// Parses a field in kB from a file with one field per line.
fn kilobytes(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    line.trim().trim_end_matches("kB").trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Returns the anonymous and shared memory of a process; pages shared between processes count in each.
fn resident(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    ["RssAnon", "RssShmem"].iter().filter_map(|key| kilobytes(&text, key)).sum()
}

/// Like [`resident`], with a proportional share of shared pages. Expensive: the kernel walks all pages.
fn proportional(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    Some(kilobytes(&text, "Pss_Anon")? + kilobytes(&text, "Pss_Shmem").unwrap_or(0))
}

/// Returns the CPU time of a process and its reaped children, in milliseconds.
fn cpu(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = text.rsplit_once(") ").map(|(_, rest)| rest.split_ascii_whitespace().skip(11).take(4));
    fields.into_iter().flatten().filter_map(|field| field.parse::<u64>().ok()).sum::<u64>() * TICK_MS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proportional_memory_is_at_most_resident_memory() {
        let me = std::process::id();
        let (upper_bound, exact) = (resident(me), proportional(me).unwrap());
        assert!(upper_bound > 0 && exact <= upper_bound + (1 << 20), "{upper_bound} {exact}");
    }
}
