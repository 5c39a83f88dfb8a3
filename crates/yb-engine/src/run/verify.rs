//! `yb verify`: all that a run recorded, checked against its journal.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use yb_repo::{Git, ObjectStore};
use yb_tape::Tape;

use super::dir::{CACHE, RunDir};
use super::error::RunError;
use super::event::AttemptRecord;
use super::journal;
use super::journal::JournalError;
use super::lookup::RunInfo;
use super::record::{RecordStatement, file_digest};
use super::regrade::{GRADINGS, GradingJournal, gradings_on_disk, is_recorded};
use crate::baseline::{self, BaselineError};

/// The result of verifying a run.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Verification {
    /// The problems; empty for an intact run.
    pub problems: Vec<VerificationProblem>,
    /// What could not be checked.
    pub notes: Vec<String>,
    /// The number of checked artifacts.
    pub artifacts: usize,
    /// The number of checked trees.
    pub trees: usize,
    /// The number of checked tapes.
    pub tapes: usize,
    /// The number of checked gradings.
    pub gradings: usize,
    /// The number of checked baselines that were set from the run.
    pub baselines: usize,
    /// The statement that a signature covers; absent for a run that is unfinished, not chained or has problems.
    pub statement: Option<RecordStatement>,
}

/// A file or object that is not what was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerificationProblem {
    /// The place: a path within the run directory, with a line or an object where there is one.
    pub place: String,
    /// The problem.
    pub message: String,
}

impl VerificationProblem {
    /// Returns a problem.
    #[must_use]
    pub fn new(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self { place: place.into(), message: message.into() }
    }
}

impl Verification {
    fn problem(&mut self, place: impl Into<String>, message: impl Into<String>) {
        self.problems.push(VerificationProblem::new(place, message));
    }
}

/// Verifies a run: the chain of the journal, the plan, the results, all artifacts, trees, tapes, gradings and baselines.
pub async fn verify(run: &RunDir) -> Verification {
    let mut found = Verification::default();
    let info = match RunInfo::read(run.clone()) {
        Ok(info) => info,
        Err(error) => {
            let place = match &error {
                RunError::Modified { path, .. } | RunError::Plan { path, .. } => relative(run, path),
                RunError::Journal(JournalError::Damaged { line, .. }) => {
                    format!("journal.jsonl, line {line}")
                }
                _ => "journal.jsonl".to_owned(),
            };
            let message = match &error {
                RunError::Modified { .. } => "changed since it was recorded".to_owned(),
                RunError::Journal(JournalError::Damaged { reason, .. }) => reason.clone(),
                other => other.to_string(),
            };
            found.problem(place, message);
            return found;
        }
    };
    if !info.chained {
        found.notes.push(
            "not chained: an older version started the run, so that not every change is noticed".to_owned(),
        );
    }
    if info.active {
        found.notes.push("the run is in progress".to_owned());
    }
    if info.check_results().is_err() {
        found.problem("results.json", "differs from the journal");
    } else if info.chained && info.has_unrecorded_gates() {
        found
            .notes
            .push("`gates` in `results.json` were not checked: an older version wrote them".to_owned());
    }
    let attempts: Vec<&AttemptRecord> = info.state.trials().flat_map(|(_, trial)| &trial.attempts).collect();
    check_artifacts(&info, &attempts, &mut found);
    check_trees(&info, &attempts, &mut found).await;
    check_tapes(&attempts, &mut found);
    check_gradings(&info, &mut found);
    check_baselines(&info, &mut found);
    if found.problems.is_empty() {
        found.statement = info.statement();
    }
    found
}

fn relative(run: &RunDir, path: &Path) -> String {
    path.strip_prefix(run.path()).unwrap_or(path).display().to_string()
}

fn check_gradings(info: &RunInfo, found: &mut Verification) {
    let place = |id: &str| info.run.path().join(GRADINGS).join(id);
    let journal = match GradingJournal::read(&info.run) {
        Ok(journal) => journal,
        Err(error) => return found.problem(relative(&info.run, &place("journal.jsonl")), error.to_string()),
    };
    let heads = journal::read(&info.run.journal()).map(|journal| journal.heads()).unwrap_or_default();
    let on_disk = gradings_on_disk(&info.run);
    for (id, record) in &journal.gradings {
        found.gradings += 1;
        if !on_disk.contains(id) {
            found.problem(relative(&info.run, &place(id)), "missing");
            continue;
        }
        for path in record.changes(&place(id)) {
            found.problem(relative(&info.run, &path), "changed since it was recorded");
        }
        if info.chained && record.journal.as_ref().is_none_or(|head| !heads.contains(head)) {
            found.problem(relative(&info.run, &place(id)), "not a grading of this journal");
        }
    }
    for id in on_disk.iter().filter(|id| !journal.gradings.contains_key(*id)) {
        let file = place(id).join("grading.json");
        let grading = fs::read(&file).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        if grading.as_ref().is_some_and(is_recorded) {
            found.problem(relative(&info.run, &file), "not in the journal of gradings");
        } else {
            found
                .notes
                .push(format!("grading `{id}` was not checked: an older version wrote it, without digests"));
        }
    }
}

