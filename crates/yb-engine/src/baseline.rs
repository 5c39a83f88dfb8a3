//! Baselines: a run's results under a name, in one file that outlives the run and can be carried to another machine.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::run::{self, RunDir, RunError, RunInfo, RunResults};
use yb_case::format::Format;

/// The folder, below the workspace directory.
const FOLDER: &str = "baselines";
/// The format of the files; a newer one is not read.
const VERSION: u64 = 1;

/// A run's results under a name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Baseline {
    /// Of this format.
    pub version: u64,
    /// Its name.
    pub name: String,
    /// When it was set, ISO 8601.
    pub set_at: String,
    /// What the run came to.
    pub results: RunResults,
}

/// Why there is no such baseline.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BaselineError {
    /// A name that can't be one.
    #[error("not a name for a baseline: `{name}`")]
    Name {
        /// As it was written.
        name: String,
    },
    /// Nothing has the name.
    #[error("no baseline and no run is called `{name}`")]
    Missing {
        /// As it was written.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// The run has not all its results.
    #[error("run `{run}` has {pending} of its trials still to do")]
    Unfinished {
        /// The run.
        run: String,
        /// How many.
        pending: usize,
    },
    /// A file that can't be read or written.
    #[error("failed to {what} the baseline `{}`: {reason}", path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

impl BaselineError {
    fn file(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self::File { what, path, reason: error.to_string() }
    }

    /// The ways out, where there are any to name.
    #[must_use]
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::Name { .. } => {
                vec![format!("expected {}, and not `latest`", Format::WorkspaceName.expected())]
            }
            Self::Missing { name, known } if known.is_empty() => {
                vec![format!("make one of a run: `yb baseline set {name} RUN`")]
            }
            Self::Missing { name, known } => {
                let known = known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
                vec![format!("there are the baselines {known}; `yb baseline set {name} RUN` makes one")]
            }
            Self::Unfinished { run, .. } => vec![format!("finish it first: `yb run --resume {run}`")],
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

/// Gives a run's results a name, which may have been another's.
///
/// # Errors
/// When the run is not complete, the name can't be one, or the file can't be written.
pub fn set(root: &Path, name: &str, info: &RunInfo) -> Result<Baseline, BaselineError> {
    let path = file(root, name)?;
    if let pending @ 1.. = info.state.tally().pending() {
        return Err(BaselineError::Unfinished { run: info.run.id(), pending });
    }
    let mut results = RunResults::of(&info.plan, &info.state);
    for attempt in results.trials.iter_mut().flat_map(|trial| &mut trial.attempts) {
        // These mean something only where the run is.
        attempt.artifacts.clear();
        attempt.trees = None;
        attempt.warnings.clear();
    }
    let set_at = jiff::Timestamp::now().to_string();
    let baseline = Baseline { version: VERSION, name: name.to_owned(), set_at, results };
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

/// Reads one.
///
/// # Errors
/// When there is none, or its file can't be used.
pub fn read(root: &Path, name: &str) -> Result<Baseline, BaselineError> {
    let path = file(root, name)?;
    if !path.is_file() {
        return Err(BaselineError::Missing { name: name.to_owned(), known: names(root) });
    }
    from_file(&path)
}

fn from_file(path: &Path) -> Result<Baseline, BaselineError> {
    let wrong = |reason: String| BaselineError::File { what: "read", path: path.to_owned(), reason };
    let bytes = fs::read(path).map_err(BaselineError::file("read", path))?;
    let mut value: Value = serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
    match value["version"].as_u64() {
        Some(version) if version <= VERSION => {}
        Some(version) => {
            return Err(wrong(format!("it has version {version}; this version reads up to {VERSION}")));
        }
        None => return Err(wrong("it is no baseline".to_owned())),
    }
    let results = RunResults::from_json(value["results"].take()).map_err(wrong)?;
    let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
    Ok(Baseline { version: VERSION, name: text("name"), set_at: text("set_at"), results })
}

/// The names of all, sorted.
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

/// Forgets one; the run stays.
///
/// # Errors
/// When there is none, or its file can't be removed.
pub fn remove(root: &Path, name: &str) -> Result<(), BaselineError> {
    let path = file(root, name)?;
    match fs::remove_file(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(BaselineError::Missing { name: name.to_owned(), known: names(root) })
        }
        removed => removed.map_err(BaselineError::file("remove", &path)),
    }
}

/// Something to compare with.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Recorded {
    /// The baseline's name, if it is one.
    pub baseline: Option<String>,
    /// What it came to.
    pub results: RunResults,
}

impl From<Baseline> for Recorded {
    fn from(from: Baseline) -> Self {
        Self { baseline: Some(from.name), results: from.results }
    }
}

impl Recorded {
    /// A run as it is now.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn run(run: RunDir) -> Result<Self, RunError> {
        let info = RunInfo::read(run)?;
        Ok(Self { baseline: None, results: RunResults::of(&info.plan, &info.state) })
    }

    /// What a name means: a baseline, then a run or its beginning. A path may be a run's directory, its `results.json` or a
    /// baseline's file.
    ///
    /// # Errors
    /// When it is nothing, or can't be read.
    pub fn find(root: &Path, name: &str) -> Result<Self, RunError> {
        let path = Path::new(name);
        if path.is_file() {
            // Only one of the two has the other's results inside of it.
            return match from_file(path) {
                Ok(baseline) => Ok(baseline.into()),
                Err(_) => Ok(Self { baseline: None, results: RunResults::read(path)? }),
            };
        }
        match read(root, name) {
            Ok(baseline) => return Ok(baseline.into()),
            Err(error @ BaselineError::File { .. }) => return Err(error.into()),
            Err(_) => {}
        }
        match run::find_run(root, name) {
            Ok(found) => Self::run(found),
            Err(RunError::NoSuchRun { .. }) => {
                Err(BaselineError::Missing { name: name.to_owned(), known: names(root) }.into())
            }
            Err(error) => Err(error),
        }
    }

    /// The same for a run that is to be compared with an earlier one: `latest` is the newest before it.
    ///
    /// # Errors
    /// When it is nothing, or can't be read.
    pub(crate) fn before(root: &Path, name: &str, run: Option<&str>) -> Result<Self, RunError> {
        if name != "latest" {
            return Self::find(root, name);
        }
        let runs = run::all_runs(root)?;
        let end = runs.iter().position(|known| Some(known.id().as_str()) == run).unwrap_or(runs.len());
        match runs.into_iter().take(end).next_back() {
            Some(earlier) => Self::run(earlier),
            None => Err(BaselineError::Missing { name: name.to_owned(), known: names(root) }.into()),
        }
    }

    /// How people are told of it.
    #[must_use]
    pub fn label(&self) -> String {
        match &self.baseline {
            Some(name) => format!("{name} ({})", self.results.run),
            None => self.results.run.clone(),
        }
    }
}
