//! Workspaces: the directories that agents work in. Each is a separate repository, copied from a pruned one.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::base_tree::{BaseTree, Stamp, Stamps, SteadyClock, is_large};
use super::capture::ObjectStore;
use super::error::{RepoError, blocking};
use super::files;
use super::git::Git;
use super::git_dir;
use super::pruned::{ListedFile, PrunedRepo};
use super::walk::lossy_path;
use yb_supervise::OverlayMount;

/// The mode of a submodule in a tree.
const GITLINK: u32 = 0o160_000;
/// The bits of a mode that hold the file type.
const FILE_TYPE: u32 = 0o170_000;
/// The modes of a file.
const PLAIN: u32 = 0o100_644;
const EXECUTABLE: u32 = 0o100_755;
/// The type of a regular file.
const REGULAR: u32 = 0o100_000;

/// Options of a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspaceOptions {
    /// The branch that is checked out.
    pub branch: String,
    /// The committer; without one, git refuses to commit.
    pub identity: Option<Identity>,
}

impl Default for WorkspaceOptions {
    fn default() -> Self {
        Self { branch: "main".to_owned(), identity: None }
    }
}

/// A committer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The name.
    pub name: String,
    /// The email address.
    pub email: String,
}

/// A feature of a repository that workspaces do not support.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnsupportedFeature {
    /// A submodule: its directory is empty.
    Submodule {
        /// The directory.
        path: String,
    },
    /// Files in Git LFS: the workspace has their pointer files.
    Lfs {
        /// The `.gitattributes` file that configures it.
        attributes: String,
    },
}

impl fmt::Display for UnsupportedFeature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Submodule { path } => {
                write!(f, "submodules are not supported; the directory is empty: `{path}`")
            }
            Self::Lfs { attributes } => {
                write!(f, "Git LFS is not supported; files are pointers: `{attributes}`")
            }
        }
    }
}

/// The working directory of an agent.
#[derive(Debug, Clone)]
pub struct Workspace {
    path: PathBuf,
    commit: String,
    unsupported: Vec<UnsupportedFeature>,
    tracked: Arc<BTreeSet<Vec<u8>>>,
    checkout: Checkout,
    overlay: Option<OverlayMount>,
}

/// How a workspace gets the objects of its repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Objects {
    /// As copies, which processes may change.
    Copied,
    /// As hard links where possible, since nothing writes to the workspace.
    Shared,
}

/// What the files of a workspace were checked out from.
#[derive(Debug, Clone)]
struct Checkout {
    repository: PathBuf,
    listing: Arc<Vec<ListedFile>>,
    clock: SteadyClock,
}

impl Workspace {
    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The overlay that has to be mounted at [`Self::path`] for each process, if the workspace is one. Otherwise the directory has the
    /// files.
    pub fn overlay(&self) -> Option<&OverlayMount> {
        self.overlay.as_ref()
    }

    /// The directory with the files that are checked out.
    pub(crate) fn files(&self) -> &Path {
        self.overlay.as_ref().map_or(&self.path, |overlay| &overlay.lower)
    }

    /// The commit that is checked out.
    pub fn commit(&self) -> &str {
        &self.commit
    }

    /// Features of the repository that the workspace does not support.
    pub fn unsupported(&self) -> &[UnsupportedFeature] {
        &self.unsupported
    }

    /// The files of the commit.
    pub(crate) fn tracked(&self) -> &Arc<BTreeSet<Vec<u8>>> {
        &self.tracked
    }

    /// Copies the tree of a large commit to a store, and returns it with the files that did not change since they were checked out.
    /// Git may change the content of files if there are attributes.
    pub(crate) async fn base(&self, store: &ObjectStore) -> Result<Option<BaseTree>, RepoError> {
        let Checkout { repository, listing, clock } = &self.checkout;
        let bytes = listing.iter().filter_map(|file| file.size).sum();
        if !is_large(listing.len(), bytes) || listing.iter().any(|file| is_attributes(&file.path)) {
            return Ok(None);
        }
        let (root, listing) = (self.files().to_owned(), Arc::clone(listing));
        let files = blocking(move || Ok(unchanged_files(&root, &listing))).await?;
        if files.values().all(Option::is_none) || !clock.is_steady() {
            return Ok(None);
        }
        let tree = store.store_commit_tree(repository, &self.commit).await?;
        Ok(Some(BaseTree { tree, files: Arc::new(files) }))
    }
}

/// Returns all files of a commit, with the stamps of those that did not change since git checked them out. It writes the index last.
fn unchanged_files(root: &Path, listing: &[ListedFile]) -> Stamps {
    let stamp_of = |path: &Path| fs::symlink_metadata(path).ok().as_ref().and_then(Stamp::of);
    let Some(index) = stamp_of(&root.join(".git/index")) else { return Stamps::new() };
    let stamp = |file: &ListedFile| {
        let found = stamp_of(&root.join(files::path_from_bytes(&file.path)))?;
        let mode = if found.is_executable() { EXECUTABLE } else { PLAIN };
        let is_same = file.mode == mode && file.size == Some(found.size()) && found.changed < index.changed;
        is_same.then_some(found)
    };
    listing.iter().map(|file| (file.path.clone(), stamp(file))).collect()
}

impl PrunedRepo {
    /// Creates a workspace in a directory that is empty or does not exist.
    pub async fn workspace(
        &self,
        git: &Git,
        directory: impl AsRef<Path>,
        options: &WorkspaceOptions,
    ) -> Result<Workspace, RepoError> {
        let clock = SteadyClock::start();
        let path = self.check_out(git, directory.as_ref(), options, Objects::Copied).await?;
        let (pruned, target) = (self.clone(), path.clone());
        let unsupported = blocking(move || Ok(pruned.unsupported(&target))).await?;
        Ok(self.opened(path, unsupported, clock, None))
    }

