//! The trace file: one OTLP request per line as JSON, the format that collectors read and write.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::config::PipelineError;
use super::encode::ExportRequest;

/// The open trace file.
pub(super) struct JsonLines {
    file: File,
    path: PathBuf,
}

impl JsonLines {
    /// Opens a file for appending: a resumed run continues its file.
    pub(super) fn open(path: &Path) -> Result<Self, PipelineError> {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .map_err(|error| PipelineError::File { path: path.to_owned(), reason: error.to_string() })?;
        Ok(Self { file, path: path.to_owned() })
    }

    pub(super) fn write(&mut self, request: &ExportRequest) -> Result<(), String> {
        let mut line = request.to_json()?;
        line.push(b'\n');
        self.file.write_all(&line).map_err(|error| format!("{}: {error}", self.path.display()))
    }
}
