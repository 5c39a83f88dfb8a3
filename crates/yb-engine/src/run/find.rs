//! Runs and trials that are there, by the shortest beginning of a name that only one has.

use std::fs;
use std::path::Path;

use super::dir::{RUNS, RunDir};
use super::error::RunError;
use super::journal;
use super::lock::RunLock;
use super::plan::Plan;
use super::state::RunState;

/// A run that is there.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RunInfo {
    /// Its directory.
    pub run: RunDir,
    /// What it is to do.
    pub plan: Plan,
    /// What was done.
    pub state: RunState,
    /// Whether somebody works on it now.
    pub active: bool,
}

impl RunInfo {
    /// Reads a run.
    ///
    /// # Errors
    /// When its plan or its journal can't be read.
    pub fn read(run: RunDir) -> Result<Self, RunError> {
        let plan = Plan::read(&run.plan())?;
        let entries = match journal::read(&run.journal()) {
            Ok(found) => found.entries,
            // It died before its first line.
            Err(journal::JournalError::Io { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound =>
            {
                Vec::new()
            }
            Err(error) => return Err(error.into()),
        };
        let mut state = RunState::of(&entries);
        state.planned = plan.trials.len();
        let active = RunLock::is_held(&run.lock());
        Ok(Self { run, plan, state, active })
    }

    /// Whether something is left to be done, if only writing the results, and nobody does it.
    #[must_use]
    pub fn is_unfinished(&self) -> bool {
        !self.active && (!self.state.finished || !self.run.results().is_file())
    }
}

/// The directories of all runs, the newest last.
///
/// # Errors
/// When the folder can't be read.
pub fn all_runs(root: &Path) -> Result<Vec<RunDir>, RunError> {
    let folder = root.join(RUNS);
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(RunError::io("read", folder)(error)),
    };
    let mut runs: Vec<(u128, RunDir)> = entries
        .flatten()
        .map(|entry| RunDir::at(entry.path()))
        // Without a plan it never became a run.
        .filter(|run| run.plan().is_file())
        .map(|run| (made_at(&run), run))
        .collect();
    runs.sort_by(|one, two| (one.0, one.1.path()).cmp(&(two.0, two.1.path())));
    Ok(runs.into_iter().map(|(_, run)| run).collect())
}

/// The milliseconds at the end of a run's name.
fn made_at(run: &RunDir) -> u128 {
    run.id().rsplit('-').next().and_then(|ms| ms.parse().ok()).unwrap_or(0)
}

/// The run that a name, its beginning, or a path means; `latest` is the newest.
///
/// # Errors
/// When there is none, or more than one.
pub fn find_run(root: &Path, name: &str) -> Result<RunDir, RunError> {
    let given = RunDir::at(name);
    if name.contains(std::path::MAIN_SEPARATOR) && given.plan().is_file() {
        let path = std::path::absolute(name).map_err(RunError::io("find", name))?;
        return Ok(RunDir::at(path));
    }
    let runs = all_runs(root)?;
    let missing = || RunError::NoSuchRun { name: name.to_owned(), dir: root.join(RUNS) };
    if name == "latest" {
        return runs.into_iter().next_back().ok_or_else(missing);
    }
    // The milliseconds alone are what people copy.
    let matches = |id: &str| {
        id.starts_with(name) || id.rsplit('-').next().is_some_and(|ms| name.len() > 3 && ms.starts_with(name))
    };
    if let Some(exact) = runs.iter().find(|run| run.id() == name) {
        return Ok(exact.clone());
    }
    let mut found: Vec<RunDir> = runs.into_iter().filter(|run| matches(&run.id())).collect();
    match (found.pop(), found.as_slice()) {
        (Some(only), []) => Ok(only),
        (None, _) => Err(missing()),
        (Some(last), others) => Err(RunError::Ambiguous {
            name: name.to_owned(),
            candidates: others.iter().chain([&last]).map(|run| format!("`{}`", run.id())).collect(),
        }),
    }
}

/// The folder of the trial that a name or its beginning means; the id will do as well.
///
/// # Errors
/// When there is none, or more than one.
pub fn find_trial<'a>(plan: &'a Plan, name: &str) -> Result<&'a super::plan::PlannedTrial, RunError> {
    if let Some(exact) = plan.trials.iter().find(|trial| trial.folder == name || trial.id == name) {
        return Ok(exact);
    }
    let found: Vec<_> = plan
        .trials
        .iter()
        .filter(|trial| trial.folder.starts_with(name) || trial.id.starts_with(name))
        .collect();
    match found.as_slice() {
        [only] => Ok(only),
        [] => Err(RunError::NoSuchTrial {
            run: plan.run.clone(),
            name: name.to_owned(),
            known: plan.trials.iter().map(|trial| trial.folder.clone()).collect(),
        }),
        several => Err(RunError::Ambiguous {
            name: name.to_owned(),
            candidates: several.iter().map(|trial| format!("`{}`", trial.folder)).collect(),
        }),
    }
}

/// The newest run that was left undone.
///
/// # Errors
/// When there is none.
pub fn newest_unfinished(root: &Path) -> Result<RunDir, RunError> {
    for run in all_runs(root)?.into_iter().rev() {
        if RunInfo::read(run.clone()).is_ok_and(|info| info.is_unfinished()) {
            return Ok(run);
        }
    }
    Err(RunError::NothingToResume { dir: root.join(RUNS) })
}
