//! Captures workspaces in a separate object store. The agent's `.git` is never opened: the work tree is read as plain files, and
//! ignored files are determined by the `.gitignore` files of the start tree.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::batch::BatchReader;
use super::error::{RepoError, blocking};
use super::git::Git;
use super::git_dir;
use super::import::{ImportResult, TreeImport, start_importer};
use super::rules::{IgnoreRules, PathGlobs};
use super::session::IdleSessions;
use super::walk::{IgnoreSource, lossy_path};
use super::workspace::Workspace;

/// Captures are not transferred over a network, so speed matters more than size.
const CONFIG: &str = "\tbare = true\n[pack]\n\tcompression = 1\n";
/// Further warnings are only counted.
const MAX_WARNINGS: usize = 200;

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

/// A file of a workspace that its captured tree does not have, or not with the same content. In paths, bytes that are not UTF-8
/// are shown as replacement characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CaptureWarning {
    /// The workspace is no longer a directory; the tree is empty.
    WorkspaceGone,
    /// A file or directory can't be read and is skipped.
    Unreadable {
        /// The path.
        path: String,
        /// The I/O error.
        reason: String,
    },
    /// A socket, fifo or device is skipped.
    SpecialFile {
        /// The path.
        path: String,
        /// The type of file.
        kind: &'static str,
    },
    /// A file is too large and replaced by a placeholder.
    HugeFile {
        /// The path.
        path: String,
        /// Its size in bytes.
        size: u64,
        /// The limit.
        limit: u64,
    },
    /// The holes of sparse files exceed the limit; a sparse file is replaced by a placeholder.
    SparseFile {
        /// The path.
        path: String,
        /// Its size in bytes, with holes.
        size: u64,
        /// The limit for the holes of all files.
        limit: u64,
    },
    /// A nested repository: its files are captured, its `.git` is not.
    NestedRepository {
        /// The directory.
        path: String,
    },
    /// A file whose name git does not allow in a tree is skipped.
    ReservedName {
        /// The path.
        path: String,
    },
    /// There are more files than the limit; the rest is skipped.
    TooManyFiles {
        /// The limit.
        limit: u64,
    },
    /// There are more files and directories than the limit; the rest is skipped.
    TooManyEntries {
        /// The first one that is skipped.
        path: String,
        /// The limit.
        limit: u64,
    },
    /// The files are larger in total than the limit; the rest is skipped.
    TooLarge {
        /// The first one that is skipped.
        path: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// A path is longer than the limit and skipped.
    PathTooLong {
        /// The beginning of the path.
        path: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// All paths together are longer than the limit; the rest is skipped.
    PathsTooLong {
        /// The first path that is skipped.
        path: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// There are more warnings.
    More {
        /// The number of further warnings.
        count: u64,
    },
}

impl CaptureWarning {
    pub(crate) fn unreadable(path: &[u8], error: &std::io::Error) -> Self {
        Self::Unreadable { path: lossy_path(path), reason: error.to_string() }
    }

    /// Whether the tree is incomplete because of a limit.
    pub fn is_exceeded_limit(&self) -> bool {
        matches!(
            self,
            Self::TooManyFiles { .. }
                | Self::TooManyEntries { .. }
                | Self::TooLarge { .. }
                | Self::PathTooLong { .. }
                | Self::PathsTooLong { .. }
        )
    }
}

impl fmt::Display for CaptureWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WorkspaceGone => f.write_str("the workspace was removed; its tree is empty"),
            Self::Unreadable { path, reason } => {
                write!(f, "skipped an unreadable file: `{path}`: {reason}")
            }
            Self::SpecialFile { path, kind } => write!(f, "skipped a {kind}: `{path}`"),
            Self::HugeFile { path, size, limit } => {
                write!(f, "replaced a file of {size} bytes by a placeholder (limit {limit}): `{path}`")
            }
            Self::SparseFile { path, size, limit } => write!(
                f,
                "replaced a sparse file of {size} bytes by a placeholder (limit {limit} for all holes): `{path}`"
            ),
            Self::NestedRepository { path } => {
                write!(f, "captured a nested repository as plain files: `{path}`")
            }
            Self::ReservedName { path } => write!(f, "skipped a name that git reserves: `{path}`"),
            Self::TooManyFiles { limit } => write!(f, "more than {limit} files; skipped the rest"),
            Self::TooManyEntries { path, limit } => {
                write!(f, "more than {limit} files and directories; skipped the rest: `{path}`")
            }
            Self::TooLarge { path, limit } => {
                write!(f, "the files have more than {limit} bytes; skipped the rest: `{path}`")
            }
            Self::PathTooLong { path, limit } => {
                write!(f, "skipped a path of more than {limit} bytes: `{path}`")
            }
            Self::PathsTooLong { path, limit } => {
                write!(f, "all paths together have more than {limit} bytes; skipped the rest: `{path}`")
            }
            Self::More { count } => write!(f, "and {count} more"),
        }
    }
}

