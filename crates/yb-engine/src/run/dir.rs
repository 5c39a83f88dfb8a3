//! The layout of a run directory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

/// The directory of all runs, below the workspace directory.
pub const RUNS: &str = "runs";
/// The cache that runs share: mirrors and prepared repositories.
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
    /// Creates a run directory `<prefix>-YYYY-MM-DD-<ms>`. If the name is taken, because two runs started at the same time
    /// or the clock was set back, the next free one is used.
    ///
    /// # Errors
    /// Returns an error when the directory can't be created.
    pub fn create(root: &Path, prefix: &str, now: Timestamp) -> io::Result<Self> {
        let root = std::path::absolute(root)?;
        create_ignored(&root)?;
        let runs = root.join(RUNS);
        fs::create_dir_all(&runs)?;
        let day = now.strftime("%Y-%m-%d");
        let mut ms = now.as_millisecond();
        loop {
            let path = runs.join(format!("{prefix}-{day}-{ms}"));
            match private_dir(&path) {
                Ok(()) => return Ok(Self { path }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => ms += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the run directory at a path, without checking that it exists.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Returns the path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the workspace directory that contains the run.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.path.parent().and_then(Path::parent).unwrap_or(&self.path)
    }

    /// Returns the run's id, which is the name of the directory.
    #[must_use]
    pub fn id(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Returns the path of the lock file.
    #[must_use]
    pub fn lock(&self) -> PathBuf {
        self.path.join(LOCK)
    }

    /// Returns the path of the plan.
    #[must_use]
    pub fn plan(&self) -> PathBuf {
        self.path.join(PLAN)
    }

    /// Returns the path of the journal, the source of truth.
    #[must_use]
    pub fn journal(&self) -> PathBuf {
        self.path.join(JOURNAL)
    }

    /// Returns the path of the object store with all captured trees.
    #[must_use]
    pub fn objects(&self) -> PathBuf {
        self.path.join(OBJECTS)
    }

    /// Returns the path of the results, which are derived from the journal.
    #[must_use]
    pub fn results(&self) -> PathBuf {
        self.path.join(RESULTS)
    }

    /// Returns the directory of all trials.
    #[must_use]
    pub fn trials(&self) -> PathBuf {
        self.path.join(TRIALS)
    }

    /// Returns the directory of a trial.
    #[must_use]
    pub fn trial(&self, folder: &str) -> PathBuf {
        self.trials().join(folder)
    }

    /// Returns the directory of an attempt.
    #[must_use]
    pub fn attempt(&self, folder: &str, attempt: u32) -> PathBuf {
        self.trial(folder).join(format!("attempt-{attempt}"))
    }

    /// Returns the directory of the artifacts of an attempt.
    #[must_use]
    pub fn artifacts(&self, folder: &str, attempt: u32) -> PathBuf {
        self.attempt(folder, attempt).join(ARTIFACTS)
    }

    /// Links `trials/<folder>/artifacts` to the artifacts of an attempt.
    pub(crate) fn link_trial(&self, folder: &str, attempt: u32) -> io::Result<()> {
        let target = Path::new(&format!("attempt-{attempt}")).join(ARTIFACTS);
        link(&target, &self.trial(folder).join(ARTIFACTS))
    }

    /// Links `artifacts` to those of the only trial of a run.
    pub(crate) fn link_run(&self, folder: &str) -> io::Result<()> {
        let target = Path::new(TRIALS).join(folder).join(ARTIFACTS);
        link(&target, &self.path.join(ARTIFACTS))
    }
}

/// Creates a directory that git ignores, with a `.gitignore` in it. A file that is there is kept.
pub(crate) fn create_ignored(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    match fs::OpenOptions::new().write(true).create_new(true).open(directory.join(".gitignore")) {
        Ok(mut file) => io::Write::write_all(&mut file, b"*\n"),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Creates a directory that only its owner can enter: a run holds prompts, transcripts and changed files.
fn private_dir(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Replaces a symbolic link atomically. Does nothing on systems without symbolic links.
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
    fn workspace_directory_ignores_itself_unless_it_has_its_own_rules() {
        let root = tempfile::tempdir().unwrap();
        let (one, two) = (root.path().join("one"), root.path().join("two"));
        fs::create_dir(&two).unwrap();
        fs::write(two.join(".gitignore"), "mine\n").unwrap();
        for root in [&one, &two] {
            RunDir::create(root, "run", Timestamp::now()).unwrap();
        }
        assert_eq!(fs::read_to_string(one.join(".gitignore")).unwrap(), "*\n");
        assert_eq!(fs::read_to_string(two.join(".gitignore")).unwrap(), "mine\n");
    }

    #[test]
    fn runs_created_at_the_same_time_have_different_names() {
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