/// Checks the baselines that were set from the run: each is a copy of its results.
fn check_baselines(info: &RunInfo, found: &mut Verification) {
    for name in baseline::names(info.run.root()) {
        let place = format!("baseline `{name}`");
        let set = match baseline::read(info.run.root(), &name) {
            Ok(set) => set,
            Err(error @ BaselineError::Modified { .. }) => {
                found.problem(place, error.to_string());
                continue;
            }
            // Its run is unknown.
            Err(_) => continue,
        };
        if set.results.run != info.run.id() {
            continue;
        }
        if set.digest.is_none() {
            found.notes.push(format!("{place} was not checked: an older version set it, without digests"));
        } else if set.results.journal_head != info.journal_head {
            found.notes.push(format!("{place} was not compared: the run was continued since it was set"));
        } else if !set.is_of(info) {
            found.problem(place, "differs from the run");
        } else {
            found.baselines += 1;
        }
    }
}

fn check_artifacts(info: &RunInfo, attempts: &[&AttemptRecord], found: &mut Verification) {
    for record in attempts {
        let folder = info.run.artifacts(&record.trial, record.attempt);
        for path in info.modified_artifacts(record) {
            found.problem(relative(&info.run, &path), "changed since it was recorded");
        }
        for name in record.artifacts.keys() {
            found.artifacts += 1;
            let path = folder.join(name);
            if fs::symlink_metadata(&path).is_err() {
                found.problem(relative(&info.run, &path), "missing");
            }
        }
        // Older versions recorded only some directories.
        if info.chained && !record.artifacts.is_empty() {
            for path in files(&folder) {
                let name = path.strip_prefix(&folder).unwrap_or(&path).to_string_lossy().into_owned();
                if !record.artifacts.contains_key(&name) {
                    // Nothing reads it; `yb report` writes such files on request.
                    found.notes.push(format!("not recorded: `{}`", relative(&info.run, &path)));
                }
            }
        }
    }
}

/// Returns the regular files below a directory.
pub(super) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => all.extend(files(&entry.path())),
            Ok(kind) if kind.is_file() => all.push(entry.path()),
            _ => {}
        }
    }
    all
}

async fn check_trees(info: &RunInfo, attempts: &[&AttemptRecord], found: &mut Verification) {
    let trees = attempts.iter().filter_map(|record| record.trees.as_ref());
    let trees: BTreeSet<&str> = trees.flat_map(|trees| [trees.start.as_str(), trees.end.as_str()]).collect();
    found.trees = trees.len();
    if trees.is_empty() {
        return;
    }
    if !info.run.objects().is_dir() {
        found.problem("objects.git", "missing");
        return;
    }
    let cache = info.run.root().join(CACHE);
    let damaged = match Git::new(cache.join("git-home")) {
        Ok(git) => match ObjectStore::open(info.run.objects(), &git).await {
            Ok(store) => store.verify(&trees.into_iter().collect::<Vec<_>>()).await,
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
    };
    match damaged {
        Ok(damaged) => {
            for line in damaged {
                found.problem("objects.git", line);
            }
        }
        Err(error) => found.notes.push(format!("trees were not checked: {error}")),
    }
}

fn check_tapes(attempts: &[&AttemptRecord], found: &mut Verification) {
    let mut tapes: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for tape in attempts.iter().filter_map(|record| record.tape.as_deref()) {
        if let Some(content) = &tape.content {
            tapes.entry(&tape.file).or_default().insert(content);
        }
    }
    for (file, recorded) in tapes {
        let path = Path::new(file);
        match file_digest(path) {
            Ok(digest) if recorded.len() == 1 && recorded.contains(digest.as_str()) => found.tapes += 1,
            Ok(_) => {
                found.problem(file, "changed since it was recorded");
                continue;
            }
            Err(_) => {
                found.notes.push(format!("tape was not checked, because it is missing: `{file}`"));
                continue;
            }
        }
        match Tape::open(path) {
            Ok(tape) => {
                for problem in tape.changes() {
                    found.problem(file, problem);
                }
            }
            Err(error) => found.problem(file, error.to_string()),
        }
    }
}
