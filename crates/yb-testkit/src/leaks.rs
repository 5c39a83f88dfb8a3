//! Leak checks that any test can end with: no process, no zombie, no descriptor, no thread is left.
//!
//! A check looks at the whole test process, so it wants one test in each process, as nextest runs them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::process::{ProcessInfo, descendants, processes_in};

/// How long something may take to go away before it counts as a leak.
const PATIENCE: Duration = Duration::from_secs(5);

/// What this process has before a test, to be compared with what it has after.
#[derive(Debug)]
#[must_use = "call `check` at the end of the test"]
pub struct LeakCheck {
    processes: Vec<ProcessInfo>,
    descriptors: BTreeMap<String, String>,
    threads: BTreeMap<String, String>,
    patience: Duration,
}

impl Default for LeakCheck {
    fn default() -> Self {
        Self::new()
    }
}

impl LeakCheck {
    /// Looks around.
    pub fn new() -> Self {
        Self { processes: descendants(), descriptors: descriptors(), threads: threads(), patience: PATIENCE }
    }

    /// Sets how long something may take to go away; five seconds unless told.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// What is there now and was not there before, one line for each; waits for it to go away first.
    #[must_use]
    pub fn leaks(&self) -> Vec<String> {
        let mut leaks = Vec::new();
        gone_within(self.patience, || {
            leaks = self.look();
            leaks.is_empty()
        });
        leaks
    }

    /// Ends a test.
    ///
    /// # Panics
    /// When something is left, with its name.
    #[track_caller]
    pub fn check(self) {
        let leaks = self.leaks();
        assert!(leaks.is_empty(), "left behind:\n  {}", leaks.join("\n  "));
    }

    fn look(&self) -> Vec<String> {
        let known = |info: &ProcessInfo| self.processes.iter().any(|before| before.process == info.process);
        let processes = descendants().into_iter().filter(|info| !known(info)).map(|info| info.to_string());
        let descriptors = surplus("descriptor", &self.descriptors, &descriptors());
        let threads = surplus("thread", &self.threads, &threads());
        processes.chain(descriptors).chain(threads).collect()
    }
}

/// The new ones, if there are more than before: another one in the place of an old one is no leak.
fn surplus(what: &str, before: &BTreeMap<String, String>, now: &BTreeMap<String, String>) -> Vec<String> {
    if now.len() <= before.len() {
        return Vec::new();
    }
    let new = now.iter().filter(|(id, name)| before.get(*id) != Some(name));
    new.map(|(id, name)| format!("{what} {id}: {name}")).collect()
}

/// Open descriptors by number, without the one that reads them.
fn descriptors() -> BTreeMap<String, String> {
    let folder = if cfg!(target_os = "linux") { "/proc/self/fd" } else { "/dev/fd" };
    entries(folder, |path| std::fs::read_link(path).unwrap_or_default().to_string_lossy().into_owned())
        .into_iter()
        .filter(|(_, target)| *target != format!("/proc/{}/fd", std::process::id()))
        .collect()
}

/// Threads by id, where Linux lists them.
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

/// Asserts that no process lives whose working directory, program or command line mentions `dir`, whoever
/// its parent is now; waits for them to go away first.
///
/// # Panics
/// When one lives.
#[track_caller]
pub fn assert_no_process_in(dir: &Path) {
    let mut left = Vec::new();
    let gone = gone_within(PATIENCE, || {
        left = processes_in(dir);
        left.is_empty()
    });
    let left: Vec<String> = left.iter().map(ProcessInfo::to_string).collect();
    assert!(gone, "alive in {}:\n  {}", dir.display(), left.join("\n  "));
}

fn gone_within(patience: Duration, mut gone: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + patience;
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

/// Kills whatever still runs in a directory when the test is over, however it ends.
#[derive(Debug)]
#[must_use = "it kills when it is dropped"]
pub struct KillOnDrop {
    dir: PathBuf,
}

impl KillOnDrop {
    /// A guard for the processes that [`processes_in`] finds in this directory.
    pub fn in_dir(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        gone_within(Duration::from_secs(2), || {
            let left = processes_in(&self.dir);
            for pid in left.iter().filter_map(|info| Pid::from_raw(info.process.pid.cast_signed())) {
                // It may be gone by itself meanwhile.
                let _ = kill_process(pid, Signal::KILL);
            }
            left.is_empty()
        });
    }
}
