//! Globs: which case files below the suite's directory a pattern names, without leaving it.

use std::path::{Path, PathBuf};

use globset::GlobBuilder;
use ignore::WalkBuilder;

use crate::files::{self, FileError};

/// More files and directories than this are not looked through.
const MAX_ENTRIES: usize = 100_000;

/// Why a pattern names nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum GlobError {
    #[error("not a pattern ({0})")]
    Bad(String),
    #[error("no file matches")]
    Nothing,
    #[error("more than {MAX_ENTRIES} files to look through")]
    TooMany,
    #[error("failed to look for files ({0})")]
    Walk(String),
    #[error("{0}")]
    File(#[from] FileError),
}

/// Whether a text is a pattern rather than a path.
pub(super) fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '[', '{'])
}

/// The files that a pattern names, relative to the directory, sorted. `*` stays within a directory, `**` does not; what
/// begins with a dot must be asked for by one; links to directories are not followed.
pub(super) fn expand(dir: &Path, pattern: &str) -> Result<Vec<PathBuf>, GlobError> {
    let relative = files::relative(pattern).map_err(FileError::Bad)?;
    let glob = GlobBuilder::new(&relative.to_string_lossy()).literal_separator(true).build();
    let glob = glob.map_err(|error| GlobError::Bad(error.kind().to_string()))?.compile_matcher();
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
        // A link to a directory is no file, wherever it leads.
        let to_directory = || kind.is_symlink() && entry.path().is_dir();
        if glob.is_match(&path) && !to_directory() {
            matched.push(path);
        }
    }
    matched.sort();
    if matched.is_empty() { Err(GlobError::Nothing) } else { Ok(matched) }
}
