//! The output files of an execution: a folder for each agent, and names that sort by time.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::AdapterError;

/// The file with the messages of an agent, one per line.
const FRAMES: &str = "frames.jsonl";

/// The files of one execution.
#[derive(Debug, Clone)]
pub(super) struct Artifacts {
    pub(super) terminal_log: PathBuf,
    pub(super) frames: PathBuf,
}

impl Artifacts {
    /// Checks the directory and creates the folder of the agent.
    pub(super) fn prepare(dir: &Path, folder: &str) -> Result<Self, AdapterError> {
        if !dir.is_dir() {
            return Err(AdapterError::ArtifactsMissing { path: dir.to_owned() });
        }
        let not_writable = |path: &Path| {
            let path = path.to_owned();
            move |source| AdapterError::ArtifactsNotWritable { path, source }
        };
        let folder = dir.join(folder);
        fs::create_dir_all(&folder).map_err(not_writable(&folder))?;
        let stamp = stamp(Timestamp::now());
        let terminal_log = fresh(&folder, &stamp).map_err(not_writable(&folder))?;
        Ok(Self { terminal_log, frames: dir.join(FRAMES) })
    }
}

/// ISO 8601 with milliseconds, without characters that file systems reject.
fn stamp(now: Timestamp) -> String {
    format!("{now:.3}").replace([':', '.'], "-")
}

/// Creates the log under a unique name: two executions may start in the same millisecond.
fn fresh(folder: &Path, stamp: &str) -> io::Result<PathBuf> {
    let mut number = 0;
    loop {
        let suffix = if number == 0 { String::new() } else { format!("-{number}") };
        let path = folder.join(format!("terminal-output-{stamp}{suffix}.log"));
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(_) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 1000 => number += 1,
            Err(error) => return Err(error),
        }
    }
}

/// The beginning of a file, cut at a character boundary, and whether there is more.
pub(super) fn beginning(path: &Path, limit: usize) -> io::Result<(String, bool)> {
    let file = fs::File::open(path)?;
    let size = file.metadata()?.len();
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(limit).min(limit));
    file.take(limit as u64).read_to_end(&mut bytes)?;
    let more = size > limit as u64;
    if more {
        // A character is cut only if it begins within the last three bytes.
        let tail = bytes.len().saturating_sub(3);
        let start = (tail..bytes.len()).find(|at| bytes[*at] & 0b1100_0000 == 0b1100_0000);
        if let Some(start) = start.filter(|start| std::str::from_utf8(&bytes[*start..]).is_err()) {
            bytes.truncate(start);
        }
    }
    Ok((into_text(bytes), more))
}

/// Converts bytes to text, without a copy if they are valid.
pub(super) fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Adds a line to a file.
pub(super) fn append_line(path: &Path, line: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).open(path)?;
    file.write_all(format!("\n{line}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_name_sorts_by_time_and_is_portable() {
        let time: Timestamp = "2026-11-15T14:03:09.5Z".parse().unwrap();
        assert_eq!(stamp(time), "2026-11-15T14-03-09-500Z");
    }

    #[test]
    fn executions_of_one_millisecond_have_logs_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        let first = fresh(dir.path(), "t").unwrap();
        let second = fresh(dir.path(), "t").unwrap();
        assert_eq!(first.file_name().unwrap(), "terminal-output-t.log");
        assert_eq!(second.file_name().unwrap(), "terminal-output-t-1.log");
    }

    #[test]
    fn truncation_respects_character_boundaries() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        fs::write(&path, "ab€cd").unwrap();
        let check = |limit, text: &str, more| {
            assert_eq!(beginning(&path, limit).unwrap(), (text.to_owned(), more), "{limit}");
        };
        check(2, "ab", true);
        check(3, "ab", true);
        check(4, "ab", true);
        check(5, "ab€", true);
        check(7, "ab€cd", false);
        check(99, "ab€cd", false);
    }
}
