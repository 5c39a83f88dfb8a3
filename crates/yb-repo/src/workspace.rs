//! The directory that an agent works in: a repository of its own, copied from a cut one, with nothing else in it.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use super::cut::{Cut, Listed};
use super::error::{RepoError, blocking};
use super::files;
use super::git::Git;
use super::skeleton;
use super::walk::lossy;

/// The mode of a submodule in a tree.
const GITLINK: u32 = 0o160_000;
/// The bits of a mode that tell what a file is, and those of a plain one.
const FILE_TYPE: u32 = 0o170_000;
const PLAIN: u32 = 0o100_000;

/// How a workspace is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspaceOptions {
    /// The branch that the agent finds itself on.
    pub branch: String,
    /// Who the agent is when it commits; without one git refuses to commit.
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
    /// A name.
    pub name: String,
    /// An address.
    pub email: String,
}

/// Something in a repository that a workspace does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unsupported {
    /// A submodule: its directory is empty.
    Submodule {
        /// The directory.
        path: String,
    },
    /// Files in Git LFS: the workspace has their pointers.
    Lfs {
        /// The `.gitattributes` file that says so.
        attributes: String,
    },
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Submodule { path } => {
                write!(f, "submodules are not supported, its directory stays empty: `{path}`")
            }
            Self::Lfs { attributes } => {
                write!(f, "Git LFS is not supported, files are left as pointers: `{attributes}`")
            }
        }
    }
}

/// A workspace that was made.
#[derive(Debug, Clone)]
pub struct Workspace {
    path: PathBuf,
    commit: String,
    unsupported: Vec<Unsupported>,
    tracked: BTreeSet<Vec<u8>>,
}

impl Workspace {
    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The commit that is checked out.
    pub fn commit(&self) -> &str {
        &self.commit
    }

    /// What the repository has and the workspace does not.
    pub fn unsupported(&self) -> &[Unsupported] {
        &self.unsupported
    }

    /// The files of the commit.
    pub(crate) fn tracked(&self) -> &BTreeSet<Vec<u8>> {
        &self.tracked
    }
}

impl Cut {
    /// Makes a workspace in a directory that is empty or not there.
    pub async fn workspace(
        &self,
        git: &Git,
        directory: impl AsRef<Path>,
        options: &WorkspaceOptions,
    ) -> Result<Workspace, RepoError> {
        let directory = directory.as_ref();
        let path =
            std::path::absolute(directory).map_err(RepoError::io("find the directory of", directory))?;
        if !skeleton::is_ref_name(&options.branch) {
            return Err(RepoError::BadName { what: "branch", name: options.branch.clone() });
        }
        let config = config(options)?;
        let (cut, branch, target) = (self.clone(), options.branch.clone(), path.clone());
        blocking(move || lay_out(&cut, &target, &branch, &config)).await?;
        git.call("read-tree")
            .git_dir(&path.join(".git"))
            .work_tree(&path)
            .args(["--reset", "-u", "--no-recurse-submodules", self.commit()])
            .bytes()
            .await?;
        let doubtful: Vec<Listed> = self.listing().iter().filter(|file| is_doubtful(file)).cloned().collect();
        let unsupported = if doubtful.is_empty() {
            Vec::new()
        } else {
            let target = path.clone();
            blocking(move || Ok(find_unsupported(&doubtful, &target))).await?
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

fn lay_out(cut: &Cut, path: &Path, branch: &str, config: &str) -> Result<(), RepoError> {
    fs::create_dir_all(path).map_err(RepoError::io("make the directory", path))?;
    let mut entries = fs::read_dir(path).map_err(RepoError::io("read the directory", path))?;
    if entries.next().is_some() {
        let not_empty = std::io::Error::from(std::io::ErrorKind::DirectoryNotEmpty);
        return Err(RepoError::io("make a workspace in", path)(not_empty));
    }
    let dot_git = path.join(".git");
    skeleton::create(&dot_git, branch, config)?;
    skeleton::set_branch(&dot_git, branch, cut.commit())?;
    files::copy_dir(&cut.path().join("objects"), &dot_git.join("objects"))?;
    let shallow = cut.path().join("shallow");
    if shallow.exists() {
        fs::copy(&shallow, dot_git.join("shallow")).map_err(RepoError::io("copy", shallow))?;
    }
    Ok(())
}

/// Whether this may be, or ask for, something that a workspace does not have.
fn is_doubtful(Listed { mode, path }: &Listed) -> bool {
    let are_attributes = path == b".gitattributes" || path.ends_with(b"/.gitattributes");
    *mode == GITLINK || (mode & FILE_TYPE == PLAIN && are_attributes)
}

fn find_unsupported(doubtful: &[Listed], workspace: &Path) -> Vec<Unsupported> {
    let mut found = Vec::new();
    for Listed { mode, path } in doubtful {
        if *mode == GITLINK {
            found.push(Unsupported::Submodule { path: lossy(path) });
        } else if fs::read(workspace.join(files::path_of(path))).is_ok_and(|text| uses_lfs(&text)) {
            found.push(Unsupported::Lfs { attributes: lossy(path) });
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
