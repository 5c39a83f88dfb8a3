//! Leak checks for the end of a test: processes, zombies, descriptors, threads.
//!
//! A check covers the whole test process, so it requires one test per process, as with nextest.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::process::{ProcessInfo, descendants, processes_in};

/// How long a resource may take to go away before it counts as leaked.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A snapshot of the resources of this process before a test.
#[derive(Debug)]
#[must_use = "call `check` at the end of the test"]
pub struct LeakCheck {
    processes: Vec<ProcessInfo>,
    descriptors: BTreeMap<String, String>,
    threads: BTreeMap<String, String>,
    timeout: Duration,
}

impl Default for LeakCheck {
    fn default() -> Self {
        Self::new()
    }
}

impl LeakCheck {
    /// Takes the snapshot.
    pub fn new() -> Self {
        Self { processes: descendants(), descriptors: descriptors(), threads: threads(), timeout: TIMEOUT }
    }

    /// Sets how long a resource may take to go away. Default: five seconds.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Returns the new resources, one per line, after waiting for them to go away.
    #[must_use]
    pub fn leaks(&self) -> Vec<String> {
        let mut leaks = Vec::new();
        poll_until(self.timeout, || {
            leaks = self.current_leaks();
            leaks.is_empty()
        });
        leaks
    }

    /// Asserts that nothing leaked.
    ///
    /// # Panics
    /// Panics with a list of the leaks.
    #[track_caller]
    pub fn check(self) {
        let leaks = self.leaks();
        assert!(leaks.is_empty(), "leaked:\n  {}", leaks.join("\n  "));
    }

    fn current_leaks(&self) -> Vec<String> {
        let known = |info: &ProcessInfo| self.processes.iter().any(|before| before.process == info.process);
        let processes = descendants().into_iter().filter(|info| !known(info)).map(|info| info.to_string());
        let descriptors = surplus("descriptor", &self.descriptors, &descriptors());
        let threads = surplus("thread", &self.threads, &threads());
        processes.chain(descriptors).chain(threads).collect()
    }
}

/// Returns the new entries if there are more than before: a replaced one is not a leak.
fn surplus(what: &str, before: &BTreeMap<String, String>, now: &BTreeMap<String, String>) -> Vec<String> {
    if now.len() <= before.len() {
        return Vec::new();
    }
    let new = now.iter().filter(|(id, name)| before.get(*id) != Some(name));
    new.map(|(id, name)| format!("{what} {id}: {name}")).collect()
}

/// Returns the open descriptors, without the one that reads the directory.
fn descriptors() -> BTreeMap<String, String> {
    let folder = if cfg!(target_os = "linux") { "/proc/self/fd" } else { "/dev/fd" };
    entries(folder, |path| std::fs::read_link(path).unwrap_or_default().to_string_lossy().into_owned())
        .into_iter()
        .filter(|(_, target)| *target != format!("/proc/{}/fd", std::process::id()))
        .collect()
}

/// Returns the threads (Linux only).
fn threads() -> BTreeMap<String, String> {
    entries("/proc/self/task", |path| {
        std::fs::read_to_string(path.join("comm")).unwrap_or_default().trim_end().to_owned()
    })
}

fn entries(folder: &str, name: impl Fn(&Path) -> String) -> BTreeMap<String, String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return BTreeMap::new() };
    entries
        .filter_map(Result::ok)
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), name(&entry.path())))
        .collect()
}

/// Asserts that no living process has `dir` in its working directory, executable or command line, whatever
/// its parent, after waiting for them to exit.
///
/// # Panics
/// Panics with a list of the processes.
#[track_caller]
pub fn assert_no_process_in(dir: &Path) {
    let mut left = Vec::new();
    let gone = poll_until(TIMEOUT, || {
        left = processes_in(dir);
        left.is_empty()
    });
    let left: Vec<String> = left.iter().map(ProcessInfo::to_string).collect();
    assert!(gone, "processes still alive in {}:\n  {}", dir.display(), left.join("\n  "));
}

fn poll_until(timeout: Duration, mut gone: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + timeout;
    loop {
        if gone() {
            return true;
        }
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Kills all processes in a directory when dropped.
#[derive(Debug)]
#[must_use = "processes are killed when this is dropped"]
pub struct KillOnDrop {
    dir: PathBuf,
}

impl KillOnDrop {
    /// Guards the directory; see [`processes_in`].
    pub fn in_dir(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        poll_until(Duration::from_secs(2), || {
            let left = processes_in(&self.dir);
            for pid in left.iter().filter_map(|info| Pid::from_raw(info.process.pid.cast_signed())) {
                // The process may have exited meanwhile.
                let _ = kill_process(pid, Signal::KILL);
            }
            left.is_empty()
        });
    }
}
