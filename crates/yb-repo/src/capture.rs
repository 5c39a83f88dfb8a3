//! What an agent left, kept in a store of our own. The agent's `.git` is not so much as opened: the work tree is
//! read as plain files, and what is ignored is decided by the rules of the start.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::batch::Reader;
use super::error::{RepoError, blocking};
use super::git::Git;
use super::import::{Import, Imported, importer};
use super::rules::{Include, Rules};
use super::session::Waiting;
use super::skeleton;
use super::walk::{Learn, lossy};
use super::workspace::Workspace;

/// Captures are never read over a network; speed counts more than the last percent of space.
const CONFIG: &str = "\tbare = true\n[pack]\n\tcompression = 1\n";
/// Beyond this many warnings only their number is kept.
const MAX_WARNINGS: usize = 200;

/// How long gits that have nothing to do may take to end.
const CLOSE_LIMIT: Duration = Duration::from_millis(500);

/// How much of a workspace is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CaptureLimits {
    /// A larger file is replaced by a note with its size and digest.
    pub max_file_bytes: u64,
    /// Further files are left out.
    pub max_files: u64,
}

impl Default for CaptureLimits {
    fn default() -> Self {
        Self { max_file_bytes: 64 << 20, max_files: 500_000 }
    }
}

/// Something in a workspace that is not in its tree as it is on disk. Paths that are not UTF-8 are shown with
/// replacement characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CaptureWarning {
    /// The workspace is no directory any more; the tree is empty.
    WorkspaceGone,
    /// A file or directory can't be read and is left out.
    Unreadable {
        /// Where.
        path: String,
        /// What the system said.
        reason: String,
    },
    /// A socket, fifo or device is left out.
    SpecialFile {
        /// Where.
        path: String,
        /// What it is.
        kind: &'static str,
    },
    /// A file is too large; a note stands in its place.
    HugeFile {
        /// Where.
        path: String,
        /// Its size in bytes.
        size: u64,
        /// The limit.
        limit: u64,
    },
    /// A repository within the workspace: its files are kept, its `.git` is not.
    NestedRepository {
        /// The directory.
        path: String,
    },
    /// A name that git can't have in a tree is left out.
    ReservedName {
        /// Where.
        path: String,
    },
    /// There are more files than are kept.
    TooManyFiles {
        /// The limit.
        limit: u64,
    },
    /// There was more to warn of.
    More {
        /// So many more warnings.
        count: u64,
    },
}

impl CaptureWarning {
    pub(crate) fn unreadable(path: &[u8], error: &std::io::Error) -> Self {
        Self::Unreadable { path: lossy(path), reason: error.to_string() }
    }
}

impl fmt::Display for CaptureWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WorkspaceGone => f.write_str("the workspace is gone; its tree is empty"),
            Self::Unreadable { path, reason } => {
                write!(f, "can't be read and is left out: `{path}`: {reason}")
            }
            Self::SpecialFile { path, kind } => write!(f, "a {kind} is left out: `{path}`"),
            Self::HugeFile { path, size, limit } => {
                write!(f, "file of {size} bytes is replaced by a note (limit {limit}): `{path}`")
            }
            Self::NestedRepository { path } => {
                write!(f, "a repository within the workspace is kept as plain files: `{path}`")
            }
            Self::ReservedName { path } => write!(f, "a name that git reserves is left out: `{path}`"),
            Self::TooManyFiles { limit } => write!(f, "more than {limit} files; the rest is left out"),
            Self::More { count } => write!(f, "and {count} more"),
        }
    }
}

/// Warnings, bounded: an agent may cause any number of them.
#[derive(Debug, Default)]
pub(crate) struct Warnings {
    kept: Vec<CaptureWarning>,
    more: u64,
}

impl Warnings {
    pub(crate) fn push(&mut self, warning: CaptureWarning) {
        if self.kept.len() < MAX_WARNINGS {
            self.kept.push(warning);
        } else {
            self.more += 1;
        }
    }

    pub(crate) fn into_vec(mut self) -> Vec<CaptureWarning> {
        if self.more > 0 {
            self.kept.push(CaptureWarning::More { count: self.more });
        }
        self.kept
    }
}

/// The tree that an agent began with: the base of every diff.
#[derive(Debug, Clone)]
pub struct StartTree {
    /// The tree's id.
    pub tree: String,
    /// A commit of it without parents; `refs/trials/<id>/start`.
    pub commit: String,
    /// What is not in it.
    pub warnings: Vec<CaptureWarning>,
    paths: BTreeSet<Vec<u8>>,
    rules: Rules,
    include: Include,
}

/// The tree that an agent left.
#[derive(Debug, Clone)]
pub struct EndTree {
    /// The tree's id.
    pub tree: String,
    /// A commit of it without parents; `refs/trials/<id>/end`.
    pub commit: String,
    /// What is not in it.
    pub warnings: Vec<CaptureWarning>,
}

/// A run's own store, `objects.git`: every tree that was measured, under `refs/trials/<id>/{start,end}`.
#[derive(Debug, Clone)]
pub struct ObjectStore {
    path: PathBuf,
    git: Git,
    limits: CaptureLimits,
    reader: Option<Arc<Reader>>,
    pub(crate) waiting: Arc<Gits>,
}