/// A bounded list of warnings: an agent may cause any number of them.
#[derive(Debug, Default)]
pub(crate) struct Warnings {
    kept: Vec<CaptureWarning>,
    more: u64,
    /// The first limit that was exceeded.
    exceeded: Option<CaptureWarning>,
}

impl Warnings {
    pub(crate) fn push(&mut self, warning: CaptureWarning) {
        if self.exceeded.is_none() && warning.is_exceeded_limit() {
            self.exceeded = Some(warning.clone());
        }
        if self.kept.len() < MAX_WARNINGS {
            self.kept.push(warning);
        } else {
            self.more += 1;
        }
    }

    pub(crate) fn exceeded(&self) -> Option<CaptureWarning> {
        self.exceeded.clone()
    }

    pub(crate) fn into_vec(mut self) -> Vec<CaptureWarning> {
        if self.more > 0 {
            self.kept.push(CaptureWarning::More { count: self.more });
        }
        self.kept
    }
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
    paths: BTreeSet<Vec<u8>>,
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
}

/// The object store of a run, `objects.git`: all captured trees, under `refs/trials/<id>/{start,end}`.
#[derive(Debug, Clone)]
pub struct ObjectStore {
    path: PathBuf,
    git: Git,
    limits: CaptureLimits,
    reader: Option<Arc<BatchReader>>,
    pub(crate) idle: Arc<IdleGitProcesses>,
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
        check_trial_id(trial)?;
        let import = TreeImport {
            message: "start",
            root: workspace.path().to_owned(),
            tracked: workspace.tracked().clone(),
            rules: IgnoreRules::default(),
            ignore_source: IgnoreSource::FromTree,
            include: include.clone(),
            // The start tree is the case's, whatever its size.
            limits: CaptureLimits { max_growth: u64::MAX, ..self.limits },
        };
        let ImportResult { commit, tree, paths, rules, warnings, bytes, .. } = self.import(import).await?;
        let start = StartTree { tree, commit, warnings, paths, rules, include: include.clone(), bytes };
        self.reuse_start(trial, &start)?;
        Ok(start)
    }

    /// Records that a trial has the same start tree as another one, without reading the workspace again.
    pub fn reuse_start(&self, trial: &str, start: &StartTree) -> Result<(), RepoError> {
        self.set_ref(trial, "start", &start.commit)
    }

    /// Captures the end tree. All processes of the agent must have exited.
    pub async fn capture_end(
        &self,
        trial: &str,
        workspace: &Path,
        start: &StartTree,
    ) -> Result<EndTree, RepoError> {
        check_trial_id(trial)?;
        let import = TreeImport {
            message: "end",
            root: workspace.to_owned(),
            tracked: start.paths.clone(),
            rules: start.rules.clone(),
            ignore_source: IgnoreSource::Fixed,
            include: start.include.clone(),
            limits: CaptureLimits {
                max_growth: self.limits.max_growth.saturating_add(start.bytes),
                ..self.limits
            },
        };
        let ImportResult { commit, tree, warnings, exceeded, .. } = self.import(import).await?;
        let end = EndTree { tree, commit, warnings, exceeded };
        self.set_end(trial, &end)?;
        Ok(end)
    }

    /// Writes the empty tree, for a workspace that can't be captured. Fails only if the store itself can't be written.
    pub async fn empty_end(&self) -> Result<EndTree, RepoError> {
        let ImportResult { commit, tree, .. } = self.import(TreeImport::of_nothing("end")).await?;
        Ok(EndTree { tree, commit, warnings: Vec::new(), exceeded: None })
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
        self.idle.importers.give_back(importer).await;
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
    }
}

fn check_trial_id(trial: &str) -> Result<(), RepoError> {
    if git_dir::is_ref_name(trial) {
        Ok(())
    } else {
        Err(RepoError::BadName { what: "trial id", name: trial.to_owned() })
    }
}
