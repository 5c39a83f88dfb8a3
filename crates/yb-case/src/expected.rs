//! The expected result of a case: a branch, a commit, a directory or a patch.

use std::path::{Path, PathBuf};

use super::check::Checker;
use super::files::{self, FileError};
use yb_yaml::Node;
use yb_yaml::diagnostic::quoted;

/// The maximum size of an expected directory or patch.
const MAX_EXPECTED_BYTES: usize = 512 << 20;

pub(crate) const BRANCH: &str = "branch";
pub(crate) const COMMIT: &str = "commit";
pub(crate) const DIRECTORY: &str = "directory";
pub(crate) const PATCH: &str = "patch";
pub(crate) const SOURCES: &[&str] = &[BRANCH, COMMIT, DIRECTORY, PATCH];

/// The expected result of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    /// The head of a branch of the repository.
    Branch(String),
    /// A commit of the repository.
    Commit(String),
    /// The files of a directory.
    Directory(ExpectedFiles),
    /// The start tree with this patch applied.
    Patch(ExpectedFiles),
}

/// A file or directory with an expected result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedFiles {
    /// The path, with symbolic links resolved.
    pub path: PathBuf,
    /// The digest of the content.
    pub digest: String,
}

impl Expected {
    /// Returns an identifier that does not depend on the location of the files.
    #[must_use]
    pub fn key(&self) -> String {
        match self {
            Self::Branch(name) => format!("branch {name}"),
            Self::Commit(id) => format!("commit {id}"),
            Self::Directory(files) => format!("directory {}", files.digest),
            Self::Patch(files) => format!("patch {}", files.digest),
        }
    }
}

/// Reads the expected result. A case without a repository can only use files.
pub(crate) fn read(root: &Node, dir: &Path, checker: &mut Checker<'_, '_>) -> Option<Expected> {
    let source = root.get("expected_source").and_then(Node::text).unwrap_or(BRANCH);
    of_source(source, root.get("expected")?, root, dir, "expected", checker)
}

/// Reads the result that a key of the case names.
pub(crate) fn of_source(
    source: &str,
    node: &Node,
    root: &Node,
    dir: &Path,
    key: &str,
    checker: &mut Checker<'_, '_>,
) -> Option<Expected> {
    let text = node.text().filter(|text| !text.is_empty())?;
    if [BRANCH, COMMIT].contains(&source) {
        if text.starts_with('-') || text.contains(char::is_whitespace) {
            let message = format!("invalid git revision: {}", quoted(text));
            checker
                .found
                .error(node.span, key, message)
                .expected("a name without spaces that does not start with `-`");
        } else if root.get("directory").is_some() {
            let hint = match key {
                "expected" => "set `expected_source` to `directory` or `patch`, or use `repo`",
                _ => "use `patch` or `directory`, or start from a `repo`",
            };
            checker.found.error(node.span, key, format!("`{key}` requires `repo`")).hint(hint);
        }
        let name = text.to_owned();
        return Some(if source == COMMIT { Expected::Commit(name) } else { Expected::Branch(name) });
    }
    match beside(dir, text, source) {
        Ok(files) if source == DIRECTORY => Some(Expected::Directory(files)),
        Ok(files) => Some(Expected::Patch(files)),
        Err(error) => {
            let what = if key == "expected" { "expected result" } else { "solution" };
            let message = format!("failed to read the {what} ({error}): {}", quoted(text));
            checker
                .found
                .error(node.span, key, message)
                .hint("the path is relative to the directory of the case file and must stay below it");
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

/// Reads a file or directory and computes its digest.
pub(super) fn of_files(path: PathBuf) -> Result<ExpectedFiles, FileError> {
    let (read, recording) = files::recorded(|| files::read_all(&path, MAX_EXPECTED_BYTES));
    read?;
    let mut hasher = blake3::Hasher::new();
    for (file, digest) in recording {
        let name = file.strip_prefix(&path).unwrap_or(Path::new(""));
        hasher.update(name.to_string_lossy().as_bytes()).update(b"\0").update(digest.as_bytes());
    }
    Ok(ExpectedFiles { path, digest: hasher.finalize().to_hex().to_string() })
}
