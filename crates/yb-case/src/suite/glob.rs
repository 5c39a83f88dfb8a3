//! Globs for case files below the directory of the suite.

use std::path::{Path, PathBuf};

use ignore::WalkBuilder;

use crate::files::{self, FileError};
use yb_repo::{PathSeparator, compile_glob};

/// The maximum number of files and directories to search.
const MAX_ENTRIES: usize = 100_000;

/// Why a pattern has no result.
#[derive(Debug, thiserror::Error)]
pub(super) enum GlobError {
    #[error("invalid pattern ({0})")]
    Bad(String),
    #[error("no file matches")]
    Nothing,
    #[error("more than {MAX_ENTRIES} files to search")]
    TooMany,
    #[error("failed to search files ({0})")]
    Walk(String),
    #[error("{0}")]
    File(#[from] FileError),
}

/// Returns whether a string is a pattern rather than a path.
pub(super) fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '[', '{'])
}

/// Returns the matching files relative to the directory, sorted. `*` matches within a directory, `**` across directories.
/// Hidden files need an explicit dot. Symbolic links to directories are not followed.
pub(super) fn expand(dir: &Path, pattern: &str) -> Result<Vec<PathBuf>, GlobError> {
    let relative = files::relative(pattern).map_err(FileError::Bad)?;
    let glob = compile_glob(&relative.to_string_lossy(), PathSeparator::Literal);
    let glob = glob.map_err(GlobError::Bad)?.compile_matcher();
    let fixed: PathBuf = relative.iter().take_while(|part| !is_pattern(&part.to_string_lossy())).collect();
    let base = if fixed.as_os_str().is_empty() {
        dir.canonicalize().map_err(FileError::Io)?
    } else {
        match files::find(dir, &fixed.to_string_lossy()) {
            Err(FileError::Missing) => return Err(GlobError::Nothing),
            base => base?,
        }
    };
    let free: Vec<_> =
        relative.iter().skip(fixed.iter().count()).map(|part| part.to_string_lossy()).collect();
    let any_depth = free.iter().any(|part| part.contains("**") || part.contains('{'));
    let hidden = free.iter().any(|part| part.starts_with('.'));
    let walk = WalkBuilder::new(&base)
        .standard_filters(false)
        .hidden(!hidden)
        .follow_links(false)
        .max_depth((!any_depth).then_some(free.len()))
        .build();
    let mut matched = Vec::new();
    for (count, entry) in walk.enumerate() {
        if count >= MAX_ENTRIES {
            return Err(GlobError::TooMany);
        }
        let entry = entry.map_err(|error| GlobError::Walk(error.to_string()))?;
        let Some(kind) = entry.file_type().filter(|kind| !kind.is_dir()) else { continue };
        let Ok(below) = entry.path().strip_prefix(&base) else { continue };
        let path = fixed.join(below);
        // A symbolic link to a directory is not a file.
        let to_directory = || kind.is_symlink() && entry.path().is_dir();
        if glob.is_match(&path) && !to_directory() {
            matched.push(path);
        }
    }
    matched.sort();
    if matched.is_empty() { Err(GlobError::Nothing) } else { Ok(matched) }
}
