//! Where an attempt keeps its things, as every later command finds them.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use yb_model::atomic_file::{Durability, write_atomic};

use serde::Serialize;

use super::TrialError;
use crate::run::{RunDir, sync_folder};
use yb_evaluate::FOLDER;

/// The folders of an attempt that nobody needs afterwards: the agent's own, that of the hooks before it, and the one in
/// which evaluators work.
pub(crate) const PRIVATE: [&str; 3] = ["private", "private-hooks", "grading"];

/// The directories of one attempt.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) trial: String,
    pub(super) workspace: PathBuf,
    pub(super) artifacts: PathBuf,
    /// The agent's HOME, TMPDIR and whatever else is its own. Nothing runs in it before the agent.
    pub(super) private: PathBuf,
    /// The same for the hooks before it.
    pub(super) hooks: PathBuf,
    /// Where it is graded: nothing of the trial can have been there before.
    pub(super) scratch: PathBuf,
}

impl Place {
    /// `<run>/trials/<trial>/attempt-<n>`, and the link to its artifacts.
    pub(super) fn create(run: &RunDir, trial: &str, attempt: u32) -> Result<Self, TrialError> {
        let folder = run.attempt(trial, attempt);
        let [private, hooks, scratch] = PRIVATE.map(|name| folder.join(name));
        let place = Self {
            workspace: folder.join("src-modified"),
            artifacts: run.artifacts(trial, attempt),
            private,
            hooks,
            scratch,
            trial: trial.to_owned(),
        };
        for directory in [&folder, &place.artifacts, &place.private] {
            fs::create_dir_all(directory).map_err(TrialError::io(directory))?;
        }
        run.link_trial(trial, attempt).map_err(TrialError::io(run.trial(trial)))?;
        Ok(place)
    }

    /// Writes a file of the artifacts; whoever looks sees the whole file or none.
    pub(super) fn write(&self, file: &str, content: &impl Serialize) -> Result<(), TrialError> {
        let path = self.artifacts.join(file);
        let text = serde_json::to_vec_pretty(content).map_err(|error| TrialError::io(&path)(error.into()))?;
        write_atomic(&path, &text, Durability::Unsynced).map_err(TrialError::io(&path))
    }

    /// Removes what nobody needs any more: the private files, and the workspace unless that is kept.
    pub(super) fn finish(&self, keep_workspace: bool) -> Result<(), TrialError> {
        let workspace = (!keep_workspace).then_some(&self.workspace);
        for directory in [&self.private, &self.hooks, &self.scratch].into_iter().chain(workspace) {
            match fs::remove_dir_all(directory) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(TrialError::io(directory)(error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Makes sure that every file of the artifacts is on disk, and gives their digests: what a journal may name.
    pub(super) fn seal(&self) -> Result<BTreeMap<String, String>, TrialError> {
        let mut digests = BTreeMap::new();
        self.seal_folder(&self.artifacts, "", &mut digests)?;
        Ok(digests)
    }

    /// The files of one folder; of the folders in it only those of evaluators, which hold verdicts.
    fn seal_folder(
        &self,
        folder: &Path,
        prefix: &str,
        digests: &mut BTreeMap<String, String>,
    ) -> Result<(), TrialError> {
        for entry in fs::read_dir(folder).map_err(TrialError::io(folder))? {
            let entry = entry.map_err(TrialError::io(folder))?;
            let path = entry.path();
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            let kind = entry.file_type().map_err(TrialError::io(&path))?;
            if kind.is_dir() && (name == FOLDER || !prefix.is_empty()) {
                self.seal_folder(&path, &format!("{name}/"), digests)?;
            }
            if !kind.is_file() {
                continue;
            }
            let mut file = fs::File::open(&path).map_err(TrialError::io(&path))?;
            let mut hasher = blake3::Hasher::new();
            std::io::copy(&mut file, &mut hasher).map_err(TrialError::io(&path))?;
            file.sync_all().map_err(TrialError::io(&path))?;
            digests.insert(name, hasher.finalize().to_hex().to_string());
        }
        sync_folder(folder).map_err(TrialError::io(folder))
    }
}
