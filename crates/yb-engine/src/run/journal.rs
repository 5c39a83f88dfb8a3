//! The append-only journal of a run: one JSON object per line, synced before a result is used.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::event::{JOURNAL_VERSION, JournalEntry, RunEvent};

/// An error of reading or writing a journal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// An I/O error.
    #[error("failed to {what} the journal `{}`: {source}", path.display())]
    Io {
        /// The operation.
        what: &'static str,
        /// The journal.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A line before the last is not a valid entry.
    #[error("the journal `{}` is damaged in line {line}: {reason}", path.display())]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// The line number.
        line: usize,
        /// The reason.
        reason: String,
    },
    /// The journal was written by a newer version.
    #[error(
        "the journal `{}` has version {found}; this version reads up to {JOURNAL_VERSION}",
        path.display()
    )]
    TooNew {
        /// The journal.
        path: PathBuf,
        /// The version of the journal.
        found: u32,
    },
}

impl JournalError {
    fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { what, path, source }
    }
}

/// The contents of a journal.
#[derive(Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct JournalContents {
    /// The entries.
    pub entries: Vec<JournalEntry>,
    /// The number of bytes of an incomplete last line.
    pub torn: u64,
    valid_len: u64,
}

/// Reads a journal, which another process may be writing to.
///
/// # Errors
/// Returns an error when it can't be read, is damaged before its last line, or is too new.
pub fn read(path: &Path) -> Result<JournalContents, JournalError> {
    let mut bytes = Vec::new();
    let mut file = File::open(path).map_err(JournalError::io("open", path))?;
    file.read_to_end(&mut bytes).map_err(JournalError::io("read", path))?;
    parse(path, &bytes)
}

fn parse(path: &Path, bytes: &[u8]) -> Result<JournalContents, JournalError> {
    let mut found = JournalContents::default();
    let mut rest = bytes;
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let (line, next) = (&rest[..end], &rest[end + 1..]);
        let number = found.entries.len() + 1;
        let damaged = |reason: String| JournalError::Damaged { path: path.to_owned(), line: number, reason };
        match serde_json::from_slice::<JournalEntry>(line) {
            Ok(entry) if entry.seq != number as u64 => {
                return Err(damaged(format!("expected entry {number}, found entry {}", entry.seq)));
            }
            Ok(entry) => {
                if let RunEvent::RunStarted { version, .. } = entry.event
                    && version > JOURNAL_VERSION
                {
                    return Err(JournalError::TooNew { path: path.to_owned(), found: version });
                }
                found.entries.push(entry);
            }
            // A power failure may leave zeros at the end of the file, with or without a line break.
            Err(_) if next.is_empty() => break,
            Err(error) => return Err(damaged(error.to_string())),
        }
        found.valid_len += end as u64 + 1;
        rest = next;
    }
    found.torn = bytes.len() as u64 - found.valid_len;
    Ok(found)
}

/// A journal that is open for writing. Requires the run's lock.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    next: u64,
    valid_len: u64,
}

impl Journal {
    /// Creates a journal.
    ///
    /// # Errors
    /// Returns an error when the file can't be created or exists.
    pub fn create(path: &Path) -> Result<Self, JournalError> {
        let file = File::create_new(path).map_err(JournalError::io("create", path))?;
        // Syncs the directory entries of the run, the plan and this journal.
        for folder in path.ancestors().skip(1).take(2) {
            sync_folder(folder).map_err(JournalError::io("create", path))?;
        }
        Ok(Self { path: path.to_owned(), file, next: 1, valid_len: 0 })
    }

    /// Opens an existing journal for appending. An incomplete last line is truncated.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`read`], and when the file can't be written.
    pub fn open(path: &Path) -> Result<(Self, JournalContents), JournalError> {
        let found = read(path)?;
        let mut file = File::options().write(true).open(path).map_err(JournalError::io("open", path))?;
        let truncated = file.set_len(found.valid_len).and_then(|()| file.seek(SeekFrom::End(0)));
        truncated.map_err(JournalError::io("write", path))?;
        let journal = Self {
            path: path.to_owned(),
            file,
            next: found.entries.len() as u64 + 1,
            valid_len: found.valid_len,
        };
        Ok((journal, found))
    }

