//! Expected trees, stored in the run's object store so that results can be graded again without a network.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use yb_model::atomic_file::temporary_sibling;

use super::capture::{CaptureLimits, CaptureWarning, ObjectStore};
use super::error::RepoError;
use super::git_dir;
use super::import::{ImportResult, TreeImport};
use super::lock::FileLock;
use super::mirror::{Origin, ResolvedCommit, digest};
use super::rules::{IgnoreRules, PathGlobs};
use super::walk::IgnoreSource;

/// The refs of expected trees, named by the digest of their key.
const REFS: &str = "refs/expected";

impl ObjectStore {
    /// Returns the expected tree with this key, if it is stored.
    pub fn expected_tree(&self, key: &str) -> Option<String> {
        let text = std::fs::read_to_string(self.expected_path(key)).ok()?;
        Some(text.trim_end().to_owned()).filter(|id| git_dir::is_full_object_id(id))
    }

    /// Stores the tree of a commit in the cache as an expected tree.
    pub async fn store_expected_commit(
        &self,
        key: &str,
        resolved: &ResolvedCommit,
    ) -> Result<String, RepoError> {
        let Origin::Mirror(mirror) = &resolved.origin else {
            return Err(RepoError::BadName { what: "commit", name: resolved.commit.clone() });
        };
        let asked = format!("{}^{{tree}}", resolved.commit);
        let call = self.git().command("rev-parse").git_dir(mirror);
        let tree = call.args(["--verify", "--quiet", "--end-of-options", &asked]).text().await?;
        // Packs the tree without the commit, of which only the files are needed.
        self.git()
            .command("pack-objects")
            .git_dir(mirror)
            .args(["--revs", "--quiet", "--delta-base-offset"])
            .arg(self.path().join("objects/pack/pack"))
            .stdin(format!("{tree}\n").into_bytes())
            .bytes()
            .await?;
        self.store_expected_tree(key, tree)
    }

    /// Stores the files of a directory as an expected tree.
    pub async fn store_expected_directory(&self, key: &str, directory: &Path) -> Result<String, RepoError> {
        // Several trials may need the tree at the same time.
        let _lock =
            FileLock::acquire(&self.path().join(format!("expected-{}.lock", digest(key))), self.git())
                .await?;
        if let Some(tree) = self.expected_tree(key) {
            return Ok(tree);
        }
        let import = TreeImport::of_directory("expected", directory);
        let ImportResult { tree, .. } = self.import(import).await?;
        self.store_expected_tree(key, tree)
    }

    /// Captures a directory as the end tree of a trial. Ignored files are skipped unless they are tracked.
    pub async fn capture_directory(
        &self,
        name: &str,
        directory: &Path,
        tracked: BTreeSet<Vec<u8>>,
    ) -> Result<(String, Vec<CaptureWarning>), RepoError> {
        let import = TreeImport {
            message: "end",
            root: directory.to_owned(),
            tracked,
            rules: IgnoreRules::default(),
            ignore_source: IgnoreSource::FromTree,
            include: PathGlobs::none(),
            limits: CaptureLimits::default(),
        };
        let ImportResult { tree, commit, warnings, .. } = self.import(import).await?;
        self.set_ref(name, "end", &commit)?;
        Ok((tree, warnings))
    }

    /// Applies a patch to a tree and returns the resulting tree, without storing a ref: it depends on the start tree.
    pub async fn apply_patch(&self, start: &str, patch: &Path) -> Result<String, RepoError> {
        let index = temporary_sibling(&self.path().join("expected.index"));
        let patched = self.apply_patch_with_index(start, patch, &index).await;
        let _ = std::fs::remove_file(&index);
        patched
    }

    async fn apply_patch_with_index(
        &self,
        start: &str,
        patch: &Path,
        index: &Path,
    ) -> Result<String, RepoError> {
        let call = |name| self.git().command(name).git_dir(self.path()).index(index);
        call("read-tree").args(["--end-of-options", start]).bytes().await?;
        // Applies to the index only, so the paths in a patch can't write any files.
        call("apply")
            .args(["--cached", "--whitespace=nowarn", "--end-of-options"])
            .arg(patch)
            .bytes()
            .await?;
        Ok(call("write-tree").text().await?)
    }

    fn store_expected_tree(&self, key: &str, tree: String) -> Result<String, RepoError> {
        let path = self.expected_path(key);
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir).map_err(RepoError::io("create the directory", dir))?;
        }
        super::files::replace(&path, format!("{tree}\n").as_bytes())?;
        Ok(tree)
    }

    fn expected_path(&self, key: &str) -> PathBuf {
        self.path().join(REFS).join(digest(key))
    }
}
