//! Trees that a result is compared with, kept in a run's own store, so that it can be graded again without a network.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use yb_model::atomic_file::temporary_sibling;

use super::capture::{CaptureLimits, CaptureWarning, ObjectStore};
use super::error::RepoError;
use super::import::{Import, Imported};
use super::lock::Lock;
use super::mirror::{Origin, Resolved, digest};
use super::rules::{Include, Rules};
use super::skeleton;
use super::walk::Learn;

/// Where expected trees are, by the digest of what they were called.
const REFS: &str = "refs/expected";

impl ObjectStore {
    /// The tree that was kept under this key.
    pub fn expected(&self, key: &str) -> Option<String> {
        let text = std::fs::read_to_string(self.expected_place(key)).ok()?;
        Some(text.trim_end().to_owned()).filter(|id| skeleton::is_whole_id(id))
    }

    /// Keeps the tree of a commit that the cache has.
    pub async fn expect_commit(&self, key: &str, resolved: &Resolved) -> Result<String, RepoError> {
        let Origin::Mirror(mirror) = &resolved.origin else {
            return Err(RepoError::BadName { what: "commit", name: resolved.commit.clone() });
        };
        let asked = format!("{}^{{tree}}", resolved.commit);
        let call = self.git().call("rev-parse").git_dir(mirror);
        let tree = call.args(["--verify", "--quiet", "--end-of-options", &asked]).text().await?;
        // Without the commit: nothing but the files themselves is needed.
        self.git()
            .call("pack-objects")
            .git_dir(mirror)
            .args(["--revs", "--quiet", "--delta-base-offset"])
            .arg(self.path().join("objects/pack/pack"))
            .stdin(format!("{tree}\n").into_bytes())
            .bytes()
            .await?;
        self.keep_expected(key, tree)
    }

    /// Keeps the files of a directory as a tree.
    pub async fn expect_directory(&self, key: &str, directory: &Path) -> Result<String, RepoError> {
        // Trials that end at the same moment all want it; one makes it.
        let _lock =
            Lock::take(&self.path().join(format!("expected-{}.lock", digest(key))), self.git()).await?;
        if let Some(tree) = self.expected(key) {
            return Ok(tree);
        }
        let import = Import {
            message: "expected",
            root: directory.to_owned(),
            tracked: BTreeSet::new(),
            rules: Rules::default(),
            learn: Learn::FromTree,
            include: Include::nothing(),
            limits: CaptureLimits { max_file_bytes: u64::MAX, max_files: u64::MAX },
        };
        let Imported { tree, .. } = self.import(import).await?;
        self.keep_expected(key, tree)
    }

    /// Records a directory as it is, under this name. What its rules ignore is left out, unless it is tracked.
    pub async fn capture_directory(
        &self,
        name: &str,
        directory: &Path,
        tracked: BTreeSet<Vec<u8>>,
    ) -> Result<(String, Vec<CaptureWarning>), RepoError> {
        let import = Import {
            message: "end",
            root: directory.to_owned(),
            tracked,
            rules: Rules::default(),
            learn: Learn::FromTree,
            include: Include::nothing(),
            limits: CaptureLimits::default(),
        };
        let Imported { tree, commit, warnings, .. } = self.import(import).await?;
        self.name(name, "end", &commit)?;
        Ok((tree, warnings))
    }

    /// The tree that a patch makes of another. It is not kept: another start gives another tree.
    pub async fn patched(&self, start: &str, patch: &Path) -> Result<String, RepoError> {
        let index = temporary_sibling(&self.path().join("expected.index"));
        let made = self.patched_with(start, patch, &index).await;
        let _ = std::fs::remove_file(&index);
        made
    }

    async fn patched_with(&self, start: &str, patch: &Path, index: &Path) -> Result<String, RepoError> {
        let call = |name| self.git().call(name).git_dir(self.path()).index(index);
        call("read-tree").args(["--end-of-options", start]).bytes().await?;
        // Into the index alone: no path of a patch leads anywhere.
        call("apply")
            .args(["--cached", "--whitespace=nowarn", "--end-of-options"])
            .arg(patch)
            .bytes()
            .await?;
        Ok(call("write-tree").text().await?)
    }

    fn keep_expected(&self, key: &str, tree: String) -> Result<String, RepoError> {
        let place = self.expected_place(key);
        if let Some(folder) = place.parent() {
            std::fs::create_dir_all(folder).map_err(RepoError::io("make the directory", folder))?;
        }
        super::files::replace(&place, format!("{tree}\n").as_bytes())?;
        Ok(tree)
    }

    fn expected_place(&self, key: &str) -> PathBuf {
        self.path().join(REFS).join(digest(key))
    }
}
