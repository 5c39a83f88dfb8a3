//! Trees of recorded trials: the difference between two, of the same run or of two, and the files of one.

use std::path::Path;

use tempfile::TempDir;
use yb_case::suite::Suite;
use yb_repo::diff::Diff;
use yb_repo::{Git, ObjectStore, TreeFile};

use super::dir::{CACHE, RunDir};
use super::error::RunError;
use super::plan::PlanOptions;
use super::prepare::RunContext;
use crate::trial::TrialError;

/// The difference between two trees.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct TreeDiff {
    /// The changed files.
    pub files: Diff,
    /// The difference as text, without the content of binary files and without known secrets.
    pub text: Vec<u8>,
}

/// Opens a store of its own that reads the objects of these runs: none of them is written to.
async fn reading_store(runs: &[&RunDir]) -> Result<(TempDir, ObjectStore), RunError> {
    if let Some(run) = runs.iter().find(|run| !run.objects().is_dir()) {
        return Err(RunError::Damaged { run: run.id(), missing: vec!["objects.git".to_owned()] });
    }
    let failed = |error: yb_repo::RepoError| RunError::from_trial(TrialError::from(error));
    let root = runs.first().map(|run| run.root()).unwrap_or(Path::new(""));
    let scratch = TempDir::new().map_err(RunError::io("create", std::env::temp_dir()))?;
    let git = Git::new(root.join(CACHE).join("git-home")).map_err(failed)?;
    let store = ObjectStore::open(scratch.path().join("objects.git"), &git).await.map_err(failed)?;
    let alternates = store.path().join("objects/info/alternates");
    let write = |path: &Path, text: String| {
        std::fs::create_dir_all(path.parent().unwrap_or(path))?;
        std::fs::write(path, text)
    };
    let lines: String =
        runs.iter().map(|run| format!("{}\n", run.objects().join("objects").display())).collect();
    write(&alternates, lines).map_err(RunError::io("write", &alternates))?;
    Ok((scratch, store))
}

/// Writes the files of a recorded tree to a directory, which must be empty or not exist. Returns their number.
///
/// # Errors
/// Returns an error when the directory has files, the tree is missing, or a file can't be written.
pub async fn export_tree(run: &RunDir, tree: &str, into: &Path) -> Result<usize, RunError> {
    yb_model::atomic_file::create_private_dir(into).map_err(RunError::io("create", into))?;
    let mut entries = std::fs::read_dir(into).map_err(RunError::io("read", into))?;
    if entries.next().is_some() {
        let error = std::io::Error::new(std::io::ErrorKind::DirectoryNotEmpty, "the directory is not empty");
        return Err(RunError::io("write to", into)(error));
    }
    let failed = |error: yb_repo::RepoError| RunError::from_trial(TrialError::from(error));
    let (_scratch, store) = reading_store(&[run]).await?;
    let files = store.list(tree).await.map_err(failed)?;
    store.check_out(&files, into).await.map_err(failed)?;
    Ok(files.len())
}

/// Compares a tree of one run with a tree of another.
///
/// # Errors
/// Returns an error when a tree is missing or git fails.
pub async fn diff_trees(
    (one, from): (&RunDir, &str),
    (two, to): (&RunDir, &str),
    secrets: &[(String, Vec<u8>)],
) -> Result<TreeDiff, RunError> {
    let (scratch, store) = reading_store(&[one, two]).await?;
    let failed = |error: yb_repo::RepoError| RunError::from_trial(TrialError::from(error));
    let files = store.diff(from, to).await.map_err(failed)?;
    let path = scratch.path().join("text");
    let mut text = Vec::new();
    if store.write_diff_text(from, to, &path, secrets).await.map_err(failed)? {
        text = std::fs::read(&path).map_err(RunError::io("read", &path))?;
    }
    Ok(TreeDiff { files, text })
}

/// A recorded tree, its difference to another one, and the content of one of its files.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct TreeSnapshot {
    /// All files and links of the tree.
    pub files: Vec<TreeFile>,
    /// The difference to the other tree.
    pub diff: TreeDiff,
    /// The content of the requested file; `None` if the tree does not have it, or if it is larger than the limit.
    pub content: Option<Vec<u8>>,
}

/// Reads a recorded tree as it is, with secrets that an agent may have written to it.
///
/// # Errors
/// Returns an error when a tree is missing or git fails.
pub async fn read_tree(
    run: &RunDir,
    (before, tree): (&str, &str),
    file: Option<(&str, u64)>,
) -> Result<TreeSnapshot, RunError> {
    let failed = |error: yb_repo::RepoError| RunError::from_trial(TrialError::from(error));
    let (scratch, store) = reading_store(&[run]).await?;
    let files = store.list(tree).await.map_err(failed)?;
    let mut diff = TreeDiff::default();
    if before != tree {
        diff.files = store.diff(before, tree).await.map_err(failed)?;
        let path = scratch.path().join("text");
        if store.write_diff_text(before, tree, &path, &[]).await.map_err(failed)? {
            diff.text = std::fs::read(&path).map_err(RunError::io("read", &path))?;
        }
    }
    let wanted = file
        .and_then(|(name, limit)| files.iter().find(|one| one.path == name.as_bytes() && one.size <= limit));
    let content = match wanted {
        Some(wanted) => store.contents(&[wanted]).await.map_err(failed)?.pop(),
        None => None,
    };
    store.close().await;
    Ok(TreeSnapshot { files, diff, content })
}

impl RunContext {
    /// Returns the secrets of all cases of a suite, as far as they are known without running an agent.
    #[must_use]
    pub fn known_secrets(&self, suite: &Suite, options: &PlanOptions) -> Vec<(String, Vec<u8>)> {
        let of = |combination| self.runner(combination, options).known_secrets(&combination.case);
        let mut secrets: Vec<(String, Vec<u8>)> = suite.combinations.iter().flat_map(of).collect();
        secrets.sort();
        secrets.dedup();
        secrets
    }
}
