//! The directories of an attempt.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use yb_model::atomic_file::{Durability, create_private_dir, write_private};

use serde::Serialize;

use super::TrialError;
use crate::run::{RunDir, sync_folder};
use yb_repo::remove_or_set_aside;

/// The temporary directories of an attempt: the agent's private directory, that of the hooks before it, the one for evaluators,
/// and that of plugins and skills.
pub(crate) const PRIVATE: [&str; 4] = ["private", "private-hooks", "grading", "add-ons"];

/// The directory with the changes of an agent whose workspace was an overlay.
pub const WORKSPACE_LAYER: &str = "workspace-layer";
/// The directory with what a trial changed in the root of its case.
const ROOT_LAYER: &str = "root-layer";

/// The directories of one attempt.
#[derive(Debug)]
pub(crate) struct AttemptDirs {
    pub(super) trial: String,
    pub(super) workspace: PathBuf,
    /// What the agent changed, if the workspace is an overlay.
    pub(super) layer: PathBuf,
    /// What was changed in the root of the case, if it has one.
    pub(super) root_layer: PathBuf,
    pub(super) artifacts: PathBuf,
    /// The agent's HOME, TMPDIR and other private files. No other process runs in it before the agent.
    pub(super) private: PathBuf,
    /// The private directory of the hooks before the agent.
    pub(super) hooks: PathBuf,
    /// The directory for grading. No process of the trial has access to it before.
    pub(super) scratch: PathBuf,
    /// The plugins and skills of the agent, which it can only read.
    pub(super) add_ons: PathBuf,
}

impl AttemptDirs {
    /// Creates `<run>/trials/<trial>/attempt-<n>` and the link to its artifacts.
    pub(super) fn create(run: &RunDir, trial: &str, attempt: u32) -> Result<Self, TrialError> {
        let folder = run.attempt(trial, attempt);
        let [private, hooks, scratch, add_ons] = PRIVATE.map(|name| folder.join(name));
        let dirs = Self {
            workspace: folder.join("src-modified"),
            layer: folder.join(WORKSPACE_LAYER),
            root_layer: folder.join(ROOT_LAYER),
            artifacts: run.artifacts(trial, attempt),
            private,
            hooks,
            scratch,
            add_ons,
            trial: trial.to_owned(),
        };
        for directory in [&folder, &dirs.artifacts, &dirs.private] {
            create_private_dir(directory).map_err(TrialError::io(directory))?;
        }
        run.link_trial(trial, attempt).map_err(TrialError::io(run.trial(trial)))?;
        Ok(dirs)
    }

    /// Returns directories for grading alone, in a folder that is removed afterwards.
    pub(crate) fn scratch(folder: &Path, trial: &str) -> Result<Self, TrialError> {
        let [private, hooks, scratch, add_ons] = PRIVATE.map(|name| folder.join(name));
        let dirs = Self {
            workspace: folder.join("src-modified"),
            layer: folder.join(WORKSPACE_LAYER),
            root_layer: folder.join(ROOT_LAYER),
            artifacts: folder.join("artifacts"),
            private,
            hooks,
            scratch,
            add_ons,
            trial: trial.to_owned(),
        };
        create_private_dir(&dirs.artifacts).map_err(TrialError::io(&dirs.artifacts))?;
        Ok(dirs)
    }

    /// Writes an artifact atomically.
    pub(super) fn write(&self, file: &str, content: &impl Serialize) -> Result<(), TrialError> {
        let path = self.artifacts.join(file);
        let text = serde_json::to_vec_pretty(content).map_err(|error| TrialError::io(&path)(error.into()))?;
        write_private(&path, &text, Durability::Unsynced).map_err(TrialError::io(&path))
    }

    /// Removes the temporary directories, and the workspace unless it is kept. Returns a warning for each that can't be removed:
    /// the agent wrote to them, so this must not change the outcome.
    pub(super) fn finish(&self, keep_workspace: bool) -> Vec<String> {
        let mut all =
            vec![self.private.clone(), self.hooks.clone(), self.scratch.clone(), self.add_ons.clone()];
        if self.layer.is_dir() {
            // The mount point is empty outside the namespace of the overlay.
            all.extend([self.workspace.clone(), self.layer.join(yb_repo::WORK_DIR)]);
        }
        all.push(self.root_layer.join(yb_repo::WORK_DIR));
        if !keep_workspace {
            all.extend([self.workspace.clone(), self.layer.clone(), self.root_layer.clone()]);
        }
        all.iter().filter_map(|directory| remove_or_set_aside(directory).warning()).collect()
    }

    /// Makes all artifacts private, syncs them to disk and returns their digests for the journal.
    pub(super) fn seal(&self) -> Result<BTreeMap<String, String>, TrialError> {
        let mut digests = BTreeMap::new();
        self.seal_folder(&self.artifacts, "", &mut digests)?;
        Ok(digests)
    }

    /// Seals the files of a directory and of those below it.
    fn seal_folder(
        &self,
        folder: &Path,
        prefix: &str,
        digests: &mut BTreeMap<String, String>,
    ) -> Result<(), TrialError> {
        make_private(folder, 0o700).map_err(TrialError::io(folder))?;
        for entry in fs::read_dir(folder).map_err(TrialError::io(folder))? {
            let entry = entry.map_err(TrialError::io(folder))?;
            let path = entry.path();
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            let kind = entry.file_type().map_err(TrialError::io(&path))?;
            if kind.is_dir() {
                self.seal_folder(&path, &format!("{name}/"), digests)?;
            }
            if !kind.is_file() {
                continue;
            }
            make_private(&path, 0o600).map_err(TrialError::io(&path))?;
            let mut file = fs::File::open(&path).map_err(TrialError::io(&path))?;
            let mut hasher = blake3::Hasher::new();
            std::io::copy(&mut file, &mut hasher).map_err(TrialError::io(&path))?;
            file.sync_all().map_err(TrialError::io(&path))?;
            digests.insert(name, hasher.finalize().to_hex().to_string());
        }
        sync_folder(folder).map_err(TrialError::io(folder))
    }
}

/// Lets only the owner read a file or directory: artifacts hold prompts, transcripts and code.
fn make_private(path: &Path, mode: u32) -> std::io::Result<()> {
    #[cfg(unix)]
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode))?;
    #[cfg(not(unix))]
    let _ = (path, mode);
    Ok(())
}
