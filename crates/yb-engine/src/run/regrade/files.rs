//! The files of a grading, `gradings/<id>/`, which appear atomically.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::{Value, json};

use super::super::dir::RunDir;
use super::super::error::RunError;
use super::super::event::EvaluatorVerdict;
use super::super::lookup::RunInfo;
use super::super::results::RunResults;
use super::super::resume::replace;
use super::super::state::RunState;
use super::journal::{GradingJournal, GradingLock, gradings_on_disk};
use super::{RegradeOptions, RegradedTrial};
use yb_case::suite::SourceFile;
use yb_evaluate::{EvaluatorResult, FOLDER, GradeError, PATCH_FILE, VERDICT_FILE};
use yb_model::outcome::Outcome;
use yb_model::results::Summary;
use yb_repo::remove_or_set_aside;

/// The directory of all gradings of a run.
pub(crate) const GRADINGS: &str = "gradings";
/// The directory of the trials of a grading.
pub(super) const TRIALS: &str = "trials";
/// The temporary directory for checked-out trees.
pub(super) const SCRATCH: &str = ".scratch";
/// The version of the format of `grading.json`.
const VERSION: u32 = 1;
/// The field of `grading.json` that says that the journal of gradings has its digest. Older versions kept no such journal.
const RECORDED: &str = "recorded";
const RESULTS: &str = "results.json";

/// The temporary directory of a grading, removed unless it is finished.
pub(super) struct GradingDir {
    folder: PathBuf,
    path: PathBuf,
}