    /// Appends events with at most one sync. Results are synced when this returns; other events survive a crash of this
    /// process and are synced with the next result, because they are meaningless after a power failure.
    ///
    /// # Errors
    /// Returns an error when they can't be written; then none of them is in the journal.
    pub fn append(
        &mut self,
        events: impl IntoIterator<Item = RunEvent>,
    ) -> Result<Vec<JournalEntry>, JournalError> {
        let at = Timestamp::now().to_string();
        let entries: Vec<JournalEntry> = events
            .into_iter()
            .zip(self.next..)
            .map(|(event, seq)| JournalEntry { seq, at: at.clone(), event })
            .collect();
        let mut text = Vec::new();
        for entry in &entries {
            serde_json::to_writer(&mut text, entry)
                .map_err(|error| JournalError::io("write", &self.path)(error.into()))?;
            text.push(b'\n');
        }
        let durable = entries.iter().any(|entry| entry.event.needs_sync());
        let sync = |file: &File| if durable { file.sync_data() } else { Ok(()) };
        if let Err(error) = self.file.write_all(&text).and_then(|()| sync(&self.file)) {
            // A partial line would make all following entries unreadable.
            let _ = self.file.set_len(self.valid_len).and_then(|()| self.file.seek(SeekFrom::End(0)));
            return Err(JournalError::io("write", &self.path)(error));
        }
        self.next += entries.len() as u64;
        self.valid_len += text.len() as u64;
        Ok(entries)
    }
}

/// Syncs the entries of a directory.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    #[cfg(unix)]
    File::open(folder)?.sync_all()?;
    #[cfg(not(unix))]
    let _ = folder;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started() -> RunEvent {
        RunEvent::RunStarted {
            version: JOURNAL_VERSION,
            run: "run-1".to_owned(),
            youbencha: "0".to_owned(),
            trials: 2,
            jobs: 1,
        }
    }

    fn attempt(attempt: u32) -> RunEvent {
        RunEvent::AttemptStarted { trial: "a--default--1".to_owned(), attempt }
    }

    fn written(folder: &Path) -> PathBuf {
        let path = folder.join("journal.jsonl");
        let mut journal = Journal::create(&path).unwrap();
        journal.append([started()]).unwrap();
        journal.append([attempt(1), attempt(2)]).unwrap();
        path
    }

    #[test]
    fn written_events_are_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let found = read(&written(folder.path())).unwrap();
        let events: Vec<_> = found.entries.into_iter().map(|entry| entry.event).collect();
        assert_eq!(events, [started(), attempt(1), attempt(2)]);
        assert_eq!(found.torn, 0);
    }

    #[test]
    fn truncated_journal_keeps_complete_entries() {
        let folder = tempfile::tempdir().unwrap();
        let path = written(folder.path());
        let valid_len = std::fs::read(&path).unwrap();
        for length in 0..=valid_len.len() {
            std::fs::write(&path, &valid_len[..length]).unwrap();
            let complete = valid_len[..length].iter().filter(|byte| **byte == b'\n').count();
            let (mut journal, found) = Journal::open(&path).unwrap();
            assert_eq!(found.entries.len(), complete, "cut at {length}");
            let last = valid_len[..length].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            assert_eq!(found.torn, (length - last) as u64);
            journal.append([attempt(9)]).unwrap();
            let found = read(&path).unwrap();
            assert_eq!((found.entries.len(), found.torn), (complete + 1, 0));
            assert_eq!(found.entries.last().unwrap().event, attempt(9));
        }
    }

    #[test]
    fn trailing_zeros_count_as_incomplete_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = written(folder.path());
        for tail in [&[0; 40][..], b"\0\0\0\n"] {
            let mut bytes = std::fs::read(&path).unwrap();
            bytes.extend_from_slice(tail);
            assert_eq!(parse(&path, &bytes).unwrap().torn, tail.len() as u64);
        }
    }

    #[test]
    fn damaged_line_is_reported_with_its_number() {
        let folder = tempfile::tempdir().unwrap();
        let path = written(folder.path());
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let check = |lines: &[&str], expected: &str| {
            let error = parse(&path, (lines.join("\n") + "\n").as_bytes()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(&[lines[0], "{", lines[2]], "is damaged in line 2");
        check(&[lines[0], lines[2], lines[2]], "line 2: expected entry 2, found entry 3");
        check(
            &[&lines[0].replace("\"version\":1", "\"version\":2")],
            "has version 2; this version reads up to 1",
        );
    }

    /// Every write to this device fails with `ENOSPC`.
    #[cfg(target_os = "linux")]
    #[test]
    fn full_disk_is_reported() {
        let file = File::options().write(true).open("/dev/full").unwrap();
        let mut journal = Journal { path: "/dev/full".into(), file, next: 1, valid_len: 0 };
        let error = journal.append([started()]).unwrap_err().to_string();
        assert!(error.starts_with("failed to write the journal `/dev/full`: No space left"), "{error}");
        assert_eq!(journal.next, 1);
    }
}
