//! Captures workspaces in a separate object store. The agent's `.git` is never opened: the work tree is read as plain files, and
//! ignored files are determined by the `.gitignore` files of the start tree.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::base_tree::{BaseTree, FileStamps, is_large};
use super::batch::BatchReader;
use super::consolidate::Consolidation;
use super::error::{RepoError, blocking};
use super::git::Git;
use super::git_dir;
use super::import::{ImportResult, LowerTree, TreeImport, start_importer};
use super::rules::{IgnoreRules, PathGlobs};
use super::session::IdleSessions;
use super::walk::IgnoreSource;
use super::warning::CaptureWarning;
use super::workspace::Workspace;
use yb_supervise::OverlayMount;

/// Captures are not transferred over a network, so speed matters more than size.
const CONFIG: &str = "\tbare = true\n[pack]\n\tcompression = 1\n";

/// The most imports of one git process, each of which writes a pack.
const IMPORTS_PER_PROCESS: usize = 32;

/// How long idle git processes may take to exit.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// The limits of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CaptureLimits {
    /// A larger file is replaced by a placeholder with its size and digest.
    pub max_file_bytes: u64,
    /// Further files are skipped.
    pub max_files: u64,
    /// Files, directories and other entries that are visited; further ones are skipped.
    pub max_entries: u64,
    /// How much larger the end tree may be than the start tree; further files are skipped.
    pub max_growth: u64,
    /// Holes of sparse files, in total; further sparse files are replaced by placeholders.
    pub max_hole_bytes: u64,
    /// The longest path, in bytes, relative to the workspace. Such a path also fits where the tree is graded, whatever the length of
    /// that directory.
    pub max_path_bytes: usize,
    /// All paths together, in bytes.
    pub max_all_path_bytes: u64,
}

impl Default for CaptureLimits {
    fn default() -> Self {
        Self {
            max_file_bytes: 64 << 20,
            max_files: 500_000,
            max_entries: 2_000_000,
            max_growth: 4 << 30,
            max_hole_bytes: 256 << 20,
            max_path_bytes: 2048,
            max_all_path_bytes: 128 << 20,
        }
    }
}

impl CaptureLimits {
    /// No limits.
    pub(crate) const NONE: Self = Self {
        max_file_bytes: u64::MAX,
        max_files: u64::MAX,
        max_entries: u64::MAX,
        max_growth: u64::MAX,
        max_hole_bytes: u64::MAX,
        max_path_bytes: usize::MAX,
        max_all_path_bytes: u64::MAX,
    };
}

/// The tree that an agent started with: the base of all diffs.
#[derive(Debug, Clone)]
pub struct StartTree {
    /// The tree's id.
    pub tree: String,
    /// A commit of the tree without parents; `refs/trials/<id>/start`.
    pub commit: String,
    /// Differences between the workspace and the tree.
    pub warnings: Vec<CaptureWarning>,
    paths: Arc<BTreeSet<Vec<u8>>>,
    rules: IgnoreRules,
    include: PathGlobs,
    /// The size of all files.
    bytes: u64,
}

/// The tree that an agent left.
#[derive(Debug, Clone)]
pub struct EndTree {
    /// The tree's id.
    pub tree: String,
    /// A commit of the tree without parents; `refs/trials/<id>/end`.
    pub commit: String,
    /// Differences between the workspace and the tree.
    pub warnings: Vec<CaptureWarning>,
    /// The limit that was exceeded, if the tree is incomplete because of one.
    pub exceeded: Option<CaptureWarning>,
    /// How much larger it is than the start tree, in bytes.
    pub growth: u64,
}

/// The object store of a run, `objects.git`: all captured trees, under `refs/trials/<id>/{start,end}`.
#[derive(Debug, Clone)]
pub struct ObjectStore {
    path: PathBuf,
    git: Git,
    limits: CaptureLimits,
    reader: Option<Arc<BatchReader>>,
    pub(crate) idle: Arc<IdleGitProcesses>,
    pub(crate) consolidation: Arc<Consolidation>,
}

/// The idle git processes of a store.
#[derive(Debug, Default)]
pub(crate) struct IdleGitProcesses {
    importers: IdleSessions,
    pub(crate) differs: IdleSessions,
}

impl ObjectStore {
    /// Opens the store in a directory, or creates it.
    pub async fn open(path: impl AsRef<Path>, git: &Git) -> Result<Self, RepoError> {
        let path =
            std::path::absolute(path.as_ref()).map_err(RepoError::io("resolve the path", path.as_ref()))?;
        let store = path.clone();
        blocking(
            move || {
                if git_dir::is_complete(&store) { Ok(()) } else { git_dir::create(&store, "none", CONFIG) }
            },
        )
        .await?;
        Ok(Self {
            path,
            git: git.clone(),
            limits: CaptureLimits::default(),
            reader: None,
            idle: Arc::default(),
            consolidation: Arc::default(),
        })
    }

