//! Baselines: named copies of a run's results, each in one file that is independent of the run and the machine.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::run::{self, RunDir, RunError, RunInfo, RunResults};
use yb_case::format::Format;

/// The directory of baselines, below the workspace directory.
const FOLDER: &str = "baselines";
/// The version of the format. Newer files are rejected.
const VERSION: u64 = 1;

/// A named copy of a run's results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Baseline {
    /// Version of this format.
    pub version: u64,
    /// The name.
    pub name: String,
    /// Creation time, ISO 8601.
    pub set_at: String,
    /// The results of the run, with the digest of the last line of its journal.
    pub results: RunResults,
    /// The digest of everything else in the file. Older versions wrote none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// An error of reading or writing a baseline.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BaselineError {
    /// The name is invalid.
    #[error("invalid baseline name: `{name}`")]
    Name {
        /// The name.
        name: String,
    },
    /// No baseline or run has this name.
    #[error("no baseline or run named `{name}`")]
    Missing {
        /// The name.
        name: String,
        /// The available baselines.
        known: Vec<String>,
    },
    /// The run has pending trials.
    #[error("run `{run}` is incomplete, pending trials: {pending}")]
    Unfinished {
        /// The run.
        run: String,
        /// Number of pending trials.
        pending: usize,
    },
    /// The file was changed.
    #[error("baseline changed since it was set: `{}`", path.display())]
    Modified {
        /// The path.
        path: PathBuf,
    },
    /// The file can't be read or written.
    #[error("failed to {what} the baseline `{}`: {reason}", path.display())]
    File {
        /// The operation.
        what: &'static str,
        /// The path.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
}

impl BaselineError {
    fn file(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self::File { what, path, reason: error.to_string() }
    }

    /// Returns hints, if there are any.
    #[must_use]
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::Name { .. } => {
                vec![format!("expected {}, and not `latest`", Format::WorkspaceName.expected())]
            }
            Self::Missing { name, known } if known.is_empty() => {
                vec![format!("create a baseline from a run: `yb baseline set {name} RUN`")]
            }
            Self::Missing { name, known } => {
                let known = known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
                vec![format!("available baselines: {known}; create one with `yb baseline set {name} RUN`")]
            }
            Self::Unfinished { run, .. } => vec![format!("finish it first: `yb run --resume {run}`")],
            Self::Modified { .. } => vec![
                "restore the file, or set the baseline again from its run: `yb baseline set NAME RUN`"
                    .to_owned(),
            ],
            Self::File { .. } => Vec::new(),
        }
    }
}

fn file(root: &Path, name: &str) -> Result<PathBuf, BaselineError> {
    if name == "latest" || name.len() > 100 || !Format::WorkspaceName.accepts(name) {
        return Err(BaselineError::Name { name: name.to_owned() });
    }
    Ok(root.join(FOLDER).join(format!("{name}.json")))
}

/// Saves a run's results as a baseline. Replaces an existing baseline of the same name.
///
/// # Errors
/// Returns an error when the run is incomplete, the name is invalid, or the file can't be written.
pub fn set(root: &Path, name: &str, info: &RunInfo) -> Result<Baseline, BaselineError> {
    let path = file(root, name)?;
    if let pending @ 1.. = info.state.tally().pending() {
        return Err(BaselineError::Unfinished { run: info.run.id(), pending });
    }
    let set_at = jiff::Timestamp::now().to_string();
    let results = portable_results(info);
    let mut baseline = Baseline { version: VERSION, name: name.to_owned(), set_at, results, digest: None };
    baseline.digest = run::json_digest(&baseline);
    let mut text = serde_json::to_vec_pretty(&baseline)
        .map_err(|error| BaselineError::file("write", &path)(error.into()))?;
    text.push(b'\n');
    fs::create_dir_all(root.join(FOLDER)).map_err(BaselineError::file("write", &path))?;
    run::replace(&path, &text).map_err(|error| match error {
        RunError::Io { source, .. } => BaselineError::file("write", &path)(source),
        other => BaselineError::File { what: "write", path: path.clone(), reason: other.to_string() },
    })?;
    Ok(baseline)
}

/// Returns the results of a run without what means something only where the run is.
fn portable_results(info: &RunInfo) -> RunResults {
    let mut results = RunResults::of(&info.plan, &info.state);
    results.journal_head.clone_from(&info.journal_head);
    for attempt in results.trials.iter_mut().flat_map(|trial| &mut trial.attempts) {
        attempt.artifacts.clear();
        attempt.trees = None;
        attempt.warnings.clear();
    }
    results
}

impl Baseline {
    /// Whether the baseline has the results of the run as they are now.
    pub(crate) fn is_of(&self, info: &RunInfo) -> bool {
        // Numbers may differ in their last digit after they were read.
        let read_back = |text: Vec<u8>| serde_json::from_slice::<RunResults>(&text).ok();
        let expected = serde_json::to_vec(&portable_results(info)).ok().and_then(read_back);
        expected.as_ref() == Some(&self.results)
    }
}

/// Reads a baseline.
///
/// # Errors
/// Returns an error when there is none or its file can't be read.
pub fn read(root: &Path, name: &str) -> Result<Baseline, BaselineError> {
    let path = file(root, name)?;
    if !path.is_file() {
        return Err(BaselineError::Missing { name: name.to_owned(), known: names(root) });
    }
    from_file(&path)
}

