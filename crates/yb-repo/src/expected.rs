//! Expected trees, stored in the run's object store so that results can be graded again without a network.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use yb_model::atomic_file::temporary_sibling;

use super::capture::{CaptureLimits, ObjectStore};
use super::error::{RepoError, blocking};
use super::git_dir;
use super::import::{ImportResult, TreeImport};
use super::lock::FileLock;
use super::mirror::{Origin, ResolvedCommit, digest};
use super::rules::{IgnoreRules, PathGlobs};
use super::walk::IgnoreSource;
use super::warning::CaptureWarning;

/// Links the packs of a repository, which are never changed, into another one. Returns whether all its objects are there.
fn link_packs(objects: &Path, to: &Path) -> bool {
    let is_loose = |name: &str| name.len() == 2;
    let link = || -> std::io::Result<bool> {
        for entry in std::fs::read_dir(objects)? {
            if is_loose(&entry?.file_name().to_string_lossy()) {
                return Ok(false);
            }
        }
        let mut files = std::fs::read_dir(objects.join("pack"))?.collect::<Result<Vec<_>, _>>()?;
        // A pack counts as soon as its index is there.
        files.sort_by_key(|file| file.path().extension() == Some("idx".as_ref()));
        std::fs::create_dir_all(to)?;
        for file in &files {
            match std::fs::hard_link(file.path(), to.join(file.file_name())) {
                Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        Ok(!files.is_empty())
    };
    link().unwrap_or(false)
}

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
        let tree = self.copy_tree_of(mirror, &resolved.commit).await?;
        self.store_expected_tree(key, tree)
    }

    /// Stores the tree of a commit of a pruned repository.
    pub(crate) async fn store_commit_tree(
        &self,
        repository: &Path,
        commit: &str,
    ) -> Result<String, RepoError> {
        let key = format!("tree of {commit}");
        let lock = self.path().join(format!("tree-{}.lock", digest(&key)));
        // Trials of several variants start with the same commit.
        let _lock = FileLock::acquire(&lock, self.git()).await?;
        match self.expected_tree(&key) {
            Some(tree) => Ok(tree),
            None => {
                let (from, to) = (repository.join("objects"), self.path().join("objects/pack"));
                let tree = if blocking(move || Ok(link_packs(&from, &to))).await? {
                    self.tree_of(repository, commit).await?
                } else {
                    self.copy_tree_of(repository, commit).await?
                };
                self.store_expected_tree(&key, tree)
            }
        }
    }

    /// Packs the tree of a commit, without the commit itself, of which only the files are needed.
    async fn copy_tree_of(&self, repository: &Path, commit: &str) -> Result<String, RepoError> {
        let tree = self.tree_of(repository, commit).await?;
        self.git()
            .command("pack-objects")
            .git_dir(repository)
            .args(["--revs", "--quiet", "--delta-base-offset", "--window=0"])
            .arg(self.path().join("objects/pack/pack"))
            .stdin(format!("{tree}\n").into_bytes())
            .bytes()
            .await?;
        Ok(tree)
    }

    async fn tree_of(&self, repository: &Path, commit: &str) -> Result<String, RepoError> {
        let asked = format!("{commit}^{{tree}}");
        let call = self.git().command("rev-parse").git_dir(repository);
        Ok(call.args(["--verify", "--quiet", "--end-of-options", &asked]).text().await?)
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
            tracked: Arc::new(tracked),
            rules: IgnoreRules::default(),
            ignore_source: IgnoreSource::FromTree,
            include: PathGlobs::none(),
            limits: CaptureLimits::default(),
            base: None,
            lower: None,
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

    /// Copies the files of a directory over a tree and returns the resulting tree, without storing a ref.
    pub async fn overlay(&self, start: &str, directory: &Path) -> Result<String, RepoError> {
        let ImportResult { tree, .. } = self.import(TreeImport::of_directory("overlay", directory)).await?;
        let index = temporary_sibling(&self.path().join("overlay.index"));
        let call = |name| self.git().command(name).git_dir(self.path()).index(&index);
        let overlaid = async {
            call("read-tree").args(["--end-of-options", start]).bytes().await?;
            let files = call("ls-tree").args(["-r", "-z", "--full-tree", &tree]).bytes().await?;
            call("update-index").args(["-z", "--replace", "--index-info"]).stdin(files).bytes().await?;
            Ok(call("write-tree").text().await?)
        };
        let overlaid = overlaid.await;
        let _ = std::fs::remove_file(&index);
        overlaid
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
