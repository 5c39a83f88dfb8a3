//! Reads a [`Run`] from disk: a run directory, or the `results.json` of one trial, also of the original youBencha.
//!
//! Bundles and logs are read as JSON values: fields may be missing, and unknown fields are shown generically.

use std::fmt;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};
use yb_engine::compare::VariantSummary;
use yb_engine::log::FILE_NAME as LOG;
use yb_engine::run::{
    AttemptRecord, PlannedTrial, RunDir, RunError, RunInfo, RunResults, StopReason, TrialState,
};

use crate::model::{Attempt, Money, Run, Trial, TrialOutcome};

/// The results file of a trial.
const RESULTS: &str = "results.json";
/// The log file of the original youBencha.
const ORIGINAL_LOG: &str = "youbencha.log.json";
const PATCH: &str = "git-diff.patch";

/// Fields of a run's `results.json` that a report shows elsewhere.
const SHOWN_ELSEWHERE: [&str; 16] = [
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
    "design",
    "variants",
    "journal_head",
    "trials",
];

/// An error reading a run or a results bundle.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The plan or journal of the run can't be read.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A file can't be read.
    #[error("failed to read `{}`", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file is not JSON.
    #[error("invalid JSON in `{}`", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// The syntax error.
        source: serde_json::Error,
    },
    /// A file is JSON, but not the results of a trial.
    #[error("not the results of a trial: `{}`: {reason}", path.display())]
    NoResults {
        /// The file.
        path: PathBuf,
        /// The missing field.
        reason: &'static str,
    },
}

/// Reads a run directory: plan, journal and, where present, the artifacts of the trials.
///
/// # Errors
/// If plan or journal can't be read, or a file was changed since it was recorded. A trial without artifacts is no error: the
/// journal holds its outcome.
pub fn read_run(run: RunDir) -> Result<Run, ReadError> {
    let info = RunInfo::read(run)?;
    info.check_results()?;
    for (_, state) in info.state.trials() {
        if let Some(record) = deciding_attempt(state) {
            info.check_artifacts(record)?;
        }
    }
    let condition = condition(&info);
    let results = RunResults::figures_of(&info.plan, &info.state);
    Ok(Run {
        id: info.run.id(),
        name: info.plan.name.clone(),
        condition,
        started_at: info.state.started_at.clone().or_else(|| Some(info.plan.created_at.clone())),
        last_at: info.state.last_at.clone(),
        config: Some(info.plan.config.display().to_string()),
        youbencha: Some(info.plan.youbencha.clone()),
        directory: info.run.path().to_owned(),
        variants: VariantSummary::of(&results),
        pass_rate: results.pass_rate().1,
        extra: extra(&info),
        trials: info.plan.trials.iter().map(|planned| trial(&info, planned)).collect(),
    })
}

/// Returns the state of a run in words.
pub(crate) fn condition(info: &RunInfo) -> String {
    match &info.state.stopped {
        _ if info.active => "running".to_owned(),
        Some(StopReason::Interrupted) => "stopped (interrupted)".to_owned(),
        Some(StopReason::Budget) => "stopped (budget)".to_owned(),
        Some(StopReason::Disk) => "stopped (disk full)".to_owned(),
        Some(_) => "stopped".to_owned(),
        None if info.state.finished => "finished".to_owned(),
        None => "died".to_owned(),
    }
}

/// Collects the remaining fields of the results; the file may have more than the journal.
fn extra(info: &RunInfo) -> Map<String, Value> {
    // Of a chained run only fields that were checked are shown.
    let written = written_fields(&info.run.results()).unwrap_or_default();
    let written = match serde_json::from_value::<RunResults>(Value::Object(written.clone())) {
        Ok(results) if info.chained => serde_json::to_value(results).unwrap_or_default(),
        _ => Value::Object(written),
    };
    let folded =
        serde_json::to_value(RunResults::without_trials(&info.plan, &info.state)).unwrap_or_default();
    let mut extra = Map::new();
    for value in [written, folded] {
        let Value::Object(fields) = value else { continue };
        extra.extend(fields.into_iter().filter(|(name, _)| !SHOWN_ELSEWHERE.contains(&name.as_str())));
    }
    extra.retain(|_, value| !is_empty(value));
    extra
}

/// Reads the fields of a run's results but its trials, which may be many.
fn written_fields(path: &Path) -> Option<Map<String, Value>> {
    let file = io::BufReader::new(fs::File::open(path).ok()?);
    serde_json::from_reader(file).ok().map(|FieldsWithoutTrials(fields)| fields)
}

/// The fields of an object, with an empty list of trials.
struct FieldsWithoutTrials(Map<String, Value>);

impl<'de> Deserialize<'de> for FieldsWithoutTrials {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        input.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = FieldsWithoutTrials;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the results of a run")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = entries.next_key::<String>()? {
            let value = if name == "trials" {
                entries.next_value::<IgnoredAny>()?;
                Value::Array(Vec::new())
            } else {
                entries.next_value()?
            };
            fields.insert(name, value);
        }
        Ok(FieldsWithoutTrials(fields))
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(values) => values.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

