//! Workspaces: the directories that agents work in. Each is a separate repository, copied from a pruned one.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use super::error::{RepoError, blocking};
use super::files;
use super::git::Git;
use super::git_dir;
use super::pruned::{ListedFile, PrunedRepo};
use super::walk::lossy_path;

/// The mode of a submodule in a tree.
const GITLINK: u32 = 0o160_000;
/// The bits of a mode that hold the file type.
const FILE_TYPE: u32 = 0o170_000;
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
    tracked: BTreeSet<Vec<u8>>,
}

impl Workspace {
    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
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
    pub(crate) fn tracked(&self) -> &BTreeSet<Vec<u8>> {
        &self.tracked
    }
}

impl PrunedRepo {
    /// Creates a workspace in a directory that is empty or does not exist.
    pub async fn workspace(
        &self,
        git: &Git,
        directory: impl AsRef<Path>,
        options: &WorkspaceOptions,
    ) -> Result<Workspace, RepoError> {
        let directory = directory.as_ref();
        let path = std::path::absolute(directory).map_err(RepoError::io("resolve the path", directory))?;
        if !git_dir::is_ref_name(&options.branch) {
            return Err(RepoError::BadName { what: "branch", name: options.branch.clone() });
        }
        let config = config(options)?;
        let (pruned, branch, target) = (self.clone(), options.branch.clone(), path.clone());
        blocking(move || create_repository(&pruned, &target, &branch, &config)).await?;
        git.command("read-tree")
            .git_dir(&path.join(".git"))
            .work_tree(&path)
            .args(["--reset", "-u", "--no-recurse-submodules", self.commit()])
            .bytes()
            .await?;
        let candidates: Vec<ListedFile> =
            self.listing().iter().filter(|file| may_be_unsupported(file)).cloned().collect();
        let unsupported = if candidates.is_empty() {
            Vec::new()
        } else {
            let target = path.clone();
            blocking(move || Ok(find_unsupported(&candidates, &target))).await?
        };
        let files = self.listing().iter().filter(|file| file.mode != GITLINK);
        Ok(Workspace {
            path,
            commit: self.commit().to_owned(),
            unsupported,
            tracked: files.map(|file| file.path.clone()).collect(),
        })
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

fn create_repository(pruned: &PrunedRepo, path: &Path, branch: &str, config: &str) -> Result<(), RepoError> {
    fs::create_dir_all(path).map_err(RepoError::io("create the directory", path))?;
    let mut entries = fs::read_dir(path).map_err(RepoError::io("read the directory", path))?;
    if entries.next().is_some() {
        let not_empty = std::io::Error::from(std::io::ErrorKind::DirectoryNotEmpty);
        return Err(RepoError::io("create a workspace in", path)(not_empty));
    }
    let dot_git = path.join(".git");
    git_dir::create(&dot_git, branch, config)?;
    git_dir::set_branch(&dot_git, branch, pruned.commit())?;
    files::copy_dir(&pruned.path().join("objects"), &dot_git.join("objects"))?;
    let shallow = pruned.path().join("shallow");
    if shallow.exists() {
        fs::copy(&shallow, dot_git.join("shallow")).map_err(RepoError::io("copy", shallow))?;
    }
    Ok(())
}

/// Whether a file is a submodule, or may configure Git LFS.
fn may_be_unsupported(ListedFile { mode, path }: &ListedFile) -> bool {
    let is_attributes = path == b".gitattributes" || path.ends_with(b"/.gitattributes");
    *mode == GITLINK || (mode & FILE_TYPE == REGULAR && is_attributes)
}

fn find_unsupported(candidates: &[ListedFile], workspace: &Path) -> Vec<UnsupportedFeature> {
    let mut found = Vec::new();
    for ListedFile { mode, path } in candidates {
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
