//! The trace file: one OTLP request per line as JSON, the format that collectors read and write.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::config::PipelineError;
use super::encode::Request;

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

    pub(super) fn write(&mut self, request: &Request) -> Result<(), String> {
        let mut line = to_json(request)?;
        line.push(b'\n');
        self.file.write_all(&line).map_err(|error| format!("{}: {error}", self.path.display()))
    }
}

/// Encodes a request as OTLP JSON.
pub(super) fn to_json(request: &Request) -> Result<Vec<u8>, String> {
    let json = match request {
        Request::Traces(request) => serde_json::to_vec(request),
        Request::Logs(request) => serde_json::to_vec(request),
        Request::Metrics(request) => serde_json::to_vec(request),
    };
    json.map_err(|error| error.to_string())
}
