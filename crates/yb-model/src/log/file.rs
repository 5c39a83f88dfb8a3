//! The log as a file: written atomically, and rejected if its version is not supported.

use std::io;
use std::path::{Path, PathBuf};

use super::YouBenchaLog;
use crate::atomic_file::{Durability, write_atomic_with};

/// The name of the file in the artifacts of an execution.
pub const FILE_NAME: &str = "youbencha-log.json";

/// An error when writing or reading a log.
#[derive(Debug, thiserror::Error)]
pub enum LogFileError {
    /// Writing the file failed.
    #[error("failed to write the log: {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// Reading the file failed.
    #[error("failed to read the log: {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// The file is not a log.
    #[error("not a log: {}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The parse error.
        source: serde_json::Error,
    },
    /// The file has another major version.
    #[error("unsupported log version {version} (supported: 1): {}", path.display())]
    TooNew {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: String,
    },
}

/// The version of a log, whatever else it has.
#[derive(serde::Deserialize)]
struct VersionField {
    schema_version: Option<serde_json::Value>,
}

impl YouBenchaLog {
    /// Parses the content of a file; the path is for messages.
    ///
    /// # Errors
    /// When the content is not a log, or has another major version.
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Self, LogFileError> {
        let malformed = |source| LogFileError::Malformed { path: path.to_owned(), source };
        // Check the version first: another version may have other fields.
        let VersionField { schema_version } = serde_json::from_slice(bytes).map_err(malformed)?;
        let version = schema_version.as_ref().and_then(serde_json::Value::as_str);
        if let Some(version) = version.filter(|version| !version.starts_with("1.")) {
            return Err(LogFileError::TooNew { path: path.to_owned(), version: version.to_owned() });
        }
        serde_json::from_slice(bytes).map_err(malformed)
    }

    /// Writes the file into the artifacts directory atomically, and returns its path.
    ///
    /// # Errors
    /// When the file can't be written.
    pub fn write(&self, artifacts: &Path) -> Result<PathBuf, LogFileError> {
        let path = artifacts.join(FILE_NAME);
        let written = write_atomic_with(&path, Durability::Unsynced, |file| {
            serde_json::to_writer_pretty(&mut *file, self)?;
            file.write_all(b"\n")
        });
        written.map_err(|source| LogFileError::Write { path: path.clone(), source })?;
        Ok(path)
    }

    /// Reads a log file.
    ///
    /// # Errors
    /// When the file can't be read, is not a log, or has another major version.
    pub fn read(path: &Path) -> Result<Self, LogFileError> {
        let text =
            std::fs::read(path).map_err(|source| LogFileError::Read { path: path.to_owned(), source })?;
        Self::parse(path, &text)
    }
}
