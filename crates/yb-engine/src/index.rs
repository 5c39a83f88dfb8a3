//! A SQLite index of all runs in a workspace directory. It is derived from the journals and can be rebuilt at any time; an
//! error of the index never fails a run.

use std::path::{Path, PathBuf};

/// The index file, below the workspace directory.
const FILE: &str = "index.sqlite";

/// An error of the index.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The file can't be written or queried.
    #[error("failed to use the index `{}`: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The runs can't be listed.
    #[error(transparent)]
    Runs(#[from] crate::run::RunError),
    /// This build has no SQLite.
    #[error("the index is only available on Linux and macOS")]
    Unsupported,
}

/// The result of a query.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct QueryResult {
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The rows, as JSON values.
    pub rows: Vec<Vec<serde_json::Value>>,
}

/// The number of indexed and of unreadable runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct IndexSummary {
    /// Indexed runs.
    pub runs: usize,
    /// Runs whose plan or journal can't be read.
    pub unreadable: usize,
}

/// Returns the path of the index.
#[must_use]
pub fn file(root: &Path) -> PathBuf {
    root.join(FILE)
}

#[cfg(any(target_os = "linux", target_os = "macos"))]
pub use sqlite::{is_outdated, query, rebuild, update};

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
pub use unsupported::{is_outdated, query, rebuild, update};

#[cfg(any(target_os = "linux", target_os = "macos"))]
mod sqlite;

/// Stubs for systems without SQLite.
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
mod unsupported {
    use std::path::Path;

    use super::{IndexError, IndexSummary, QueryResult};
    use crate::run::RunResults;

    /// Not supported on this system.
    #[must_use]
    pub fn is_outdated(_: &Path) -> bool {
        false
    }

    /// Not supported on this system.
    ///
    /// # Errors
    /// Always returns [`IndexError::Unsupported`].
    pub fn update(_: &Path, _: &RunResults) -> Result<(), IndexError> {
        Err(IndexError::Unsupported)
    }

    /// Not supported on this system.
    ///
    /// # Errors
    /// Always returns [`IndexError::Unsupported`].
    pub fn rebuild(_: &Path) -> Result<IndexSummary, IndexError> {
        Err(IndexError::Unsupported)
    }

    /// Not supported on this system.
    ///
    /// # Errors
    /// Always returns [`IndexError::Unsupported`].
    pub fn query(_: &Path, _: &str) -> Result<QueryResult, IndexError> {
        Err(IndexError::Unsupported)
    }
}
