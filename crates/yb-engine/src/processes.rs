//! Records of processes that belong to no attempt of a run: those of `yb eval`, of `yb check` and of the check beside a run. Each is
//! written before its program runs, so that the processes can be found after `yb` and the shim were killed together.
//!
//! A log is a file of JSON lines, locked while its writer lives and removed at its end. One that is left and not locked is of a
//! writer that was killed.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use yb_agents::StartRecorder;
use yb_supervise::TreeRecord;

use crate::run::{RunDir, RunState, create_ignored, read_journal};

/// The directory of the logs, in the directory of runs or evaluations.
const FOLDER: &str = "processes";
const EXTENSION: &str = "jsonl";
/// The most processes of one log that are looked for, the newest first: those before them have ended.
const MAX_RECORDS: usize = 512;

/// A log of processes. Its file is removed when it is dropped.
#[derive(Debug)]
pub(crate) struct ProcessLog {
    path: PathBuf,
    file: Mutex<File>,
}

impl ProcessLog {
    /// Creates a log below a directory of runs or evaluations.
    pub(crate) fn create(root: &Path) -> io::Result<Arc<Self>> {
        create_ignored(root)?;
        let folder = root.join(FOLDER);
        yb_model::atomic_file::create_private_dir(&folder)?;
        let name = format!("{}-{}", std::process::id(), yb_model::nonce());
        // It gets its name when it is locked: one that is not locked is of a writer that was killed.
        let (unlocked, path) =
            (folder.join(format!("{name}.new")), folder.join(format!("{name}.{EXTENSION}")));
        let file = File::options().write(true).create_new(true).open(&unlocked)?;
        file.lock()?;
        fs::rename(&unlocked, &path)?;
        Ok(Arc::new(Self { path, file: Mutex::new(file) }))
    }

    /// Returns a recorder that writes to the log.
    pub(crate) fn recorder(self: &Arc<Self>) -> StartRecorder {
        let log = Arc::clone(self);
        StartRecorder::new(move |_, tree| {
            let log = Arc::clone(&log);
            Box::pin(async move { log.add(&tree) })
        })
    }

    /// Adds a record. It is not synced: no process outlives the system.
    fn add(&self, tree: &TreeRecord) -> io::Result<()> {
        let mut line = serde_json::to_vec(tree)?;
        line.push(b'\n');
        self.file.lock().unwrap_or_else(PoisonError::into_inner).write_all(&line)
    }
}

impl Drop for ProcessLog {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Kills the processes that gradings and checks below this directory left behind when they were killed. Returns a message if there
/// were any. Blocks for up to three seconds for each process that can't be killed.
#[must_use]
pub fn end_leftovers(root: &Path) -> Option<String> {
    let entries = fs::read_dir(root.join(FOLDER)).into_iter().flatten().flatten();
    let logs =
        entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == EXTENSION));
    let killed: usize = logs.map(|path| end(&path)).sum();
    message(killed, "a grading or check that was killed")
}

/// Kills the processes that an unfinished run left behind when it was killed. Must be called with the lock of the run.
#[must_use]
pub fn end_leftovers_of_run(run: &RunDir) -> Option<String> {
    let state = RunState::of(&read_journal(&run.journal()).ok()?.entries);
    let attempts = state.trials().filter_map(|(_, trial)| trial.in_flight.as_ref());
    let trees = attempts.flat_map(|one| one.tree.iter().chain(&one.other_trees));
    message(trees.map(|tree| yb_supervise::reap(tree).killed).sum(), &format!("run {}", run.id()))
}

fn message(killed: usize, of: &str) -> Option<String> {
    let processes = if killed == 1 { "1 process" } else { &format!("{killed} processes") };
    (killed > 0).then(|| format!("{processes} of {of} still ran and were killed"))
}

/// Kills the processes of a log whose writer is dead, and removes the log.
fn end(path: &Path) -> usize {
    let Ok(file) = File::options().read(true).write(true).open(path) else { return 0 };
    if let Err(TryLockError::WouldBlock | TryLockError::Error(_)) = file.try_lock() {
        return 0;
    }
    let text = fs::read_to_string(path).unwrap_or_default();
    // The last line may be incomplete; its program did not run.
    let records = text.lines().rev().filter_map(|line| serde_json::from_str::<TreeRecord>(line).ok());
    let killed = records.take(MAX_RECORDS).map(|tree| yb_supervise::reap(&tree).killed).sum();
    let _ = fs::remove_file(path);
    killed
}
