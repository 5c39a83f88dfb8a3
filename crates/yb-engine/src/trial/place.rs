//! Where an attempt keeps its things, as every later command finds them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::TrialError;
use crate::evaluate::FOLDER;
use crate::run::{RunDir, sync_folder};

/// The directories of one attempt.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) trial: String,
    pub(super) workspace: PathBuf,
    pub(super) artifacts: PathBuf,
    pub(super) private: PathBuf,
}

impl Place {
    /// `<run>/trials/<trial>/attempt-<n>`, and the link to its artifacts.
    pub(super) fn create(run: &RunDir, trial: &str, attempt: u32) -> Result<Self, TrialError> {
        let folder = run.attempt(trial, attempt);
        let place = Self {
            workspace: folder.join("src-modified"),
            artifacts: run.artifacts(trial, attempt),
            private: folder.join("private"),
            trial: trial.to_owned(),
        };
        for directory in [&place.artifacts, &place.private] {
            fs::create_dir_all(directory).map_err(TrialError::io(directory))?;
        }
        run.link_trial(trial, attempt).map_err(TrialError::io(run.trial(trial)))?;
        Ok(place)
    }

    /// Writes a file of the artifacts; whoever looks sees the whole file or none.
    pub(super) fn write(&self, file: &str, content: &impl Serialize) -> Result<(), TrialError> {
        let path = self.artifacts.join(file);
        let part = self.artifacts.join(format!(".{file}.part"));
        let text = serde_json::to_vec_pretty(content).map_err(|error| TrialError::io(&path)(error.into()))?;
        fs::write(&part, text).and_then(|()| fs::rename(&part, &path)).map_err(TrialError::io(&path))
    }

    /// Removes what nobody needs any more: the agent's private files, and its workspace unless that is kept.
    pub(super) fn finish(&self, keep_workspace: bool) -> Result<(), TrialError> {
        let gone: &[&PathBuf] =
            if keep_workspace { &[&self.private] } else { &[&self.private, &self.workspace] };
        for directory in gone {
            if directory.exists() {
                fs::remove_dir_all(directory).map_err(TrialError::io(*directory))?;
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
