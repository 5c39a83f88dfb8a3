//! What a grading leaves behind, `gradings/<id>/`: whole or not at all.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::{Value, json};

use super::super::dir::RunDir;
use super::super::error::RunError;
use super::super::event::Graded;
use super::super::find::RunInfo;
use super::super::open::replace;
use super::super::results::RunResults;
use super::super::state::RunState;
use super::{Regrade, Regraded};
use yb_case::suite::SourceFile;
use yb_evaluate::{EvaluatorResult, FOLDER, GradeError, PATCH_FILE, VERDICT_FILE};
use yb_model::outcome::Outcome;
use yb_model::results::Summary;

/// Below a run: all gradings.
const GRADINGS: &str = "gradings";
/// Below a grading: what each trial came to.
pub(super) const TRIALS: &str = "trials";
/// Below a grading, while it is made: trees that something looks at.
pub(super) const SCRATCH: &str = ".scratch";
/// The format of `grading.json`.
const VERSION: u32 = 1;
const RESULTS: &str = "results.json";

/// A grading that is being made; it goes away unless it is finished.
pub(super) struct Part {
    folder: PathBuf,
    path: PathBuf,
}

impl Part {
    pub(super) fn begin(run: &RunDir) -> Result<Self, RunError> {
        let folder = run.path().join(GRADINGS);
        let path = yb_model::atomic_file::temporary_sibling(&folder.join("grading"));
        fs::create_dir_all(path.join(TRIALS)).map_err(RunError::io("make", &path))?;
        Ok(Self { folder, path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes what it came to, and gives it its name.
    pub(super) fn finish(self, made: &Made<'_>) -> Result<(String, PathBuf), RunError> {
        yb_evaluate::remove_tree(&self.path.join(SCRATCH));
        self.json("grading.json", &made.grading())?;
        self.json("timings.json", &made.timings())?;
        self.json(RESULTS, &json!(RunResults::of(&made.info.plan, made.state)))?;
        let digests = made.trials.iter().map(|one| format!("{} {}\n", one.trial, one.grade_digest));
        let digest = blake3::hash(digests.collect::<String>().as_bytes()).to_hex();
        let taken = |entry: fs::DirEntry| entry.file_name().to_str()?.split('-').next()?.parse::<u32>().ok();
        let known = fs::read_dir(&self.folder).into_iter().flatten().flatten().filter_map(taken).max();
        let mut number = known.unwrap_or(0) + 1;
        loop {
            let id = format!("{number:04}-{}", &digest[..8]);
            let path = self.folder.join(&id);
            match fs::rename(&self.path, &path) {
                Ok(()) => return Ok((id, path)),
                // Somebody else was faster.
                Err(_) if path.exists() => number += 1,
                Err(error) => return Err(RunError::io("make", path)(error)),
            }
        }
    }

    fn json(&self, file: &str, content: &Value) -> Result<(), RunError> {
        replace(&self.path.join(file), format!("{content:#}\n").as_bytes())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if self.path.exists() {
            yb_evaluate::remove_tree(&self.path);
            // Only if there is no other.
            let _ = fs::remove_dir(&self.folder);
        }
    }
}

/// All that a grading came to.
pub(super) struct Made<'a> {
    pub(super) info: &'a RunInfo,
    pub(super) how: &'a Regrade,
    pub(super) config: &'a Path,
    pub(super) sources: &'a [SourceFile],
    pub(super) trials: &'a [Regraded],
    pub(super) state: &'a RunState,
    pub(super) began: Instant,
}

impl Made<'_> {
    /// What was graded, with what, and what it came to: no clock, so that the same gives the same.
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
            "failed_only": self.how.failed_only,
            "trials": trials,
        })
    }

    /// How long it took, apart from everything else.
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
    /// The same run as one of its gradings has it, and where that is: by the beginning of its id, by its number, or `latest`.
    ///
    /// # Errors
    /// When there is no such grading, or it can't be read.
    pub fn by_grading(mut self, name: &str) -> Result<(Self, PathBuf), RunError> {
        let folder = self.run.path().join(GRADINGS);
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let mut known: Vec<String> = entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|id| !id.starts_with('.'))
            .collect();
        known.sort();
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
        let wrong = |reason: String| RunError::Plan { path: file.clone(), reason };
        let bytes = fs::read(&file).map_err(|error| wrong(error.to_string()))?;
        let value: Value = serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
        if value["version"].as_u64().is_none_or(|version| version > u64::from(VERSION)) {
            return Err(wrong(format!("this version reads up to {VERSION}")));
        }
        let trials: Vec<Recorded> =
            serde_json::from_value(value["trials"].clone()).map_err(|error| wrong(error.to_string()))?;
        for one in &trials {
            self.state.regrade(&one.trial, one.outcome, &one.evaluators, one.judge_usd, one.error.as_deref());
        }
        Ok((self, path))
    }
}

/// A trial of a grading, as far as it is read again.
#[derive(serde::Deserialize)]
struct Recorded {
    trial: String,
    outcome: Outcome,
    evaluators: Vec<Graded>,
    judge_usd: Option<f64>,
    error: Option<String>,
}

/// The digests of a trial's verdicts.
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

/// `results.json` of a trial as it would have been: everything that was not graded is as it was. The patch is where it was.
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