fn from_file(path: &Path) -> Result<Baseline, BaselineError> {
    let invalid = |reason: String| BaselineError::File { what: "read", path: path.to_owned(), reason };
    let bytes = fs::read(path).map_err(BaselineError::file("read", path))?;
    let mut value: Value = serde_json::from_slice(&bytes).map_err(|error| invalid(error.to_string()))?;
    match value["version"].as_u64() {
        Some(version) if version <= VERSION => {}
        Some(version) => {
            return Err(invalid(format!("it has version {version}; this version reads up to {VERSION}")));
        }
        None => return Err(invalid("not a baseline".to_owned())),
    }
    let digest = value.as_object_mut().and_then(|fields| fields.remove("digest"));
    let digest = digest.map(|digest| digest.as_str().unwrap_or_default().to_owned());
    if digest.as_ref().is_some_and(|recorded| run::value_digest(&value) != *recorded) {
        return Err(BaselineError::Modified { path: path.to_owned() });
    }
    let results = RunResults::from_json(value["results"].take()).map_err(invalid)?;
    // A head without a digest: the digest was removed.
    if digest.is_none() && results.journal_head.is_some() {
        return Err(BaselineError::Modified { path: path.to_owned() });
    }
    let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
    Ok(Baseline { version: VERSION, name: text("name"), set_at: text("set_at"), results, digest })
}

/// Returns the names of all baselines, sorted.
#[must_use]
pub fn names(root: &Path) -> Vec<String> {
    let entries = fs::read_dir(root.join(FOLDER)).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().to_str()?.strip_suffix(".json").map(str::to_owned))
        .filter(|name| file(root, name).is_ok())
        .collect();
    names.sort();
    names
}

/// Removes a baseline; the run is kept.
///
/// # Errors
/// Returns an error when there is none or its file can't be removed.
pub fn remove(root: &Path, name: &str) -> Result<(), BaselineError> {
    let path = file(root, name)?;
    match fs::remove_file(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(BaselineError::Missing { name: name.to_owned(), known: names(root) })
        }
        removed => removed.map_err(BaselineError::file("remove", &path)),
    }
}

/// The results of a run or a baseline, for comparisons.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RecordedRun {
    /// Name of the baseline, if it is one.
    pub baseline: Option<String>,
    /// The results.
    pub results: RunResults,
}

impl From<Baseline> for RecordedRun {
    fn from(from: Baseline) -> Self {
        Self { baseline: Some(from.name), results: from.results }
    }
}

impl RecordedRun {
    /// Reads the current results of a run.
    ///
    /// # Errors
    /// Returns an error when the run can't be read.
    pub fn run(run: RunDir) -> Result<Self, RunError> {
        let info = RunInfo::read(run)?;
        Ok(Self { baseline: None, results: RunResults::of(&info.plan, &info.state) })
    }

    /// Reads a `results.json`. Beside its journal it is checked against it.
    fn results_file(path: &Path) -> Result<Self, RunError> {
        let results = RunResults::read(path)?;
        let run =
            path.parent().map(RunDir::at).filter(|run| run.results() == path && run.journal().is_file());
        if let Some(run) = run {
            RunInfo::read(run)?.check_results()?;
        }
        Ok(Self { baseline: None, results })
    }

    /// Finds a baseline or, if there is none, a run by name or prefix. A path may be a run directory, a `results.json` or
    /// the file of a baseline.
    ///
    /// # Errors
    /// Returns an error when nothing matches or the file can't be read.
    pub fn find(root: &Path, name: &str) -> Result<Self, RunError> {
        let path = Path::new(name);
        if path.is_file() {
            // The formats differ: a baseline contains results.
            return match from_file(path) {
                Ok(baseline) => Ok(baseline.into()),
                Err(error @ BaselineError::Modified { .. }) => Err(error.into()),
                Err(_) => Self::results_file(path),
            };
        }
        match read(root, name) {
            Ok(baseline) => return Ok(baseline.into()),
            Err(error @ (BaselineError::File { .. } | BaselineError::Modified { .. })) => {
                return Err(error.into());
            }
            Err(_) => {}
        }
        match run::find_run(root, name) {
            Ok(found) => Self::run(found),
            Err(RunError::NoSuchRun { .. }) if run::runs_before_latest(name).is_none() => {
                Err(BaselineError::Missing { name: name.to_owned(), known: names(root) }.into())
            }
            Err(error) => Err(error),
        }
    }

    /// Finds a baseline or run to compare `run` with. Unlike in [`find`](Self::find), `latest` is the newest run before
    /// `run`, as is `latest~1`, and `latest~2` the one before that.
    ///
    /// # Errors
    /// Returns an error when nothing matches or the file can't be read.
    pub(crate) fn before(root: &Path, name: &str, run: Option<&str>) -> Result<Self, RunError> {
        let Some(back) = run::runs_before_latest(name) else { return Self::find(root, name) };
        let runs = run::all_runs(root)?;
        let end = runs.iter().position(|known| Some(known.id().as_str()) == run).unwrap_or(runs.len());
        match runs.into_iter().take(end).nth_back(back.saturating_sub(1)) {
            Some(earlier) => Self::run(earlier),
            None => Err(BaselineError::Missing { name: name.to_owned(), known: names(root) }.into()),
        }
    }

    /// Returns the display name.
    #[must_use]
    pub fn label(&self) -> String {
        match &self.baseline {
            Some(name) => format!("{name} ({})", self.results.run),
            None => self.results.run.clone(),
        }
    }
}
