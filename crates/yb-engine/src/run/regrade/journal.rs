//! The journal of a run's gradings, `gradings/journal.jsonl`: one chained line for each grading, with the digests of its files.
//!
//! It is separate from the journal of the run, which other gradings, a resumed run and a signature rely on.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::super::dir::RunDir;
use super::super::error::RunError;
use super::super::event::RunEvent;
use super::super::journal::{self, Journal, JournalContents, JournalError};
use super::super::lookup::RunInfo;
use super::super::record::file_digest;
use super::files::GRADINGS;

const JOURNAL: &str = "journal.jsonl";
const LOCK: &str = ".lock";

/// The recorded gradings of a run.
#[derive(Debug, Default)]
pub(crate) struct GradingJournal {
    /// The digests of the lines; each covers the lines before it.
    pub(crate) heads: Vec<String>,
    /// The gradings by id, in the order of their ids.
    pub(crate) gradings: BTreeMap<String, RecordedGrading>,
}

/// A line of the journal.
#[derive(Debug)]
pub(crate) struct RecordedGrading {
    /// The last line of the run's journal at that time.
    pub(crate) journal: Option<String>,
    /// Digests of the files, by path.
    pub(crate) files: BTreeMap<String, String>,
}

fn path(run: &RunDir) -> PathBuf {
    run.path().join(GRADINGS).join(JOURNAL)
}

impl GradingJournal {
    /// Reads the journal. A run without gradings, or with those of older versions only, has none.
    pub(crate) fn read(run: &RunDir) -> Result<Self, RunError> {
        let found = match journal::read(&path(run)) {
            Err(JournalError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                JournalContents::default()
            }
            found => found?,
        };
        let heads = found.heads();
        let mut gradings = BTreeMap::new();
        for entry in found.entries {
            match entry.event {
                RunEvent::Graded { run: of, journal, grading, files } if of == run.id() => {
                    gradings.insert(grading, RecordedGrading { journal, files });
                }
                _ => return Err(RunError::Modified { run: run.id(), path: path(run) }),
            }
        }
        Ok(Self { heads, gradings })
    }
}

impl RecordedGrading {
    /// Returns the files of the grading that are not what was recorded: changed, missing or added. Links are not recorded; they
    /// lead to the patch of their trial.
    pub(crate) fn changes(&self, grading: &Path) -> Vec<PathBuf> {
        let mut changed: Vec<PathBuf> = self
            .files
            .iter()
            .filter(|(name, digest)| !file_digest(&grading.join(name)).is_ok_and(|found| found == **digest))
            .map(|(name, _)| grading.join(name))
            .collect();
        let added = files(grading).into_iter().filter(|(name, _)| !self.files.contains_key(name));
        changed.extend(added.map(|(_, path)| path));
        changed
    }
}

/// Returns the regular files of a grading with their names in the record.
fn files(grading: &Path) -> Vec<(String, PathBuf)> {
    let name = |path: &Path| {
        let parts = path.strip_prefix(grading).unwrap_or(path).components();
        parts.map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/")
    };
    super::super::verify::files(grading).into_iter().map(|path| (name(&path), path)).collect()
}

/// The right to add gradings to a run; others wait.
pub(super) struct GradingLock {
    _file: File,
    path: PathBuf,
}

impl GradingLock {
    pub(super) fn acquire(run: &RunDir) -> Result<Self, RunError> {
        let path = path(run);
        let lock = path.with_file_name(LOCK);
        let open = || {
            let file = File::options().create(true).truncate(false).write(true).open(&lock)?;
            file.lock().map(|()| file)
        };
        let file = open().map_err(RunError::io("lock", &lock))?;
        Ok(Self { _file: file, path })
    }

    /// Records a grading, whose files are on disk.
    pub(super) fn record(&self, info: &RunInfo, id: &str, grading: &Path) -> Result<(), RunError> {
        let mut digests = BTreeMap::new();
        for (name, path) in files(grading) {
            digests.insert(name, file_digest(&path).map_err(RunError::io("read", &path))?);
        }
        let mut journal = match Journal::open(&self.path) {
            Ok((journal, _)) => journal,
            Err(JournalError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Journal::create(&self.path)?
            }
            Err(error) => return Err(error.into()),
        };
        let event = RunEvent::Graded {
            run: info.run.id(),
            journal: info.journal_head.clone(),
            grading: id.to_owned(),
            files: digests,
        };
        journal.append([event])?;
        Ok(())
    }
}

/// Returns the ids of the gradings on disk, sorted.
pub(crate) fn gradings_on_disk(run: &RunDir) -> Vec<String> {
    let entries = fs::read_dir(run.path().join(GRADINGS)).into_iter().flatten().flatten();
    let mut known: Vec<String> = entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|id| !id.starts_with('.'))
        .collect();
    known.sort();
    known
}