impl GradingDir {
    pub(super) fn begin(run: &RunDir) -> Result<Self, RunError> {
        let folder = run.path().join(GRADINGS);
        let path = yb_model::atomic_file::temporary_sibling(&folder.join("grading"));
        fs::create_dir_all(path.join(TRIALS)).map_err(RunError::io("create", &path))?;
        Ok(Self { folder, path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the report, renames the directory to its id and records its digests.
    pub(super) fn finish(self, report: &GradingReport<'_>) -> Result<(String, PathBuf), RunError> {
        let _ = remove_or_set_aside(&self.path.join(SCRATCH));
        self.json("grading.json", &report.grading())?;
        self.json("timings.json", &report.timings())?;
        self.json(RESULTS, &json!(RunResults::of(&report.info.plan, report.state)))?;
        let digests = report.trials.iter().map(|one| format!("{} {}\n", one.trial, one.grade_digest));
        let digest = blake3::hash(digests.collect::<String>().as_bytes()).to_hex();
        let lock = GradingLock::acquire(&report.info.run)?;
        let taken = |entry: fs::DirEntry| entry.file_name().to_str()?.split('-').next()?.parse::<u32>().ok();
        let known = fs::read_dir(&self.folder).into_iter().flatten().flatten().filter_map(taken).max();
        let mut number = known.unwrap_or(0) + 1;
        loop {
            let id = format!("{number:04}-{}", &digest[..8]);
            let path = self.folder.join(&id);
            match fs::rename(&self.path, &path) {
                Ok(()) => {
                    if let Err(error) = lock.record(report.info, &id, &path) {
                        let _ = remove_or_set_aside(&path);
                        return Err(error);
                    }
                    return Ok((id, path));
                }
                // A version that takes no lock took this number.
                Err(_) if path.exists() => number += 1,
                Err(error) => return Err(RunError::io("create", path)(error)),
            }
        }
    }

    fn json(&self, file: &str, content: &Value) -> Result<(), RunError> {
        replace(&self.path.join(file), format!("{content:#}\n").as_bytes())
    }
}

impl Drop for GradingDir {
    fn drop(&mut self) {
        if self.path.exists() {
            let _ = remove_or_set_aside(&self.path);
            // Fails if there are other gradings.
            let _ = fs::remove_dir(&self.folder);
        }
    }
}

/// The contents of a grading.
pub(super) struct GradingReport<'a> {
    pub(super) info: &'a RunInfo,
    pub(super) options: &'a RegradeOptions,
    pub(super) config: &'a Path,
    pub(super) sources: &'a [SourceFile],
    pub(super) trials: &'a [RegradedTrial],
    pub(super) state: &'a RunState,
    pub(super) began: Instant,
}

impl GradingReport<'_> {
    /// Returns `grading.json`: inputs and outcomes without any time, so that it is deterministic.
    fn grading(&self) -> Value {
        let trials: Vec<Value> = self
            .trials
            .iter()
            .map(|one| {
                json!({
                    "trial": one.trial,
                    "attempt": one.attempt,
                    "start": one.trees.start,
                    "end": one.trees.end,
                    "log": one.log_digest,
                    "grade_digest": one.grade_digest,
                    "before": one.before,
                    "outcome": one.after,
                    "error": one.error,
                    "judge_usd": one.judge_usd,
                    "evaluators": one.evaluators,
                    "verdicts": one.verdicts,
                })
            })
            .collect();
        json!({
            "version": VERSION,
            "run": self.info.run.id(),
            "youbencha": env!("CARGO_PKG_VERSION"),
            "config": self.config,
            "files": self.sources,
            "failed_only": self.options.failed_only,
            RECORDED: true,
            "trials": trials,
        })
    }

    /// Returns `timings.json`.
    fn timings(&self) -> Value {
        let trials: BTreeMap<&str, Vec<Value>> = self
            .trials
            .iter()
            .map(|one| {
                let each = one.evaluators.iter().zip(&one.durations);
                let each = each.map(|(graded, ms)| json!({ "evaluator": graded.name, "duration_ms": ms }));
                (one.trial.as_str(), each.collect())
            })
            .collect();
        let took = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        json!({ "graded_at": jiff::Timestamp::now().to_string(), "duration_ms": took, "trials": trials })
    }
}

impl RunInfo {
    /// Applies a grading, named by a prefix of its id, its number or `latest`. Returns its directory too.
    ///
    /// # Errors
    /// Returns an error when there is no such grading, it can't be read, or it was changed.
    pub fn by_grading(mut self, name: &str) -> Result<(Self, PathBuf), RunError> {
        let folder = self.run.path().join(GRADINGS);
        let known = gradings_on_disk(&self.run);
        let numbered = name.parse::<u32>().map_or_else(|_| name.to_owned(), |number| format!("{number:04}"));
        let found = match name {
            "latest" => known.last(),
            _ => known.iter().find(|id| id.starts_with(name) || id.starts_with(&numbered)),
        };
        let Some(id) = found else {
            return Err(RunError::NoSuchGrading { run: self.run.id(), name: name.to_owned(), known });
        };
        let path = folder.join(id);
        let file = path.join("grading.json");
        let invalid = |reason: String| RunError::Plan { path: file.clone(), reason };
        let bytes = fs::read(&file).map_err(|error| invalid(error.to_string()))?;
        let value: Value = serde_json::from_slice(&bytes).map_err(|error| invalid(error.to_string()))?;
        if value["version"].as_u64().is_none_or(|version| version > u64::from(VERSION)) {
            return Err(invalid(format!("this version reads up to {VERSION}")));
        }
        let recorded = GradingJournal::read(&self.run)?;
        let modified = |path: PathBuf| RunError::Modified { run: self.run.id(), path };
        let changed = match recorded.gradings.get(id) {
            Some(record) => record.changes(&path).into_iter().next(),
            None => is_recorded(&value).then(|| file.clone()),
        };
        if let Some(changed) = changed {
            return Err(modified(changed));
        }
        let trials: Vec<RegradeRecord> =
            serde_json::from_value(value["trials"].clone()).map_err(|error| invalid(error.to_string()))?;
        for one in &trials {
            self.state.regrade(&one.trial, one.outcome, &one.evaluators, one.judge_usd, one.error.as_deref());
        }
        Ok((self, path))
    }
}

/// Whether a `grading.json` says that the journal of gradings has its digest.
pub(crate) fn is_recorded(grading: &Value) -> bool {
    grading[RECORDED] == true
}

/// A trial in `grading.json`.
#[derive(serde::Deserialize)]
struct RegradeRecord {
    trial: String,
    outcome: Outcome,
    evaluators: Vec<EvaluatorVerdict>,
    judge_usd: Option<f64>,
    error: Option<String>,
}

/// Returns the digests of a trial's verdicts.
pub(super) fn verdicts(own: &Path) -> Result<BTreeMap<String, String>, GradeError> {
    let folder = own.join(FOLDER);
    let mut digests = BTreeMap::new();
    for entry in fs::read_dir(&folder).map_err(GradeError::io(&folder))? {
        let entry = entry.map_err(GradeError::io(&folder))?;
        let path = entry.path().join(VERDICT_FILE);
        let bytes = fs::read(&path).map_err(GradeError::io(&path))?;
        let name = format!("{FOLDER}/{}/{VERDICT_FILE}", entry.file_name().to_string_lossy());
        digests.insert(name, blake3::hash(&bytes).to_hex().to_string());
    }
    Ok(digests)
}

/// Writes `results.json` of a regraded trial: a copy of the original with new verdicts. The patch is a link to the
/// original.
pub(super) fn write_results(
    recorded: &Path,
    own: &Path,
    results: &[EvaluatorResult],
    outcome: Outcome,
) -> Result<(), GradeError> {
    let path = recorded.join(RESULTS);
    let bytes = fs::read(&path).map_err(GradeError::io(&path))?;
    let mut value: Value =
        serde_json::from_slice(&bytes).map_err(|error| GradeError::other(error.to_string()))?;
    let left: Vec<&str> =
        results.iter().flat_map(|one| one.artifacts.iter().map(|artifact| artifact.path.as_str())).collect();
    value["evaluators"] = json!(results);
    value["summary"] = json!(Summary::of(results));
    value["artifacts"]["evaluator_artifacts"] = json!(left);
    value["outcome"] = json!(outcome);
    #[cfg(unix)]
    if left.contains(&PATCH_FILE) && recorded.join(PATCH_FILE).exists() {
        let attempt = recorded.parent().and_then(Path::file_name).unwrap_or_default();
        let trial = own.file_name().unwrap_or_default();
        // From `gradings/<id>/trials/<trial>`.
        let target = Path::new("../../../..").join(TRIALS).join(trial).join(attempt).join("artifacts");
        let link = own.join(PATCH_FILE);
        std::os::unix::fs::symlink(target.join(PATCH_FILE), &link).map_err(GradeError::io(&link))?;
    }
    let path = own.join(RESULTS);
    fs::write(&path, format!("{value:#}\n")).map_err(GradeError::io(&path))
}