/// The gits of a store that wait for the next question.
#[derive(Debug, Default)]
pub(crate) struct Gits {
    importers: Waiting,
    pub(crate) differs: Waiting,
}

impl ObjectStore {
    /// Opens the store in this directory, or makes it.
    pub async fn open(path: impl AsRef<Path>, git: &Git) -> Result<Self, RepoError> {
        let path = std::path::absolute(path.as_ref())
            .map_err(RepoError::io("find the directory of", path.as_ref()))?;
        let store = path.clone();
        blocking(
            move || {
                if skeleton::is_whole(&store) { Ok(()) } else { skeleton::create(&store, "none", CONFIG) }
            },
        )
        .await?;
        Ok(Self {
            path,
            git: git.clone(),
            limits: CaptureLimits::default(),
            reader: None,
            waiting: Arc::default(),
        })
    }

    /// Other limits than the usual ones.
    #[must_use]
    pub fn limits(mut self, limits: CaptureLimits) -> Self {
        self.limits = limits;
        self
    }

    /// The same for many who read at once: what they ask is gathered, and one git answers many of them.
    #[must_use]
    pub fn gathered(mut self) -> Self {
        self.reader = Some(Arc::new(Reader::new(&self)));
        self
    }

    pub(crate) fn reader(&self) -> Option<&Reader> {
        self.reader.as_deref()
    }

    /// The store's directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn git(&self) -> &Git {
        &self.git
    }

    /// Records what the agent will begin with: after `pre_execution`, before the agent. Its ignore rules, and what
    /// is included in spite of them, hold for the end as well.
    pub async fn start(
        &self,
        trial: &str,
        workspace: &Workspace,
        include: &Include,
    ) -> Result<StartTree, RepoError> {
        check_name(trial)?;
        let import = Import {
            message: "start",
            root: workspace.path().to_owned(),
            tracked: workspace.tracked().clone(),
            rules: Rules::default(),
            learn: Learn::FromTree,
            include: include.clone(),
            limits: self.limits,
        };
        let Imported { commit, tree, paths, rules, warnings } = self.import(import).await?;
        let start = StartTree { tree, commit, warnings, paths, rules, include: include.clone() };
        self.start_as(trial, &start)?;
        Ok(start)
    }

    /// Records that a trial begins with a tree that another one began with: nothing ran in between that could have
    /// changed it, so nothing is read again.
    pub fn start_as(&self, trial: &str, start: &StartTree) -> Result<(), RepoError> {
        self.name(trial, "start", &start.commit)
    }

    /// Records what the agent left. Every process of the agent must be dead.
    pub async fn end(&self, trial: &str, workspace: &Path, start: &StartTree) -> Result<EndTree, RepoError> {
        check_name(trial)?;
        let import = Import {
            message: "end",
            root: workspace.to_owned(),
            tracked: start.paths.clone(),
            rules: start.rules.clone(),
            learn: Learn::Nothing,
            include: start.include.clone(),
            limits: self.limits,
        };
        let Imported { commit, tree, warnings, .. } = self.import(import).await?;
        self.name(trial, "end", &commit)?;
        Ok(EndTree { tree, commit, warnings })
    }

    /// Starts the gits that the first trial will ask, while it is still being prepared. What goes wrong here shows when they
    /// are asked.
    pub fn warm_up(&self) {
        let store = self.clone();
        tokio::spawn(async move {
            if let Ok(importer) = importer(&store.git, &store.path).await {
                store.waiting.importers.give_back(importer).await;
            }
            if let Ok(differ) = store.differ().await {
                store.waiting.differs.give_back(differ).await;
            }
        });
    }

    /// Imports into this store, with a git that stays.
    pub(super) async fn import(&self, import: Import) -> Result<Imported, RepoError> {
        let importer = match self.waiting.importers.take().await {
            Some(importer) => importer,
            None => importer(&self.git, &self.path).await?,
        };
        let (importer, imported) = import.run_by(importer).await?;
        self.waiting.importers.give_back(importer).await;
        Ok(imported)
    }

    /// Gives a commit its name. Only one attempt of a trial is ever at work: what stands there is that of an attempt that
    /// was killed, perhaps while it was written.
    pub(super) fn name(&self, trial: &str, moment: &str, commit: &str) -> Result<(), RepoError> {
        check_name(trial)?;
        let folder = self.path.join("refs/trials").join(trial);
        match std::fs::create_dir(&folder) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                std::fs::create_dir_all(&folder).map_err(RepoError::io("make the directory", &folder))?;
            }
            _ => {}
        }
        skeleton::write(&folder.join(moment), &format!("{commit}\n"))
    }

    /// Lets the gits that wait for further questions end; those that take too long are ended.
    pub async fn close(&self) {
        let all = async { tokio::join!(self.waiting.importers.close(), self.waiting.differs.close()) };
        let _ = tokio::time::timeout(CLOSE_LIMIT, all).await;
    }
}

fn check_name(trial: &str) -> Result<(), RepoError> {
    if skeleton::is_ref_name(trial) {
        Ok(())
    } else {
        Err(RepoError::BadName { what: "trial id", name: trial.to_owned() })
    }
}
