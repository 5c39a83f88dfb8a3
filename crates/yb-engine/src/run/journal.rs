//! The append-only journal of a run: one JSON object per line, synced before a result is used.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek as _, SeekFrom, Write as _};
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
    /// The digest of the last line, which covers all lines before it.
    pub head: Option<String>,
    /// Whether every line has the digest of the previous one. Journals of older versions, and runs that one of them started, are
    /// not chained from the start.
    pub chained: bool,
    valid_len: u64,
    /// The number of lines that were checked.
    lines: u64,
    /// Whether the last of them has the digest of the line before it.
    last_is_linked: bool,
}

/// Reads a journal, which another process may be writing to.
///
/// # Errors
/// Returns an error when it can't be read, is damaged before its last line, or is too new.
pub fn read(path: &Path) -> Result<JournalContents, JournalError> {
    let mut entries = Vec::new();
    let mut found = fold(path, &mut |entry| entries.push(entry))?;
    found.entries = entries;
    Ok(found)
}

/// Reads a journal entry by entry, without keeping them: the returned contents have none.
///
/// # Errors
/// The same as [`read`].
pub(crate) fn fold(
    path: &Path,
    visit: &mut dyn FnMut(JournalEntry),
) -> Result<JournalContents, JournalError> {
    let file = File::open(path).map_err(JournalError::io("open", path))?;
    fold_lines(path, &mut BufReader::new(file), visit)
}

fn fold_lines(
    path: &Path,
    input: &mut dyn BufRead,
    visit: &mut dyn FnMut(JournalEntry),
) -> Result<JournalContents, JournalError> {
    let mut found = JournalContents::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        let length = input.read_until(b'\n', &mut line).map_err(JournalError::io("read", path))?;
        let Some(text) = line.strip_suffix(b"\n") else {
            found.torn += length as u64;
            return Ok(found);
        };
        match serde_json::from_slice::<JournalEntry>(text) {
            Ok(entry) => {
                found.check(path, text, &entry)?;
                visit(entry);
            }
            // A power failure may leave zeros at the end of the file, with or without a line break.
            Err(_) if input.fill_buf().map_err(JournalError::io("read", path))?.is_empty() => {
                found.torn += length as u64;
                return Ok(found);
            }
            Err(error) => return Err(found.damaged(path, error.to_string())),
        }
        found.valid_len += length as u64;
    }
}

impl JournalContents {
    /// Returns the digests of all lines, in order.
    pub(crate) fn heads(&self) -> Vec<String> {
        let before = self.entries.iter().filter_map(|entry| entry.prev.clone());
        before.chain(self.head.clone()).collect()
    }

    /// Checks the next line against the ones before it.
    pub(super) fn check(
        &mut self,
        path: &Path,
        line: &[u8],
        entry: &JournalEntry,
    ) -> Result<(), JournalError> {
        if entry.seq != self.lines + 1 {
            let reason = format!("expected entry {}, found entry {}", self.lines + 1, entry.seq);
            return Err(self.damaged(path, reason));
        }
        if let RunEvent::RunStarted { version, .. } = entry.event
            && version > JOURNAL_VERSION
        {
            return Err(JournalError::TooNew { path: path.to_owned(), found: version });
        }
        self.check_chain(entry).map_err(|reason| self.damaged(path, reason))?;
        self.head = Some(digest(line));
        self.lines += 1;
        self.last_is_linked = entry.prev.is_some();
        Ok(())
    }

    fn damaged(&self, path: &Path, reason: String) -> JournalError {
        let line = usize::try_from(self.lines + 1).unwrap_or(usize::MAX);
        JournalError::Damaged { path: path.to_owned(), line, reason }
    }

    /// Checks that an entry has the digest of the line before it.
    fn check_chain(&mut self, entry: &JournalEntry) -> Result<(), String> {
        match (self.lines > 0, &entry.prev) {
            (false, None) => {
                self.chained = matches!(
                    &entry.event,
                    RunEvent::RunStarted { plan: Some(_), .. } | RunEvent::Graded { .. }
                );
                Ok(())
            }
            (true, Some(prev)) if self.head.as_ref() == Some(prev) => Ok(()),
            // A line of an older version; newer ones follow if a newer version resumed the run.
            (true, None) if !self.chained && !self.last_is_linked => Ok(()),
            (true, None) => Err("it lacks the digest of the previous line".to_owned()),
            (_, Some(_)) => {
                Err("the previous line was changed, dropped or moved: its digest differs".to_owned())
            }
        }
    }
}

/// Returns the digest of a line, without its line break.
fn digest(line: &[u8]) -> String {
    blake3::hash(line).to_hex().to_string()
}

/// A journal that is open for writing. Requires the run's lock.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    next: u64,
    valid_len: u64,
    /// The digest of the last line.
    head: Option<String>,
}