pub(crate) fn trial(info: &RunInfo, planned: &PlannedTrial) -> Trial {
    let mut trial = Trial {
        name: planned.folder.clone(),
        id: Some(planned.id.clone()),
        case: planned.case.clone(),
        variant: planned.variant.clone(),
        repeat: planned.repeat,
        agent: planned.agent.clone(),
        model: planned.model.clone(),
        commit: Some(planned.commit.clone()),
        proof: planned.proof,
        ..Trial::default()
    };
    let Some(state) = info.state.get(&planned.folder) else { return trial };
    trial.attempts = state.attempts.iter().map(attempt).collect();
    for record in &state.attempts {
        trial.money = trial.money.plus(Money::of(record.spend));
    }
    trial.outcome = match (state.result(), &state.in_flight) {
        (Some(record), _) => TrialOutcome::of(record.outcome),
        (None, Some(_)) if info.active => TrialOutcome::pending("running"),
        (None, Some(_)) => TrialOutcome::pending("interrupted"),
        (None, None) => TrialOutcome::default(),
    };
    if let Some(record) = deciding_attempt(state) {
        let artifacts = info.run.artifacts(&planned.folder, record.attempt);
        apply_record(&mut trial, record, artifacts);
    }
    trial
}

/// Returns the attempt that a report shows: the deciding one, or else the last that ended.
fn deciding_attempt(state: &TrialState) -> Option<&AttemptRecord> {
    state.result().or_else(|| state.attempts.last())
}

fn apply_record(trial: &mut Trial, record: &AttemptRecord, artifacts: PathBuf) {
    trial.started_at = Some(record.started_at.clone());
    trial.duration_ms = Some(record.duration_ms);
    trial.tokens = (record.tokens > 0).then_some(record.tokens);
    trial.turns = record.turns;
    trial.model = record.model.clone().or_else(|| trial.model.take());
    trial.isolation = record.isolation.map(|level| level.to_string());
    trial.error = record.error.clone();
    trial.warnings = record.warnings.clone();
    let name = |status| serde_json::to_value(status).ok().and_then(|word| Some(word.as_str()?.to_owned()));
    trial.graded = record
        .evaluators
        .iter()
        .map(|graded| (graded.name.clone(), name(graded.status).unwrap_or_default()))
        .collect();
    trial.artifacts = artifacts.is_dir().then_some(artifacts);
}

fn attempt(record: &AttemptRecord) -> Attempt {
    Attempt {
        number: record.attempt,
        outcome: TrialOutcome::of(record.outcome),
        duration_ms: record.duration_ms,
        error: record.error.clone(),
    }
}

/// Reads the results of one trial as a run with that trial only. All fields but the case name may be missing.
///
/// # Errors
/// If the file can't be read or does not hold results.
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
    let outcome =
        text(&value["outcome"]).or_else(|| text(&value["summary"]["overall_status"])).unwrap_or_default();
    let mut trial = Trial {
        name: text(&value["test_case"]["name"]).unwrap_or_default(),
        case: text(&value["test_case"]["name"]).unwrap_or_default(),
        variant: "default".to_owned(),
        repeat: 1,
        agent: text(&value["agent"]["type"]).unwrap_or_else(|| "unknown".to_owned()),
        commit: text(&value["test_case"]["commit"]),
        outcome: TrialOutcome::parse(&outcome),
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
    // Without a journal, usage comes from the log.
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
        variants: None,
        pass_rate: None,
        extra: Map::new(),
        trials: vec![trial],
    })
}

impl Trial {
    /// Returns the `results.json` of the deciding attempt; null if there is none.
    pub(crate) fn results(&self) -> Value {
        let path = self.artifacts.as_ref().map(|artifacts| artifacts.join(RESULTS));
        path.filter(|path| is_regular_file(path)).and_then(|path| read_json(&path).ok()).unwrap_or_default()
    }

    /// Returns the path of the agent log.
    pub(crate) fn log_path(&self) -> Option<PathBuf> {
        let artifacts = self.artifacts.as_ref()?;
        [LOG, ORIGINAL_LOG].iter().map(|name| artifacts.join(name)).find(|path| is_regular_file(path))
    }

    /// Reads the agent log.
    pub(crate) fn log(&self) -> Option<Value> {
        read_json(&self.log_path()?).ok()
    }

    /// Reads the usage of the agent log, without its messages.
    pub(crate) fn log_usage(&self) -> Option<Value> {
        #[derive(serde::Deserialize)]
        struct UsageField {
            #[serde(default)]
            usage: Value,
        }
        let file = io::BufReader::new(fs::File::open(self.log_path()?).ok()?);
        serde_json::from_reader::<_, UsageField>(file).ok().map(|log| log.usage)
    }

    /// Reads at most `max_bytes` of the patch and returns them with its full length.
    pub(crate) fn patch(&self, max_bytes: u64) -> Option<(String, u64)> {
        let path = self.patch_path()?;
        let file = fs::File::open(&path).ok()?;
        let length = file.metadata().ok()?.len();
        let mut bytes = Vec::new();
        file.take(max_bytes).read_to_end(&mut bytes).ok()?;
        Some((String::from_utf8_lossy(&bytes).into_owned(), length))
    }

    /// Returns the path of the patch.
    pub(crate) fn patch_path(&self) -> Option<PathBuf> {
        self.artifacts.as_ref().map(|artifacts| artifacts.join(PATCH)).filter(|path| is_regular_file(path))
    }

    /// Returns the path of a file named in the results if it is a regular file below the artifacts.
    pub(crate) fn artifact(&self, name: &str) -> Option<PathBuf> {
        let inside = Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
        let path = self.artifacts.as_ref()?.join(name);
        (inside && is_regular_file(&path)).then_some(path)
    }
}

/// Returns whether the path is a regular file and not a link, which may lead anywhere.
fn is_regular_file(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|metadata| metadata.is_file())
}

fn read_json(path: &Path) -> Result<Value, ReadError> {
    let bytes = fs::read(path).map_err(|source| ReadError::Io { path: path.to_owned(), source })?;
    serde_json::from_slice(&bytes).map_err(|source| ReadError::Json { path: path.to_owned(), source })
}
