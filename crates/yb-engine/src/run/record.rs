//! Checks of recorded files against the journal, made whenever one of them is read.

mod written_results;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::dir::RunDir;
use super::error::RunError;
use super::event::{AttemptRecord, JournalEntry, RunEvent};
use super::lookup::RunInfo;
use super::regrade::GradingJournal;
use super::results::RunResults;

/// Returns the digest of a file.
pub(super) fn file_digest(path: &Path) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    io::copy(&mut fs::File::open(path)?, &mut hasher)?;
    Ok(hasher.finalize().to_hex().to_string())
}

/// Returns the digest of a value as it is read back from its JSON.
pub(crate) fn json_digest(value: &impl serde::Serialize) -> Option<String> {
    // Numbers may differ in their last digit after they were read.
    let text = serde_json::to_vec(value).ok()?;
    Some(value_digest(&serde_json::from_slice(&text).ok()?))
}

/// Returns the digest of a value that was read from a file.
pub(crate) fn value_digest(value: &Value) -> String {
    blake3::hash(value.to_string().as_bytes()).to_hex().to_string()
}

/// Checks that the plan is the one that the run was started with.
pub(super) fn check_plan(run: &RunDir, entries: &[JournalEntry]) -> Result<(), RunError> {
    let started = entries.first().map(|entry| &entry.event);
    let Some(RunEvent::RunStarted { plan: Some(recorded), .. }) = started else { return Ok(()) };
    let path = run.plan();
    match file_digest(&path) {
        Ok(found) if found == *recorded => Ok(()),
        Ok(_) => Err(RunError::Modified { run: run.id(), path }),
        Err(error) => Err(RunError::io("read", path)(error)),
    }
}

/// The statement about a run that a signature covers. The journal's last line covers plan, artifacts, trees and tapes, because its
/// lines are chained and have their digests.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordStatement {
    /// The run's id.
    pub run: String,
    /// The digest of the last line of the journal.
    pub journal: String,
    /// The digest of `results.json`.
    pub results: String,
    /// The digests of the lines of the journal of gradings; each covers the lines before it.
    pub gradings: Vec<String>,
}

impl RecordStatement {
    /// Returns the text that is signed.
    #[must_use]
    pub fn text(&self) -> String {
        let Self { run, journal, results, gradings } = self;
        let gradings = gradings.last().map(|head| format!("gradings {head}\n")).unwrap_or_default();
        format!("youbencha record 1\nrun {run}\njournal {journal}\nresults {results}\n{gradings}")
    }

    /// Returns the statement as it was before the last gradings: this many of them remain.
    #[must_use]
    pub fn before_gradings(&self, remaining: usize) -> Self {
        let gradings = self.gradings.iter().take(remaining).cloned().collect();
        Self { gradings, ..self.clone() }
    }
}

impl RunInfo {
    /// Returns the statement about the run, or `None` for a run that is unfinished or not chained, or whose gradings can't be read.
    #[must_use]
    pub fn statement(&self) -> Option<RecordStatement> {
        let journal = self.journal_head.clone().filter(|_| self.chained && !self.active)?;
        let results = file_digest(&self.run.results()).ok()?;
        let gradings = GradingJournal::read(&self.run).ok()?.heads;
        Some(RecordStatement { run: self.run.id(), journal, results, gradings })
    }

    /// Checks that the journal ends with the line that the results name: no other line has the digest of the last one.
    pub(super) fn check_head(&self) -> Result<(), RunError> {
        #[derive(serde::Deserialize)]
        struct Head {
            journal_head: Option<String>,
        }
        let path = self.run.results();
        let bytes = match fs::read(&path) {
            Ok(bytes) if !self.active => bytes,
            _ => return Ok(()),
        };
        match serde_json::from_slice::<Head>(&bytes) {
            Ok(Head { journal_head: Some(head) }) if Some(&head) != self.journal_head.as_ref() => {
                Err(RunError::Modified { run: self.run.id(), path: self.run.journal() })
            }
            // Results of a version before chained journals have no head.
            Ok(Head { journal_head: None }) if self.chained => {
                Err(RunError::Modified { run: self.run.id(), path })
            }
            _ => Ok(()),
        }
    }

    /// Checks that `results.json`, if there is one, says what the journal says.
    ///
    /// # Errors
    /// Returns an error when it was changed.
    pub fn check_results(&self) -> Result<(), RunError> {
        let path = self.run.results();
        let (Ok(file), true) = (fs::File::open(&path), self.chained && !self.active) else { return Ok(()) };
        let modified = || RunError::Modified { run: self.run.id(), path: path.clone() };
        let written = written_results::compare(io::BufReader::new(file), &self.plan, &self.state);
        let written = written.map_err(|_| modified())?;
        let gates_digest = value_digest(&written.gates);
        let is_other = |recorded: &String| gates_digest != *recorded;
        if !written.is_same || self.state.gates_digest.as_ref().is_some_and(is_other) {
            return Err(modified());
        }
        Ok(())
    }

    /// Whether `results.json` has gates whose digest is not in the journal.
    pub(super) fn has_unrecorded_gates(&self) -> bool {
        let gates = RunResults::read(&self.run.results()).is_ok_and(|results| results.gates.is_some());
        gates && self.state.gates_digest.is_none()
    }

    /// Returns the artifacts of an attempt whose content is not the recorded one. A missing artifact is not in the list.
    #[must_use]
    pub fn modified_artifacts(&self, record: &AttemptRecord) -> Vec<PathBuf> {
        let folder = self.run.artifacts(&record.trial, record.attempt);
        let is_modified = |(name, digest): (&String, &String)| {
            let path = folder.join(name);
            match file_digest(&path) {
                Ok(found) => (found != *digest).then_some(path),
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(_) => Some(path),
            }
        };
        record.artifacts.iter().filter_map(is_modified).collect()
    }

    /// Checks the artifacts of an attempt against the journal.
    ///
    /// # Errors
    /// Returns an error that names the first changed artifact.
    pub fn check_artifacts(&self, record: &AttemptRecord) -> Result<(), RunError> {
        match self.modified_artifacts(record).into_iter().next() {
            Some(path) => Err(RunError::Modified { run: self.run.id(), path }),
            None => Ok(()),
        }
    }
}
