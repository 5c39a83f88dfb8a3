//! An index over all runs of a workspace directory, as a SQLite file: derived from the journals, made again at any time, and
//! never a reason for anything to fail.

use std::path::{Path, PathBuf};

/// Below the workspace directory.
const FILE: &str = "index.sqlite";

/// Why there is no index.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The file can't be written or asked.
    #[error("failed to use the index `{}`: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The runs can't be listed.
    #[error(transparent)]
    Runs(#[from] crate::run::RunError),
    /// There is no SQLite in this program.
    #[error("this build has no index: it is made on Linux and macOS only")]
    Unsupported,
}

/// What an answer of the index consists of.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Answer {
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The rows, as JSON values.
    pub rows: Vec<Vec<serde_json::Value>>,
}

/// How many runs are in the index, and how many could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Indexed {
    /// Those that are in it.
    pub runs: usize,
    /// Those whose plan or journal can't be read.
    pub unreadable: usize,
}

/// Where the index of a workspace directory is.
#[must_use]
pub fn file(root: &Path) -> PathBuf {
    root.join(FILE)
}

#[cfg(any(target_os = "linux", target_os = "macos"))]
pub use sqlite::{query, rebuild, update};

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
pub use nowhere::{query, rebuild, update};

#[cfg(any(target_os = "linux", target_os = "macos"))]
mod sqlite;

/// Systems where nobody builds SQLite for us.
#[cfg(not(any(target_os = "linux", target_os = "macos")))]
mod nowhere {
    use std::path::Path;

    use super::{Answer, IndexError, Indexed};
    use crate::run::RunResults;

    /// Not here.
    ///
    /// # Errors
    /// Always.
    pub fn update(_: &Path, _: &RunResults) -> Result<(), IndexError> {
        Err(IndexError::Unsupported)
    }

    /// Not here.
    ///
    /// # Errors
    /// Always.
    pub fn rebuild(_: &Path) -> Result<Indexed, IndexError> {
        Err(IndexError::Unsupported)
    }

    /// Not here.
    ///
    /// # Errors
    /// Always.
    pub fn query(_: &Path, _: &str) -> Result<Answer, IndexError> {
        Err(IndexError::Unsupported)
    }
}
