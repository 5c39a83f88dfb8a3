//! Checks of recorded files against the journal, made whenever one of them is read.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::dir::RunDir;
use super::error::RunError;
use super::event::{AttemptRecord, JournalEntry, RunEvent};
use super::lookup::RunInfo;
use super::results::RunResults;

/// Returns the digest of a file.
pub(super) fn file_digest(path: &Path) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    io::copy(&mut fs::File::open(path)?, &mut hasher)?;
    Ok(hasher.finalize().to_hex().to_string())
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
}

impl RecordStatement {
    /// Returns the text that is signed.
    #[must_use]
    pub fn text(&self) -> String {
        let Self { run, journal, results } = self;
        format!("youbencha record 1\nrun {run}\njournal {journal}\nresults {results}\n")
    }
}

impl RunInfo {
    /// Returns the statement about the run, or `None` for a run that is unfinished or not chained.
    #[must_use]
    pub fn statement(&self) -> Option<RecordStatement> {
        let journal = self.journal_head.clone().filter(|_| self.chained && !self.active)?;
        let results = file_digest(&self.run.results()).ok()?;
        Some(RecordStatement { run: self.run.id(), journal, results })
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
        let (Ok(bytes), true) = (fs::read(&path), self.chained && !self.active) else { return Ok(()) };
        let modified = || RunError::Modified { run: self.run.id(), path: path.clone() };
        let written: Value = serde_json::from_slice(&bytes).map_err(|_| modified())?;
        let expected = serde_json::to_value(RunResults::of(&self.plan, &self.state)).unwrap_or_default();
        let is_same = |(name, value): (&String, &Value)| written.get(name) == Some(value);
        match expected.as_object() {
            Some(fields) if !fields.iter().all(is_same) => Err(modified()),
            _ => Ok(()),
        }
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
