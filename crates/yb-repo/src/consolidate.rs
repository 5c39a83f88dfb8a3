//! Keeps the number of packs of a store small. Every capture writes a pack, and git searches packs one after the other, so that without
//! this, reading a store takes time that grows with the square of its trials.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::task::JoinHandle;

use super::capture::ObjectStore;
use super::error::{RepoError, blocking};

/// From this number on, packs are consolidated.
const MAX_PACKS: usize = 64;

/// How long a consolidation may still take when the store is closed. Ending it early loses nothing.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// The consolidation that runs in the background, if any.
#[derive(Debug, Default)]
pub(crate) struct Consolidation(Mutex<Option<JoinHandle<()>>>);

impl ObjectStore {
    /// Merges packs if there are many. Each remaining pack has at least twice as many objects as the next smaller one, so their
    /// number is logarithmic, and an object is copied a logarithmic number of times. Other processes may read and write the store at
    /// the same time; packs that an importer still writes are not touched.
    ///
    /// # Errors
    /// When git fails; the store is intact then.
    pub async fn consolidate(&self) -> Result<(), RepoError> {
        let packs = self.pack_dir();
        if blocking(move || Ok(count_packs(&packs))).await? < MAX_PACKS {
            return Ok(());
        }
        let call = self.git().command("repack").git_dir(self.path());
        // Without a search for deltas, objects are copied as they are.
        call.setting("pack.window=0")
            .setting("pack.threads=1")
            .setting("repack.writeBitmaps=false")
            .setting("repack.updateServerInfo=false")
            .args(["--geometric=2", "-d", "--quiet"])
            .bytes()
            .await?;
        Ok(())
    }

    /// Starts a consolidation unless one is running. A failure has no effect but more packs.
    pub(crate) fn consolidate_in_background(&self) {
        let mut running = self.consolidation.0.lock().unwrap_or_else(PoisonError::into_inner);
        if running.as_ref().is_none_or(JoinHandle::is_finished) {
            let store = self.clone();
            *running = Some(tokio::spawn(async move { drop(store.consolidate().await) }));
        }
    }

    /// Waits for a consolidation in the background; ends it if it takes too long.
    pub(crate) async fn end_consolidation(&self) {
        let running = self.consolidation.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut running) = running
            && tokio::time::timeout(CLOSE_TIMEOUT, &mut running).await.is_err()
        {
            running.abort();
        }
    }

    /// Removes files that killed git processes left: temporary ones, locks, and marks of packs as being written. No other process may be
    /// writing to the store.
    pub async fn remove_leftovers(&self) -> Result<(), RepoError> {
        let (store, packs) = (self.path().to_owned(), self.pack_dir());
        blocking(move || {
            super::files::remove_stale_locks(&store);
            for path in leftovers(&packs) {
                let _ = fs::remove_file(path);
            }
            Ok(())
        })
        .await
    }

    fn pack_dir(&self) -> PathBuf {
        self.path().join("objects/pack")
    }
}

/// Removes temporary packs in a repository that other processes may be writing to, if they are too old for that.
pub(crate) fn remove_old_temporary_packs(git_dir: &Path, min_age: Duration) {
    for path in entries(&git_dir.join("objects/pack")).filter(|path| is_temporary(path)) {
        let modified = fs::symlink_metadata(&path).and_then(|file| file.modified());
        let age = modified.ok().and_then(|time| SystemTime::now().duration_since(time).ok());
        if age.is_some_and(|age| age >= min_age) {
            let _ = fs::remove_file(path);
        }
    }
}

fn entries(dir: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension() == Some(OsStr::new(extension))
}

/// Whether git writes a file with this name before it renames it.
fn is_temporary(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with("tmp_") || name.starts_with(".tmp-")
}

/// The number of packs that may be merged.
fn count_packs(dir: &Path) -> usize {
    entries(dir).filter(|path| has_extension(path, "idx") && !path.with_extension("keep").exists()).count()
}

/// Returns temporary files, marks of packs as being written, and packs whose index was not written, which git ignores.
fn leftovers(dir: &Path) -> Vec<PathBuf> {
    let is_leftover = |path: &PathBuf| {
        is_temporary(path)
            || has_extension(path, "keep")
            || (has_extension(path, "pack") && !path.with_extension("idx").exists())
    };
    entries(dir).filter(is_leftover).collect()
}
