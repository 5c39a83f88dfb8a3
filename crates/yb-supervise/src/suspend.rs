//! Suspends all processes of a tree by signals, for trees without a cgroup freezer.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::process_table::{self, ProcessTree};
use crate::record::ProcessIdentity;

/// How long stopping is retried. A process that hangs in the kernel stops when it returns from there.
const SUSPEND_TIMEOUT: Duration = Duration::from_millis(500);

/// Stops every process of the tree, including those started meanwhile, and returns the processes to resume.
/// Processes that were already stopped are not included.
pub(crate) fn suspend(tree: &ProcessTree) -> Vec<ProcessIdentity> {
    let deadline = Instant::now() + SUSPEND_TIMEOUT;
    let mut stopped = Vec::new();
    loop {
        // Oldest first, so that a parent does not observe its child being stopped.
        let mut running = tree.running();
        running.sort_by_key(|process| (process.start, process.pid));
        if running.is_empty() || Instant::now() > deadline {
            return stopped;
        }
        for process in running {
            process_table::signal(process, Signal::STOP);
            if !stopped.contains(&process) {
                stopped.push(process);
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Resumes the stopped processes, youngest first.
pub(crate) fn resume(stopped: Vec<ProcessIdentity>) {
    for process in stopped.into_iter().rev() {
        process_table::signal(process, Signal::CONT);
    }
}
