//! A log file with a size limit. A failed write never stops the draining of the pipes.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::error::SpawnError;
use crate::report::Warning;
use crate::utf8;

/// The log or tee of one child.
#[derive(Debug)]
pub(crate) struct LogFile {
    path: PathBuf,
    file: File,
    ceiling: u64,
    /// Whether to append a truncation notice when the limit is reached. Not for a tee, whose lines are the
    /// child's.
    notice: bool,
    written: u64,
    dropped: u64,
    failure: Option<String>,
}

impl LogFile {
    /// Opens the file before the child is started, so that an unusable path is an error instead of a lost
    /// log.
    pub(crate) fn create(path: &Path, ceiling: u64, notice: bool) -> Result<Self, SpawnError> {
        let directory = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !directory.is_dir() {
            return Err(SpawnError::LogDirectoryMissing { path: directory.to_owned() });
        }
        let file = File::create(path)
            .map_err(|source| SpawnError::LogNotWritable { path: path.to_owned(), source })?;
        Ok(Self { path: path.to_owned(), file, ceiling, notice, written: 0, dropped: 0, failure: None })
    }

    pub(crate) fn write(&mut self, chunk: &[u8]) {
        let room = if self.dropped > 0 { 0 } else { self.ceiling - self.written };
        let kept = utf8::cut(chunk, usize::try_from(room).unwrap_or(usize::MAX));
        let written = self.write_bytes(kept);
        self.written += written as u64;
        let first_loss = self.dropped == 0;
        self.dropped += (chunk.len() - written) as u64;
        if first_loss && self.dropped > 0 && self.notice && self.failure.is_none() {
            let line = format!(
                "\n[LOG TRUNCATED: limit of {} bytes reached; later output was drained but not logged]\n",
                self.ceiling
            );
            self.write_bytes(line.as_bytes());
        }
    }

    /// Returns how many bytes were written, and remembers why the rest was not.
    fn write_bytes(&mut self, bytes: &[u8]) -> usize {
        let mut done = 0;
        while done < bytes.len() && self.failure.is_none() {
            match self.file.write(&bytes[done..]) {
                Ok(0) => self.failure = Some("wrote zero bytes".to_owned()),
                Ok(length) => done += length,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => self.failure = Some(error.to_string()),
            }
        }
        done
    }

    /// Returns the bytes written, the bytes dropped, and a warning if a write failed.
    pub(crate) fn finish(self) -> (u64, u64, Option<Warning>) {
        let warning = self.failure.map(|reason| Warning::WriteFailed { path: self.path, reason });
        (self.written, self.dropped, warning)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_notes_truncation_once_and_counts_dropped_bytes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let mut log = LogFile::create(&path, 5, true).unwrap();
        for chunk in ["abc", "d€", "more"] {
            log.write(chunk.as_bytes());
        }
        let (written, dropped, warning) = log.finish();
        assert_eq!((written, dropped, warning), (4, 7, None));
        let text = std::fs::read_to_string(&path).unwrap();
        let expected =
            "abcd\n[LOG TRUNCATED: limit of 5 bytes reached; later output was drained but not logged]\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn missing_log_directory_is_an_error_with_hint() {
        let error = LogFile::create(Path::new("/no/such/place/log"), 5, true).unwrap_err();
        assert!(
            matches!(&error, SpawnError::LogDirectoryMissing { path } if path == Path::new("/no/such/place"))
        );
        assert_eq!(error.hint().unwrap(), "create it: `mkdir -p /no/such/place`");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn full_disk_is_a_warning() {
        let mut log = LogFile::create(Path::new("/dev/full"), 100, true).unwrap();
        log.write(b"abc");
        log.write(b"def");
        let (written, dropped, warning) = log.finish();
        assert_eq!((written, dropped), (0, 6));
        assert!(matches!(warning, Some(Warning::WriteFailed { .. })));
    }
}
