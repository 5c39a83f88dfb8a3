//! What a case expects as its result: a branch, a commit, a directory or a patch.

use std::path::{Path, PathBuf};

use super::check::Checker;
use super::files::{self, FileError};
use yb_yaml::Node;
use yb_yaml::diagnostic::quoted;

/// The most that an expected directory or patch may hold.
const LARGEST: usize = 512 << 20;

pub(crate) const BRANCH: &str = "branch";
pub(crate) const COMMIT: &str = "commit";
pub(crate) const DIRECTORY: &str = "directory";
pub(crate) const PATCH: &str = "patch";
pub(crate) const SOURCES: &[&str] = &[BRANCH, COMMIT, DIRECTORY, PATCH];

/// What is expected of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    /// The head of a branch of the case's repository.
    Branch(String),
    /// A commit of the case's repository.
    Commit(String),
    /// The files of a directory beside the case.
    Directory(ExpectedFiles),
    /// The start tree with this patch, which is beside the case.
    Patch(ExpectedFiles),
}

/// A file or directory beside the case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedFiles {
    /// Where, with all links followed.
    pub path: PathBuf,
    /// Of everything in it.
    pub digest: String,
}

impl Expected {
    /// What tells one from another, wherever the files are.
    pub fn key(&self) -> String {
        match self {
            Self::Branch(name) => format!("branch {name}"),
            Self::Commit(id) => format!("commit {id}"),
            Self::Directory(files) => format!("directory {}", files.digest),
            Self::Patch(files) => format!("patch {}", files.digest),
        }
    }
}

/// Reads what is expected; of a case whose start has no commits only files can be.
pub(crate) fn read(root: &Node, dir: &Path, checker: &mut Checker<'_, '_>) -> Option<Expected> {
    let source = root.get("expected_source").and_then(Node::text).unwrap_or(BRANCH);
    let node = root.get("expected")?;
    let text = node.text().filter(|text| !text.is_empty())?;
    if [BRANCH, COMMIT].contains(&source) {
        if text.starts_with('-') || text.contains(char::is_whitespace) {
            let message = format!("not a name that git knows: {}", quoted(text));
            checker.found.error(node.span, "expected", message).expected("no spaces, and no dash in front");
        } else if root.get("directory").is_some() {
            let message = "a directory has no branches and commits: `expected`";
            checker
                .found
                .error(node.span, "expected", message)
                .hint("say `expected_source: directory` or `expected_source: patch`, or use `repo`");
        }
        let name = text.to_owned();
        return Some(if source == COMMIT { Expected::Commit(name) } else { Expected::Branch(name) });
    }
    match beside(dir, text, source) {
        Ok(files) if source == DIRECTORY => Some(Expected::Directory(files)),
        Ok(files) => Some(Expected::Patch(files)),
        Err(error) => {
            let message = format!("failed to read what is expected ({error}): {}", quoted(text));
            checker
                .found
                .error(node.span, "expected", message)
                .hint("the path starts at the directory of the case file, and stays below it");
            None
        }
    }
}

fn beside(dir: &Path, text: &str, source: &str) -> Result<ExpectedFiles, FileError> {
    let path = files::find(dir, text)?;
    if path.is_dir() != (source == DIRECTORY) {
        return Err(FileError::NotAFile);
    }
    of_files(path)
}

/// A file or directory with all that is in it.
pub(super) fn of_files(path: PathBuf) -> Result<ExpectedFiles, FileError> {
    let (read, recording) = files::recorded(|| files::read_all(&path, LARGEST));
    read?;
    let mut hasher = blake3::Hasher::new();
    for (file, digest) in recording {
        let name = file.strip_prefix(&path).unwrap_or(Path::new(""));
        hasher.update(name.to_string_lossy().as_bytes()).update(b"\0").update(digest.as_bytes());
    }
    Ok(ExpectedFiles { path, digest: hasher.finalize().to_hex().to_string() })
}
