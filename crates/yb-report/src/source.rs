//! From what is on disk to a [`Run`]: a run directory of ours, or one trial's `results.json`, ours or the original's.
//!
//! Bundles and logs are read as JSON values, field by field: what is missing is missing, what is unknown is shown.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};

use serde_json::{Map, Value};
use yb_engine::log::FILE_NAME as LOG;
use yb_engine::run::{
    AttemptRecord, PlannedTrial, RunDir, RunError, RunInfo, RunResults, StopReason, TrialState,
};

use crate::model::{Attempt, Money, Run, Trial, Verdict};

/// What a trial's results are called.
const RESULTS: &str = "results.json";
/// What the original called its log.
const LOG_OF_THE_ORIGINAL: &str = "youbencha.log.json";
const PATCH: &str = "git-diff.patch";

/// What a run's own `results.json` says that is shown elsewhere in a report.
const SHOWN_ELSEWHERE: [&str; 13] = [
    "version",
    "run",
    "name",
    "started_at",
    "last_at",
    "finished",
    "stopped",
    "planned",
    "done",
    "outcomes",
    "spend",
    "unpriced",
    "trials",
];

/// Why there is nothing to report about.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The run's own files.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A file can't be read.
    #[error("failed to read: {}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file is not JSON.
    #[error("not JSON: {}", path.display())]
    Json {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// A file is JSON, and no results.
    #[error("not the results of a trial: {}: {reason}", path.display())]
    NoResults {
        /// Which.
        path: PathBuf,
        /// What is missing.
        reason: &'static str,
    },
}

/// Reads a run directory: its plan, its journal and, as far as they are there, the artifacts of its trials.
///
/// # Errors
/// When plan or journal can't be read. A trial without artifacts is no error: the journal says what it came to.
pub fn read_run(run: RunDir) -> Result<Run, ReadError> {
    let info = RunInfo::read(run)?;
    let condition = match &info.state.stopped {
        _ if info.active => "running".to_owned(),
        Some(StopReason::Interrupted) => "stopped (interrupted)".to_owned(),
        Some(StopReason::Budget) => "stopped (budget)".to_owned(),
        Some(StopReason::Disk) => "stopped (disk full)".to_owned(),
        Some(_) => "stopped".to_owned(),
        None if info.state.finished => "finished".to_owned(),
        None => "died".to_owned(),
    };
    Ok(Run {
        id: info.run.id(),
        name: info.plan.name.clone(),
        condition,
        started_at: info.state.started_at.clone().or_else(|| Some(info.plan.created_at.clone())),
        last_at: info.state.last_at.clone(),
        config: Some(info.plan.config.display().to_string()),
        youbencha: Some(info.plan.youbencha.clone()),
        directory: info.run.path().to_owned(),
        extra: extra(&info),
        trials: info.plan.trials.iter().map(|planned| trial(&info, planned)).collect(),
    })
}

