//! Uncommitted changes of a local repository, which a start tree does not have.

use std::fs;
use std::path::Path;

use super::error::RepoError;
use super::mirror::{Cache, Origin, ResolvedCommit};
use super::source::Source;
use yb_model::atomic_file::temporary_sibling;

impl Cache {
    /// Returns the tracked files in the working tree of a local repository that differ from a commit. Other sources have none.
    ///
    /// Git runs with the mirror as repository, so that no filter, hook or monitor of the other repository runs.
    pub async fn uncommitted(
        &self,
        source: &Source,
        resolved: &ResolvedCommit,
    ) -> Result<Vec<String>, RepoError> {
        let (Source::Local(path), Origin::Mirror(mirror)) = (source, &resolved.origin) else {
            return Ok(Vec::new());
        };
        if !path.join(".git").exists() {
            return Ok(Vec::new());
        }
        let index = temporary_sibling(&mirror.with_extension("index"));
        let found = self.differing(path, mirror, &resolved.commit, &index).await;
        let _ = fs::remove_file(&index);
        found
    }

    async fn differing(
        &self,
        path: &Path,
        mirror: &Path,
        commit: &str,
        index: &Path,
    ) -> Result<Vec<String>, RepoError> {
        let call = |name| self.git.command(name).git_dir(mirror).work_tree(path).index(index);
        // The times in the repository's own index save reading all files.
        if fs::copy(path.join(".git/index"), index).is_err() {
            call("read-tree").args(["--end-of-options", commit]).bytes().await?;
        }
        let differing = call("diff")
            .current_dir(path)
            .args([
                "--name-only",
                "-z",
                "--no-ext-diff",
                "--no-textconv",
                "--ignore-submodules",
                commit,
                "--",
            ])
            .bytes()
            .await?;
        let names = differing.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        Ok(names.map(|name| String::from_utf8_lossy(name).into_owned()).collect())
    }
}
