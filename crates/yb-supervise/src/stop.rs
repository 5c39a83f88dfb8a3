//! Holds all processes of a tree by signals, where there is no cgroup that could be frozen.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::record::Identity;
use crate::table::{self, Tree};

/// How long stopping goes on; one that is left then hangs in the kernel, and stops when it leaves that.
const STOP_LIMIT: Duration = Duration::from_millis(500);

/// Stops every process of the tree, also those that are started meanwhile, and returns them: one that was stopped
/// already is not ours to continue.
pub(crate) fn stop(tree: &Tree) -> Vec<Identity> {
    let limit = Instant::now() + STOP_LIMIT;
    let mut stopped = Vec::new();
    loop {
        // Older ones first: a parent that watches its children should not see one stop.
        let mut running = tree.running();
        running.sort_by_key(|process| (process.start, process.pid));
        if running.is_empty() || Instant::now() > limit {
            return stopped;
        }
        for process in running {
            table::signal(process, Signal::STOP);
            if !stopped.contains(&process) {
                stopped.push(process);
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Continues what was stopped, the youngest first.
pub(crate) fn go_on(stopped: Vec<Identity>) {
    for process in stopped.into_iter().rev() {
        table::signal(process, Signal::CONT);
    }
}