/// What the run's results say beyond what every report shows. On disk there may be more than the journal gives.
fn extra(info: &RunInfo) -> Map<String, Value> {
    let written = read_json(&info.run.results()).unwrap_or_default();
    let folded = serde_json::to_value(RunResults::of(&info.plan, &info.state)).unwrap_or_default();
    let mut extra = Map::new();
    for value in [written, folded] {
        let Value::Object(fields) = value else { continue };
        extra.extend(fields.into_iter().filter(|(name, _)| !SHOWN_ELSEWHERE.contains(&name.as_str())));
    }
    extra.retain(|_, value| !is_empty(value));
    extra
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(values) => values.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

fn trial(info: &RunInfo, planned: &PlannedTrial) -> Trial {
    let mut trial = Trial {
        name: planned.folder.clone(),
        id: Some(planned.id.clone()),
        case: planned.case.clone(),
        variant: planned.variant.clone(),
        repeat: planned.repeat,
        agent: planned.agent.clone(),
        model: planned.model.clone(),
        commit: Some(planned.commit.clone()),
        ..Trial::default()
    };
    let Some(state) = info.state.get(&planned.folder) else { return trial };
    trial.attempts = state.attempts.iter().map(attempt).collect();
    for record in &state.attempts {
        trial.money = trial.money.plus(Money::of(record.spend));
    }
    trial.verdict = match (state.result(), &state.in_flight) {
        (Some(record), _) => Verdict::of(record.outcome),
        (None, Some(_)) if info.active => Verdict::pending("running"),
        (None, Some(_)) => Verdict::pending("interrupted"),
        (None, None) => Verdict::default(),
    };
    if let Some(record) = counts(state) {
        let artifacts = info.run.artifacts(&planned.folder, record.attempt);
        fill(&mut trial, record, artifacts);
    }
    trial
}

/// The attempt that a report shows: the one that decided, else the last that ended.
fn counts(state: &TrialState) -> Option<&AttemptRecord> {
    state.result().or_else(|| state.attempts.last())
}

fn fill(trial: &mut Trial, record: &AttemptRecord, artifacts: PathBuf) {
    trial.started_at = Some(record.started_at.clone());
    trial.duration_ms = Some(record.duration_ms);
    trial.tokens = (record.tokens > 0).then_some(record.tokens);
    trial.turns = record.turns;
    trial.model = record.model.clone().or_else(|| trial.model.take());
    trial.isolation = record.isolation.map(|level| level.to_string());
    trial.error = record.error.clone();
    trial.warnings = record.warnings.clone();
    let said = |status| serde_json::to_value(status).ok().and_then(|word| Some(word.as_str()?.to_owned()));
    trial.graded = record
        .evaluators
        .iter()
        .map(|graded| (graded.name.clone(), said(graded.status).unwrap_or_default()))
        .collect();
    trial.artifacts = artifacts.is_dir().then_some(artifacts);
}

fn attempt(record: &AttemptRecord) -> Attempt {
    Attempt {
        number: record.attempt,
        verdict: Verdict::of(record.outcome),
        duration_ms: record.duration_ms,
        error: record.error.clone(),
    }
}

/// Reads one trial's results as a run of that trial alone. Everything but the case's name may be missing.
///
/// # Errors
/// When the file can't be read or is something else.
pub fn read_bundle(path: &Path) -> Result<Run, ReadError> {
    let value = read_json(path)?;
    let wrong = |reason| ReadError::NoResults { path: path.to_owned(), reason };
    if value["test_case"]["name"].as_str().is_none() {
        return Err(wrong("`test_case.name` is missing"));
    }
    if !value["evaluators"].is_array() && !value["outcome"].is_string() {
        return Err(wrong("it has neither `evaluators` nor `outcome`"));
    }
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let directory = path.parent().map(Path::to_owned).unwrap_or_default();
    let verdict =
        text(&value["outcome"]).or_else(|| text(&value["summary"]["overall_status"])).unwrap_or_default();
    let mut trial = Trial {
        name: text(&value["test_case"]["name"]).unwrap_or_default(),
        case: text(&value["test_case"]["name"]).unwrap_or_default(),
        variant: "default".to_owned(),
        repeat: 1,
        agent: text(&value["agent"]["type"]).unwrap_or_else(|| "unknown".to_owned()),
        commit: text(&value["test_case"]["commit"]),
        verdict: Verdict::read(&verdict),
        started_at: text(&value["execution"]["started_at"]),
        duration_ms: value["execution"]["duration_ms"].as_f64().map(|ms| ms as u64),
        isolation: text(&value["execution"]["isolation"]),
        artifacts: Some(directory.clone()),
        ..Trial::default()
    };
    for one in value["evaluators"].as_array().into_iter().flatten() {
        let name = text(&one["evaluator"]).unwrap_or_else(|| "unknown".to_owned());
        trial.graded.push((name, text(&one["status"]).unwrap_or_default()));
    }
    // What the journal would have said is in the log.
    if let Some(log) = trial.log() {
        let usage = &log["usage"];
        if usage["source"] != "unreported" {
            trial.tokens = usage["total_tokens"].as_u64().filter(|tokens| *tokens > 0);
            trial.money.agent = usage["cost_usd"].as_f64().or_else(|| usage["estimated_cost_usd"].as_f64());
        }
        trial.turns = log["execution"]["num_turns"].as_u64();
        trial.model = text(&log["model"]["name"]).filter(|name| name != "unknown");
    }
    Ok(Run {
        id: path.display().to_string(),
        name: trial.case.clone(),
        condition: "finished".to_owned(),
        started_at: trial.started_at.clone(),
        last_at: text(&value["execution"]["completed_at"]),
        config: text(&value["test_case"]["config_file"]),
        youbencha: text(&value["execution"]["youbencha_version"]),
        directory,
        extra: Map::new(),
        trials: vec![trial],
    })
}

impl Trial {
    /// `results.json` of the attempt that counts; null if there is none.
    pub(crate) fn results(&self) -> Value {
        let path = self.artifacts.as_ref().map(|artifacts| artifacts.join(RESULTS));
        path.and_then(|path| read_json(&path).ok()).unwrap_or_default()
    }

    /// Where the log of the agent is.
    pub(crate) fn log_path(&self) -> Option<PathBuf> {
        let artifacts = self.artifacts.as_ref()?;
        [LOG, LOG_OF_THE_ORIGINAL].iter().map(|name| artifacts.join(name)).find(|path| is_plain(path))
    }

    /// The log of the agent.
    pub(crate) fn log(&self) -> Option<Value> {
        read_json(&self.log_path()?).ok()
    }

    /// The patch: its beginning up to so many bytes, and how long it is.
    pub(crate) fn patch(&self, most: u64) -> Option<(String, u64)> {
        let path = self.patch_path()?;
        let file = fs::File::open(&path).ok()?;
        let length = file.metadata().ok()?.len();
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes).ok()?;
        Some((String::from_utf8_lossy(&bytes).into_owned(), length))
    }

    /// Where the patch is.
    pub(crate) fn patch_path(&self) -> Option<PathBuf> {
        self.artifacts.as_ref().map(|artifacts| artifacts.join(PATCH)).filter(|path| is_plain(path))
    }

    /// A file that results name, if it is a plain one below the artifacts.
    pub(crate) fn artifact(&self, name: &str) -> Option<PathBuf> {
        let inside = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
        let path = self.artifacts.as_ref()?.join(name);
        (inside && is_plain(&path)).then_some(path)
    }
}

/// No link: one may lead anywhere.
fn is_plain(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|metadata| metadata.is_file())
}

fn read_json(path: &Path) -> Result<Value, ReadError> {
    let bytes = fs::read(path).map_err(|source| ReadError::Io { path: path.to_owned(), source })?;
    serde_json::from_slice(&bytes).map_err(|source| ReadError::Json { path: path.to_owned(), source })
}