    /// Returns the workspace in another root: a directory of it, whose changes are in an upper layer. It has no repository of its
    /// own.
    #[must_use]
    pub fn workspace_in_root(&self, overlay: OverlayMount) -> Workspace {
        self.opened(overlay.target.clone(), Vec::new(), SteadyClock::start(), Some(overlay))
    }

    /// Creates a repository in a directory that is empty or does not exist, checks out the commit, and returns the absolute path.
    pub(crate) async fn check_out(
        &self,
        git: &Git,
        directory: &Path,
        options: &WorkspaceOptions,
        objects: Objects,
    ) -> Result<PathBuf, RepoError> {
        let path = std::path::absolute(directory).map_err(RepoError::io("resolve the path", directory))?;
        if !git_dir::is_ref_name(&options.branch) {
            return Err(RepoError::BadName { what: "branch", name: options.branch.clone() });
        }
        let config = config(options)?;
        let (pruned, branch, target) = (self.clone(), options.branch.clone(), path.clone());
        blocking(move || create_repository(&pruned, &target, &branch, &config, objects)).await?;
        git.command("read-tree")
            .git_dir(&path.join(".git"))
            .work_tree(&path)
            .args(["--reset", "-u", "--no-recurse-submodules", self.commit()])
            .bytes()
            .await?;
        Ok(path)
    }

    /// Returns the workspace in a directory with the checked out files, or with an overlay of them.
    pub(crate) fn opened(
        &self,
        path: PathBuf,
        unsupported: Vec<UnsupportedFeature>,
        clock: SteadyClock,
        overlay: Option<OverlayMount>,
    ) -> Workspace {
        let files = self.listing().iter().filter(|file| file.mode != GITLINK);
        Workspace {
            path,
            commit: self.commit().to_owned(),
            unsupported,
            tracked: Arc::new(files.map(|file| file.path.clone()).collect()),
            checkout: Checkout {
                repository: self.path().to_owned(),
                listing: Arc::clone(self.listing()),
                clock,
            },
            overlay,
        }
    }

    /// Returns the features that a checkout does not support.
    pub(crate) fn unsupported(&self, files: &Path) -> Vec<UnsupportedFeature> {
        let candidates = self.listing().iter().filter(|file| may_be_unsupported(file));
        find_unsupported(candidates, files)
    }
}

fn config(options: &WorkspaceOptions) -> Result<String, RepoError> {
    let mut config = "\tbare = false\n\tlogallrefupdates = true\n".to_owned();
    if let Some(Identity { name, email }) = &options.identity {
        for value in [name, email] {
            if value.chars().any(|c| c.is_control() || matches!(c, '"' | '\\' | '<' | '>')) {
                return Err(RepoError::BadName { what: "committer", name: value.clone() });
            }
        }
        config.push_str(&format!("[user]\n\tname = \"{name}\"\n\temail = \"{email}\"\n"));
    }
    Ok(config)
}

fn create_repository(
    pruned: &PrunedRepo,
    path: &Path,
    branch: &str,
    config: &str,
    objects: Objects,
) -> Result<(), RepoError> {
    fs::create_dir_all(path).map_err(RepoError::io("create the directory", path))?;
    let mut entries = fs::read_dir(path).map_err(RepoError::io("read the directory", path))?;
    if entries.next().is_some() {
        let not_empty = std::io::Error::from(std::io::ErrorKind::DirectoryNotEmpty);
        return Err(RepoError::io("create a workspace in", path)(not_empty));
    }
    let dot_git = path.join(".git");
    git_dir::create(&dot_git, branch, config)?;
    git_dir::set_branch(&dot_git, branch, pruned.commit())?;
    let (from, to) = (pruned.path().join("objects"), dot_git.join("objects"));
    match objects {
        Objects::Copied => files::copy_dir(&from, &to)?,
        Objects::Shared => files::link_dir(&from, &to)?,
    }
    let shallow = pruned.path().join("shallow");
    if shallow.exists() {
        fs::copy(&shallow, dot_git.join("shallow")).map_err(RepoError::io("copy", shallow))?;
    }
    Ok(())
}

/// Whether a file is a submodule, or may configure Git LFS.
fn may_be_unsupported(ListedFile { mode, path, .. }: &ListedFile) -> bool {
    *mode == GITLINK || (mode & FILE_TYPE == REGULAR && is_attributes(path))
}

fn is_attributes(path: &[u8]) -> bool {
    path == b".gitattributes" || path.ends_with(b"/.gitattributes")
}

fn find_unsupported<'a>(
    candidates: impl Iterator<Item = &'a ListedFile>,
    workspace: &Path,
) -> Vec<UnsupportedFeature> {
    let mut found = Vec::new();
    for ListedFile { mode, path, .. } in candidates {
        if *mode == GITLINK {
            found.push(UnsupportedFeature::Submodule { path: lossy_path(path) });
        } else if fs::read(workspace.join(files::path_from_bytes(path))).is_ok_and(|text| uses_lfs(&text)) {
            found.push(UnsupportedFeature::Lfs { attributes: lossy_path(path) });
        }
    }
    found
}

fn uses_lfs(attributes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(attributes);
    text.lines().any(|line| {
        !line.trim_start().starts_with('#') && line.split_whitespace().any(|word| word == "filter=lfs")
    })
}