impl Journal {
    /// Creates a journal.
    ///
    /// # Errors
    /// Returns an error when the file can't be created or exists.
    pub fn create(path: &Path) -> Result<Self, JournalError> {
        let file = private_file(path).map_err(JournalError::io("create", path))?;
        // Syncs the directory entries of the run, the plan and this journal.
        for folder in path.ancestors().skip(1).take(2) {
            sync_folder(folder).map_err(JournalError::io("create", path))?;
        }
        Ok(Self { path: path.to_owned(), file, next: 1, valid_len: 0, head: None })
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
            head: found.head.clone(),
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
        let (mut entries, mut text, mut head) = (Vec::new(), Vec::new(), self.head.clone());
        for (event, seq) in events.into_iter().zip(self.next..) {
            let entry = JournalEntry { seq, at: at.clone(), prev: head, event };
            let line = serde_json::to_vec(&entry)
                .map_err(|error| JournalError::io("write", &self.path)(error.into()))?;
            head = Some(digest(&line));
            text.extend_from_slice(&line);
            text.push(b'\n');
            entries.push(entry);
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
        self.head = head;
        Ok(entries)
    }

    /// Returns the digest of the last line, which covers all lines before it.
    #[must_use]
    pub fn head(&self) -> Option<&str> {
        self.head.as_deref()
    }
}

/// Creates a file that only its owner can read.
fn private_file(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
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

    fn parse(path: &Path, mut bytes: &[u8]) -> Result<JournalContents, JournalError> {
        let mut entries = Vec::new();
        let found = fold_lines(path, &mut bytes, &mut |entry| entries.push(entry))?;
        Ok(JournalContents { entries, ..found })
    }

    fn started() -> RunEvent {
        RunEvent::RunStarted {
            version: JOURNAL_VERSION,
            run: "run-1".to_owned(),
            youbencha: "0".to_owned(),
            trials: 2,
            jobs: 1,
            plan: Some("p".to_owned()),
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

    /// The last line has no successor: `results.json` has its digest.
    #[test]
    fn every_flipped_bit_but_those_of_the_last_line_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = written(folder.path());
        let bytes = std::fs::read(&path).unwrap();
        let head = parse(&path, &bytes).unwrap().head;
        let last = bytes[..bytes.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let found = parse(&path, &flipped);
            // Without the last line break but one, the last two lines become an incomplete one.
            if bit / 8 < last {
                assert!(found.is_err(), "bit {bit}: {found:?}");
            } else {
                assert!(found.map_or(true, |found| found.head != head), "bit {bit}");
            }
        }
    }

    #[test]
    fn dropped_moved_and_unchained_lines_are_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = written(folder.path());
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let edited = |lines: &[&str]| parse(&path, (lines.join("\n") + "\n").as_bytes());
        assert!(edited(&lines).unwrap().chained);
        let moved = [
            lines[0],
            &lines[2].replace("\"seq\":3", "\"seq\":2"),
            &lines[1].replace("\"seq\":2", "\"seq\":3"),
        ];
        assert!(edited(&moved).is_err());
        assert!(edited(&[lines[0], &lines[2].replace("\"seq\":3", "\"seq\":2")]).is_err());
        let head = parse(&path, text.as_bytes()).unwrap().entries[2].prev.clone().unwrap();
        let unchained = lines[2].replace(&format!("\"prev\":\"{head}\","), "");
        let error = edited(&[lines[0], lines[1], &unchained]).unwrap_err().to_string();
        assert!(error.contains("line 3: it lacks the digest of the previous line"), "{error}");
    }

    #[test]
    fn journal_of_an_older_version_is_read_and_continued() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        let old = "{\"seq\":1,\"at\":\"t\",\"event\":\"run_started\",\"version\":1,\"run\":\"r\",\"youbencha\":\"0\",\"trials\":1,\"jobs\":1}\n\
                   {\"seq\":2,\"at\":\"t\",\"event\":\"attempt_started\",\"trial\":\"a\",\"attempt\":1}\n";
        std::fs::write(&path, old).unwrap();
        let (mut journal, found) = Journal::open(&path).unwrap();
        assert!(!found.chained && found.entries.len() == 2);
        journal.append([attempt(2), attempt(3)]).unwrap();
        let found = read(&path).unwrap();
        assert!(!found.chained && found.entries.len() == 4);
        assert_eq!(found.head.as_deref(), journal.head());
        let text = std::fs::read_to_string(&path).unwrap().replace("\"trial\":\"a\"", "\"trial\":\"b\"");
        assert!(parse(&path, text.as_bytes()).is_err(), "the new lines cover the old ones");
    }

    /// Every write to this device fails with `ENOSPC`.
    #[cfg(target_os = "linux")]
    #[test]
    fn full_disk_is_reported() {
        let file = File::options().write(true).open("/dev/full").unwrap();
        let mut journal = Journal { path: "/dev/full".into(), file, next: 1, valid_len: 0, head: None };
        let error = journal.append([started()]).unwrap_err().to_string();
        assert!(error.starts_with("failed to write the journal `/dev/full`: No space left"), "{error}");
        assert_eq!(journal.next, 1);
    }
}
