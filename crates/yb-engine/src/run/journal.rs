//! The journal of a run, one JSON object a line, on disk before anything relies on it.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::event::{Entry, JOURNAL_VERSION, RunEvent};

/// Why a journal can't be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The system refused.
    #[error("failed to {what} the journal `{}`: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// The journal.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A line before the last is no entry.
    #[error("the journal `{}` is damaged in line {line}: {reason}", path.display())]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// Which line.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// It was written by a later version.
    #[error(
        "the journal `{}` has version {found}; this version reads up to {JOURNAL_VERSION}",
        path.display()
    )]
    TooNew {
        /// The journal.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
}

impl JournalError {
    fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { what, path, source }
    }
}

/// A journal as it was found.
#[derive(Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Found {
    /// Its entries.
    pub entries: Vec<Entry>,
    /// Bytes of a last line that was never finished; nothing relied on it.
    pub torn: u64,
    whole: u64,
}

/// Reads a journal; it may be written to meanwhile.
///
/// # Errors
/// When it can't be read, is damaged before its last line, or is too new.
pub fn read(path: &Path) -> Result<Found, JournalError> {
    let mut bytes = Vec::new();
    let mut file = File::open(path).map_err(JournalError::io("open", path))?;
    file.read_to_end(&mut bytes).map_err(JournalError::io("read", path))?;
    parse(path, &bytes)
}

fn parse(path: &Path, bytes: &[u8]) -> Result<Found, JournalError> {
    let mut found = Found::default();
    let mut rest = bytes;
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let (line, next) = (&rest[..end], &rest[end + 1..]);
        let number = found.entries.len() + 1;
        let damaged = |reason: String| JournalError::Damaged { path: path.to_owned(), line: number, reason };
        match serde_json::from_slice::<Entry>(line) {
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
            // A machine that lost its power may leave the end of the file as zeros, with or without a line's end.
            Err(_) if next.is_empty() => break,
            Err(error) => return Err(damaged(error.to_string())),
        }
        found.whole += end as u64 + 1;
        rest = next;
    }
    found.torn = bytes.len() as u64 - found.whole;
    Ok(found)
}

/// A journal to write to. Only who holds the run's lock has one.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    next: u64,
    whole: u64,
}

impl Journal {
    /// A new one.
    ///
    /// # Errors
    /// When it can't be made, or is there already.
    pub fn create(path: &Path) -> Result<Self, JournalError> {
        let file = File::create_new(path).map_err(JournalError::io("make", path))?;
        // The run's own name and those in it, of the plan and of this journal.
        for folder in path.ancestors().skip(1).take(2) {
            sync_folder(folder).map_err(JournalError::io("make", path))?;
        }
        Ok(Self { path: path.to_owned(), file, next: 1, whole: 0 })
    }

    /// Goes on with one that is there. A torn last line is dropped.
    ///
    /// # Errors
    /// As [`read`].
    pub fn open(path: &Path) -> Result<(Self, Found), JournalError> {
        let found = read(path)?;
        let mut file = File::options().write(true).open(path).map_err(JournalError::io("open", path))?;
        let cut = file.set_len(found.whole).and_then(|()| file.seek(SeekFrom::End(0)));
        cut.map_err(JournalError::io("write", path))?;
        let journal =
            Self { path: path.to_owned(), file, next: found.entries.len() as u64 + 1, whole: found.whole };
        Ok((journal, found))
    }

    /// Appends events, several at the cost of one. An event that others rely on is on disk when this returns; the rest
    /// is safe from the death of this process, and gets there with the next: what they tell of is gone with the machine.
    ///
    /// # Errors
    /// When they can't be written; then none of them is in the journal.
    pub fn append(&mut self, events: impl IntoIterator<Item = RunEvent>) -> Result<Vec<Entry>, JournalError> {
        let at = Timestamp::now().to_string();
        let entries: Vec<Entry> = events
            .into_iter()
            .zip(self.next..)
            .map(|(event, seq)| Entry { seq, at: at.clone(), event })
            .collect();
        let mut text = Vec::new();
        for entry in &entries {
            serde_json::to_writer(&mut text, entry)
                .map_err(|error| JournalError::io("write", &self.path)(error.into()))?;
            text.push(b'\n');
        }
        let durable = entries.iter().any(|entry| entry.event.is_relied_on());
        let sync = |file: &File| if durable { file.sync_data() } else { Ok(()) };
        if let Err(error) = self.file.write_all(&text).and_then(|()| sync(&self.file)) {
            // Half a line in the middle would make all that follows unreadable.
            let _ = self.file.set_len(self.whole).and_then(|()| self.file.seek(SeekFrom::End(0)));
            return Err(JournalError::io("write", &self.path)(error));
        }
        self.next += entries.len() as u64;
        self.whole += text.len() as u64;
        Ok(entries)
    }
}

/// Makes a name in a folder durable.
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
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let found = read(&written(folder.path())).unwrap();
        let events: Vec<_> = found.entries.into_iter().map(|entry| entry.event).collect();
        assert_eq!(events, [started(), attempt(1), attempt(2)]);
        assert_eq!(found.torn, 0);
    }

    #[test]
    fn cut_anywhere_it_is_the_entries_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = written(folder.path());
        let whole = std::fs::read(&path).unwrap();
        for length in 0..=whole.len() {
            std::fs::write(&path, &whole[..length]).unwrap();
            let complete = whole[..length].iter().filter(|byte| **byte == b'\n').count();
            let (mut journal, found) = Journal::open(&path).unwrap();
            assert_eq!(found.entries.len(), complete, "cut at {length}");
            let last = whole[..length].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            assert_eq!(found.torn, (length - last) as u64);
            journal.append([attempt(9)]).unwrap();
            let found = read(&path).unwrap();
            assert_eq!((found.entries.len(), found.torn), (complete + 1, 0));
            assert_eq!(found.entries.last().unwrap().event, attempt(9));
        }
    }

    #[test]
    fn zeros_at_the_end_are_a_torn_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = written(folder.path());
        for tail in [&[0; 40][..], b"\0\0\0\n"] {
            let mut bytes = std::fs::read(&path).unwrap();
            bytes.extend_from_slice(tail);
            assert_eq!(parse(&path, &bytes).unwrap().torn, tail.len() as u64);
        }
    }

    #[test]
    fn damage_before_the_end_is_named() {
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

    /// Every write to this device fails for want of space.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_named() {
        let file = File::options().write(true).open("/dev/full").unwrap();
        let mut journal = Journal { path: "/dev/full".into(), file, next: 1, whole: 0 };
        let error = journal.append([started()]).unwrap_err().to_string();
        assert!(error.starts_with("failed to write the journal `/dev/full`: No space left"), "{error}");
        assert_eq!(journal.next, 1);
    }
}
