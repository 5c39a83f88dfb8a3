//! Follows a run that another process may be writing: reads only what was appended to its journal, as far as it is intact.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};

use super::dir::RunDir;
use super::error::RunError;
use super::event::JournalEntry;
use super::journal::{JournalContents, JournalError};
use super::lock::RunLock;
use super::lookup::RunInfo;
use super::plan::Plan;
use super::record;
use super::state::RunState;

/// A run whose journal is read step by step. Unlike [`RunInfo::read`], damage is no error: the state is that of the intact part.
#[derive(Debug)]
pub struct RunFollower {
    info: RunInfo,
    /// The last entry only, and the digest of its line.
    last: JournalContents,
    lines: usize,
    offset: u64,
    damage: Option<JournalError>,
    changed_plan: bool,
}

impl RunFollower {
    /// Reads the plan and what there is of the journal.
    ///
    /// # Errors
    /// Returns an error when the plan can't be read.
    pub fn open(run: RunDir) -> Result<Self, RunError> {
        let plan = Plan::read(&run.plan())?;
        let mut state = RunState::default();
        state.planned = plan.trials.len();
        let info = RunInfo { run, plan, state, active: false, journal_head: None, chained: false };
        let last = JournalContents::default();
        let mut follower = Self { info, last, lines: 0, offset: 0, damage: None, changed_plan: false };
        follower.poll();
        Ok(follower)
    }

    /// Returns the run as far as it was read.
    #[must_use]
    pub fn info(&self) -> &RunInfo {
        &self.info
    }

    /// Returns how many bytes of the journal were read: it changes with every entry.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns what is wrong with the recorded run, if anything.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let mut problems: Vec<String> = self.damage.iter().map(ToString::to_string).collect();
        if self.changed_plan {
            problems.push(format!("`{}` was changed since the run started", self.info.run.plan().display()));
        }
        if self.damage.is_none()
            && let Err(error) = self.info.check_head()
        {
            problems.push(error.to_string());
        }
        problems
    }

    /// Reads the entries that were appended, and whether a process executes the run. Returns whether anything changed.
    pub fn poll(&mut self) -> bool {
        // The lock first: a run that ends afterwards is read again by the next call.
        let active = RunLock::is_held(&self.info.run.lock());
        let changed = active != self.info.active;
        self.info.active = active;
        let before = self.offset;
        if self.damage.is_none()
            && let Err(error) = self.read()
        {
            // The run was killed before its first entry, or has not written it yet.
            let missing =
                matches!(&error, JournalError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound);
            self.damage = (!missing).then_some(error);
            return !missing || changed;
        }
        changed || self.offset != before
    }

    fn read(&mut self) -> Result<(), JournalError> {
        let path = self.info.run.journal();
        let failed = |source| JournalError::Io { what: "read", path: path.clone(), source };
        let mut file = File::open(&path).map_err(failed)?;
        if file.metadata().map_err(failed)?.len() == self.offset {
            return Ok(());
        }
        file.seek(SeekFrom::Start(self.offset)).map_err(failed)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed)?;
        let mut rest = bytes.as_slice();
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, next) = (&rest[..end], &rest[end + 1..]);
            let number = self.lines + 1;
            match serde_json::from_slice::<JournalEntry>(line) {
                Ok(entry) => {
                    self.last.check(&path, line, &entry)?;
                    self.last.entries = vec![entry];
                }
                Err(_) if next.is_empty() => return Ok(()),
                Err(error) => {
                    return Err(JournalError::Damaged { path, line: number, reason: error.to_string() });
                }
            }
            self.advance(end as u64 + 1);
            rest = next;
        }
        Ok(())
    }

    /// Applies the entry that was read last.
    fn advance(&mut self, bytes: u64) {
        self.lines += 1;
        self.offset += bytes;
        if let Some(entry) = self.last.entries.last() {
            self.info.state.apply(entry);
            self.info.state.planned = self.info.plan.trials.len();
        }
        self.info.journal_head.clone_from(&self.last.head);
        self.info.chained = self.last.chained;
        if self.lines == 1 {
            self.changed_plan = record::check_plan(&self.info.run, &self.last.entries).is_err();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;

    use super::super::event::RunEvent;
    use super::super::journal::Journal;
    use super::*;

    fn run_in(folder: &std::path::Path) -> RunDir {
        let plan = serde_json::json!({
            "version": 1, "run": "r", "name": "n", "youbencha": "0", "created_at": "t", "config": "c.yaml",
            "options": {"retries": 0}, "files": [], "trials": [],
        });
        fs::write(folder.join("plan.json"), plan.to_string()).unwrap();
        RunDir::at(folder)
    }

    fn started() -> RunEvent {
        RunEvent::RunStarted {
            version: 1,
            run: "r".into(),
            youbencha: "0".into(),
            trials: 2,
            jobs: 1,
            plan: None,
        }
    }

    fn attempt(trial: &str) -> RunEvent {
        RunEvent::AttemptStarted { trial: trial.into(), attempt: 1 }
    }

    #[test]
    fn follower_reads_what_is_appended() {
        let folder = tempfile::tempdir().unwrap();
        let run = run_in(folder.path());
        let mut follower = RunFollower::open(run.clone()).unwrap();
        assert!(!follower.poll(), "no journal yet");
        let mut journal = Journal::create(&run.journal()).unwrap();
        journal.append([started(), attempt("a")]).unwrap();
        assert!(follower.poll());
        assert_eq!(follower.info().state.trials().count(), 1);
        assert!(!follower.poll());
        // A line that is being written.
        let mut file = File::options().append(true).open(run.journal()).unwrap();
        file.write_all(b"{\"seq\":3").unwrap();
        assert!(!follower.poll());
        let (mut journal, _) = Journal::open(&run.journal()).unwrap();
        journal.append([attempt("b")]).unwrap();
        assert!(follower.poll());
        assert_eq!(follower.info().state.trials().count(), 2);
        assert_eq!(follower.problems(), Vec::<String>::new());
        assert_eq!(follower.offset(), fs::metadata(run.journal()).unwrap().len());
    }

    #[test]
    fn damaged_journal_is_read_up_to_the_damage() {
        let folder = tempfile::tempdir().unwrap();
        let run = run_in(folder.path());
        let mut journal = Journal::create(&run.journal()).unwrap();
        journal.append([started(), attempt("a"), attempt("b")]).unwrap();
        let text = fs::read_to_string(run.journal()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        fs::write(run.journal(), format!("{}\n{}\nnonsense\n{}\n", lines[0], lines[1], lines[2])).unwrap();
        let mut follower = RunFollower::open(run).unwrap();
        assert_eq!(follower.info().state.trials().count(), 1);
        assert!(follower.problems()[0].contains("is damaged in line 3"), "{:?}", follower.problems());
        assert!(!follower.poll(), "damage is reported once");
    }
}