    /// Sets the limits of captures.
    #[must_use]
    pub fn limits(mut self, limits: CaptureLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Batches concurrent reads, so one git process serves many of them.
    #[must_use]
    pub fn batched(mut self) -> Self {
        self.reader = Some(Arc::new(BatchReader::new(&self)));
        self
    }

    pub(crate) fn reader(&self) -> Option<&BatchReader> {
        self.reader.as_deref()
    }

    /// The store's directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The git that the store uses.
    pub fn git(&self) -> &Git {
        &self.git
    }

    /// Captures the start tree, after `pre_execution` and before the agent. Its ignore rules, and the ignored files that are included
    /// nevertheless, also apply to the end tree.
    pub async fn capture_start(
        &self,
        trial: &str,
        workspace: &Workspace,
        include: &PathGlobs,
    ) -> Result<StartTree, RepoError> {
        self.import_start(trial, workspace, include, None).await
    }

    /// Captures the start tree of a workspace that no program of the case or the repository has run in. The files of a large commit are
    /// not read if they were not changed since they were checked out; the result is the same.
    pub async fn capture_fresh_start(
        &self,
        trial: &str,
        workspace: &Workspace,
        include: &PathGlobs,
    ) -> Result<StartTree, RepoError> {
        // What can't be packed can still be read.
        let base = workspace.base(self).await.unwrap_or(None);
        self.import_start(trial, workspace, include, base).await
    }

    async fn import_start(
        &self,
        trial: &str,
        workspace: &Workspace,
        include: &PathGlobs,
        base: Option<BaseTree>,
    ) -> Result<StartTree, RepoError> {
        check_trial_id(trial)?;
        let import = TreeImport {
            message: "start",
            root: workspace.files().to_owned(),
            tracked: Arc::clone(workspace.tracked()),
            rules: IgnoreRules::default(),
            ignore_source: IgnoreSource::FromTree,
            include: include.clone(),
            // The start tree is the case's, whatever its size.
            limits: CaptureLimits { max_growth: u64::MAX, ..self.limits },
            base,
            lower: None,
        };
        let ImportResult { commit, tree, paths, rules, warnings, bytes, .. } = self.import(import).await?;
        let paths = Arc::new(paths);
        let start = StartTree { tree, commit, warnings, paths, rules, include: include.clone(), bytes };
        self.reuse_start(trial, &start)?;
        Ok(start)
    }

    /// Records that a trial has the same start tree as another one, without reading the workspace again.
    pub fn reuse_start(&self, trial: &str, start: &StartTree) -> Result<(), RepoError> {
        self.set_ref(trial, "start", &start.commit)
    }

    /// Records the files of a start tree in a workspace, so that only changed ones have to be read after the agent. Returns `None` if
    /// that saves no time, or if a change might be missed. The caller decides whether change times
    /// [can be relied on](crate::has_reliable_change_times).
    pub async fn stamp_files(&self, workspace: &Path, start: &StartTree) -> Option<FileStamps> {
        if !is_large(start.paths.len(), start.bytes) {
            return None;
        }
        let (root, paths, limit) =
            (workspace.to_owned(), Arc::clone(&start.paths), self.limits.max_file_bytes);
        blocking(move || Ok(FileStamps::record(&root, paths.iter(), limit))).await.ok().flatten()
    }

    /// Captures the end tree. All processes of the agent must have exited.
    pub async fn capture_end(
        &self,
        trial: &str,
        workspace: &Path,
        start: &StartTree,
    ) -> Result<EndTree, RepoError> {
        self.capture_end_since(trial, workspace, start, None).await
    }

    /// Captures the end tree without reading the files that did not change since they were recorded. The result is the same.
    pub async fn capture_end_since(
        &self,
        trial: &str,
        workspace: &Path,
        start: &StartTree,
        stamps: Option<&FileStamps>,
    ) -> Result<EndTree, RepoError> {
        check_trial_id(trial)?;
        let end = self.import_end(workspace, start, stamps).await?;
        self.set_end(trial, &end)?;
        Ok(end)
    }

    async fn import_end(
        &self,
        workspace: &Path,
        start: &StartTree,
        stamps: Option<&FileStamps>,
    ) -> Result<EndTree, RepoError> {
        let import = TreeImport {
            root: workspace.to_owned(),
            base: stamps.and_then(|stamps| stamps.base(&start.tree)),
            ..self.end_import(start)
        };
        let ImportResult { commit, tree, warnings, exceeded, bytes, .. } = self.import(import).await?;
        Ok(EndTree { tree, commit, warnings, exceeded, growth: bytes.saturating_sub(start.bytes) })
    }

    /// Captures the workspace while the agent is suspended, as `refs/trials/<id>/step-<number>`. Limits and rules are those of the
    /// end tree.
    pub async fn capture_step(
        &self,
        trial: &str,
        number: usize,
        workspace: &Workspace,
        start: &StartTree,
        stamps: Option<&FileStamps>,
    ) -> Result<EndTree, RepoError> {
        check_trial_id(trial)?;
        let step = match workspace.overlay() {
            Some(overlay) => self.import_end_of_overlay(overlay, start).await?,
            None => self.import_end(workspace.path(), start, stamps).await?,
        };
        self.set_ref(trial, &format!("step-{number}"), &step.commit)?;
        Ok(step)
    }

    /// Captures the end tree of a workspace that is an overlay, from its upper layer. The lower layer must have the start tree. The
    /// result is the same as that of [`Self::capture_end`] on the mounted overlay.
    pub async fn capture_end_of_overlay(
        &self,
        trial: &str,
        overlay: &OverlayMount,
        start: &StartTree,
    ) -> Result<EndTree, RepoError> {
        check_trial_id(trial)?;
        let end = self.import_end_of_overlay(overlay, start).await?;
        self.set_end(trial, &end)?;
        Ok(end)
    }

    async fn import_end_of_overlay(
        &self,
        overlay: &OverlayMount,
        start: &StartTree,
    ) -> Result<EndTree, RepoError> {
        let lower = LowerTree {
            tree: start.tree.clone(),
            paths: Arc::clone(&start.paths),
            bytes: start.bytes,
            root: overlay.lower.clone(),
            max_file_bytes: self.limits.max_file_bytes,
        };
        let import = TreeImport { root: overlay.upper.clone(), lower: Some(lower), ..self.end_import(start) };
        let ImportResult { commit, tree, mut warnings, exceeded, bytes, .. } = self.import(import).await?;
        // What was left out of the start tree is still there, unless it was changed.
        let is_same = |warning: &&CaptureWarning| {
            let path = warning.path().map(|path| overlay.target.join(path));
            path.is_none_or(|path| overlay.resolve(&path).is_some_and(|at| at.starts_with(&overlay.lower)))
        };
        let known = start.warnings.iter().filter(is_same).cloned();
        warnings.splice(0..0, known.collect::<Vec<_>>());
        Ok(EndTree { tree, commit, warnings, exceeded, growth: bytes.saturating_sub(start.bytes) })
    }

    /// An import of an end tree, without its directory.
    fn end_import(&self, start: &StartTree) -> TreeImport {
        TreeImport {
            tracked: Arc::clone(&start.paths),
            rules: start.rules.clone(),
            ignore_source: IgnoreSource::Fixed,
            include: start.include.clone(),
            limits: CaptureLimits {
                max_growth: self.limits.max_growth.saturating_add(start.bytes),
                ..self.limits
            },
            ..TreeImport::of_nothing("end")
        }
    }

    /// Writes the empty tree, for a workspace that can't be captured. Fails only if the store itself can't be written.
    pub async fn empty_end(&self) -> Result<EndTree, RepoError> {
        let ImportResult { commit, tree, .. } = self.import(TreeImport::of_nothing("end")).await?;
        Ok(EndTree { tree, commit, warnings: Vec::new(), exceeded: None, growth: 0 })
    }

    /// Records the end tree of a trial.
    pub fn set_end(&self, trial: &str, end: &EndTree) -> Result<(), RepoError> {
        self.set_ref(trial, "end", &end.commit)
    }

    /// Starts the git processes that the first trial needs, while it is being prepared. Errors are ignored, since they recur when
    /// the processes are needed.
    pub fn warm_up(&self) {
        let store = self.clone();
        tokio::spawn(async move {
            if let Ok(importer) = start_importer(&store.git, &store.path).await {
                store.idle.importers.give_back(importer).await;
            }
            if let Ok(differ) = store.differ().await {
                store.idle.differs.give_back(differ).await;
            }
        });
    }

    /// Imports into this store, with a long-running git process.
    pub(super) async fn import(&self, import: TreeImport) -> Result<ImportResult, RepoError> {
        let importer = match self.idle.importers.take().await {
            Some(importer) => importer,
            None => start_importer(&self.git, &self.path).await?,
        };
        let (importer, imported) = import.run_with(importer).await?;
        if importer.requests() < IMPORTS_PER_PROCESS {
            self.idle.importers.give_back(importer).await;
        } else {
            // Git keeps the packs of an importer as they are until it exits.
            let _ = importer.end().await;
            self.consolidate_in_background();
        }
        Ok(imported)
    }

    /// Sets `refs/trials/<trial>/<name>`. Only one attempt of a trial runs at a time, so an existing ref is from an attempt that was
    /// killed, perhaps while writing it.
    pub(super) fn set_ref(&self, trial: &str, name: &str, commit: &str) -> Result<(), RepoError> {
        check_trial_id(trial)?;
        let dir = self.path.join("refs/trials").join(trial);
        match std::fs::create_dir(&dir) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                std::fs::create_dir_all(&dir).map_err(RepoError::io("create the directory", &dir))?;
            }
            _ => {}
        }
        git_dir::write(&dir.join(name), &format!("{commit}\n"))
    }

    /// Ends idle git processes; kills those that take too long.
    pub async fn close(&self) {
        let all = async { tokio::join!(self.idle.importers.close(), self.idle.differs.close()) };
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, all).await;
        self.end_consolidation().await;
    }
}

fn check_trial_id(trial: &str) -> Result<(), RepoError> {
    if git_dir::is_ref_name(trial) {
        Ok(())
    } else {
        Err(RepoError::BadName { what: "trial id", name: trial.to_owned() })
    }
}
