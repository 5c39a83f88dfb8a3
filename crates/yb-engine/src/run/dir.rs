//! The names of everything that a run leaves behind, in one place.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

/// Below the workspace directory.
pub const RUNS: &str = "runs";
/// What every run shares: mirrors and cut repositories.
pub const CACHE: &str = "cache";

const LOCK: &str = "run.lock";
const PLAN: &str = "plan.json";
const JOURNAL: &str = "journal.jsonl";
const OBJECTS: &str = "objects.git";
const RESULTS: &str = "results.json";
const TRIALS: &str = "trials";
const ARTIFACTS: &str = "artifacts";

/// A run's directory, `<workspace_dir>/runs/<run-id>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunDir {
    path: PathBuf,
}

impl RunDir {
    /// Makes a new one, `<prefix>-YYYY-MM-DD-<ms>`. A name that is taken, because two runs began at once or the clock
    /// was set back, gives way to the next.
    ///
    /// # Errors
    /// When it can't be made.
    pub fn create(root: &Path, prefix: &str, now: Timestamp) -> io::Result<Self> {
        let runs = std::path::absolute(root)?.join(RUNS);
        fs::create_dir_all(&runs)?;
        let day = now.strftime("%Y-%m-%d");
        let mut ms = now.as_millisecond();
        loop {
            let path = runs.join(format!("{prefix}-{day}-{ms}"));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self { path }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => ms += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// One that is there.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The workspace directory that it is in.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.path.parent().and_then(Path::parent).unwrap_or(&self.path)
    }

    /// The run's id: the directory's name.
    #[must_use]
    pub fn id(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Held by whoever works on the run.
    #[must_use]
    pub fn lock(&self) -> PathBuf {
        self.path.join(LOCK)
    }

    /// What was to be done.
    #[must_use]
    pub fn plan(&self) -> PathBuf {
        self.path.join(PLAN)
    }

    /// What happened: the truth.
    #[must_use]
    pub fn journal(&self) -> PathBuf {
        self.path.join(JOURNAL)
    }

    /// Every tree that was measured.
    #[must_use]
    pub fn objects(&self) -> PathBuf {
        self.path.join(OBJECTS)
    }

    /// The results of the run, made from the journal.
    #[must_use]
    pub fn results(&self) -> PathBuf {
        self.path.join(RESULTS)
    }

    /// The trials' folders.
    #[must_use]
    pub fn trials(&self) -> PathBuf {
        self.path.join(TRIALS)
    }

    /// One trial's folder.
    #[must_use]
    pub fn trial(&self, folder: &str) -> PathBuf {
        self.trials().join(folder)
    }

    /// One attempt's folder.
    #[must_use]
    pub fn attempt(&self, folder: &str, attempt: u32) -> PathBuf {
        self.trial(folder).join(format!("attempt-{attempt}"))
    }

    /// The artifacts of an attempt.
    #[must_use]
    pub fn artifacts(&self, folder: &str, attempt: u32) -> PathBuf {
        self.attempt(folder, attempt).join(ARTIFACTS)
    }

    /// `trials/<folder>/artifacts`: always the last attempt's.
    pub(crate) fn link_trial(&self, folder: &str, attempt: u32) -> io::Result<()> {
        let target = Path::new(&format!("attempt-{attempt}")).join(ARTIFACTS);
        link(&target, &self.trial(folder).join(ARTIFACTS))
    }

    /// `artifacts`, for a run of a single trial.
    pub(crate) fn link_run(&self, folder: &str) -> io::Result<()> {
        let target = Path::new(TRIALS).join(folder).join(ARTIFACTS);
        link(&target, &self.path.join(ARTIFACTS))
    }
}

/// Replaces a link as a whole; systems without links do without.
fn link(target: &Path, link: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::symlink;
        match symlink(target, link) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let part = yb_model::atomic_file::temporary_sibling(link);
                symlink(target, &part)?;
                fs::rename(&part, link)
            }
            made => made,
        }
    }
    #[cfg(not(unix))]
    {
        let _ = (target, link);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_runs_of_the_same_moment_have_two_names() {
        let root = tempfile::tempdir().unwrap();
        let now = Timestamp::from_millisecond(1_700_000_000_000).unwrap();
        let (one, two) = (
            RunDir::create(root.path(), "run", now).unwrap(),
            RunDir::create(root.path(), "run", now).unwrap(),
        );
        assert_eq!(one.id(), "run-2023-11-14-1700000000000");
        assert_eq!(two.id(), "run-2023-11-14-1700000000001");
    }
}
