//! Looks up runs and trials by an unambiguous prefix of their name.

use std::fs;
use std::path::Path;

use super::dir::{RUNS, RunDir};
use super::error::RunError;
use super::journal;
use super::lock::RunLock;
use super::plan::Plan;
use super::record;
use super::state::RunState;

/// A run on disk.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RunInfo {
    /// The run directory.
    pub run: RunDir,
    /// The plan.
    pub plan: Plan,
    /// The state.
    pub state: RunState,
    /// Whether a process has the run locked.
    pub active: bool,
    /// The digest of the last line of the journal.
    pub journal_head: Option<String>,
    /// Whether each line of the journal has the digest of the previous one; runs of older versions have none.
    pub chained: bool,
}

impl RunInfo {
    /// Reads a run, and checks plan and results against the journal.
    ///
    /// # Errors
    /// Returns an error when the plan or the journal can't be read or was changed.
    pub fn read(run: RunDir) -> Result<Self, RunError> {
        let plan = Plan::read(&run.plan())?;
        let (mut state, mut first) = (RunState::default(), Vec::new());
        // One by one: a long journal need not be in memory twice.
        let found = journal::fold(&run.journal(), &mut |entry| {
            state.apply(&entry);
            if first.is_empty() {
                first.push(entry);
            }
        });
        let found = match found {
            Ok(found) => found,
            // The run was killed before its first journal entry.
            Err(journal::JournalError::Io { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound =>
            {
                journal::JournalContents::default()
            }
            Err(error) => return Err(error.into()),
        };
        record::check_plan(&run, &first)?;
        state.planned = plan.trials.len();
        let active = RunLock::is_held(&run.lock());
        let info = Self { run, plan, state, active, journal_head: found.head, chained: found.chained };
        info.check_head()?;
        Ok(info)
    }

    /// Whether the run is inactive and has pending trials or unwritten results.
    #[must_use]
    pub fn is_unfinished(&self) -> bool {
        !self.active && (!self.state.finished || !self.run.results().is_file())
    }
}

/// Returns the directories of all runs, oldest first.
///
/// # Errors
/// Returns an error when the directory can't be read.
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
        // A directory without a plan is a run that never started.
        .filter(|run| run.plan().is_file())
        .map(|run| (created_at(&run), run))
        .collect();
    runs.sort_by(|one, two| (one.0, one.1.path()).cmp(&(two.0, two.1.path())));
    Ok(runs.into_iter().map(|(_, run)| run).collect())
}

/// Returns the creation time in milliseconds, which is the last part of a run's name.
fn created_at(run: &RunDir) -> u128 {
    run.id().rsplit('-').next().and_then(|ms| ms.parse().ok()).unwrap_or(0)
}

/// Returns how many runs before the newest a name means: 0 for `latest`, 1 for `latest~1`. None for other names.
pub(crate) fn runs_before_latest(name: &str) -> Option<usize> {
    match name.strip_prefix("latest")? {
        "" => Some(0),
        back => back.strip_prefix('~')?.parse().ok(),
    }
}

/// Finds a run by name, prefix or path; `latest` is the newest, `latest~1` the one before.
///
/// # Errors
/// Returns an error when no run or several runs match.
pub fn find_run(root: &Path, name: &str) -> Result<RunDir, RunError> {
    let given = RunDir::at(name);
    if name.contains(std::path::MAIN_SEPARATOR) && given.plan().is_file() {
        let path = std::path::absolute(name).map_err(RunError::io("find", name))?;
        return Ok(RunDir::at(path));
    }
    let runs = all_runs(root)?;
    let missing = || RunError::NoSuchRun { name: name.to_owned(), dir: root.join(RUNS) };
    if let Some(back) = runs_before_latest(name) {
        return runs.into_iter().nth_back(back).ok_or_else(missing);
    }
    // Users often copy only the milliseconds.
    let matches = |id: &str| {
        id.starts_with(name) || id.rsplit('-').next().is_some_and(|ms| name.len() > 3 && ms.starts_with(name))
    };
    // A path of the original's layout, without the directory `runs`, has the name of the run in it.
    let names = std::path::Path::new(name).components().filter_map(|part| part.as_os_str().to_str());
    for part in names {
        if let Some(exact) = runs.iter().find(|run| run.id() == part) {
            return Ok(exact.clone());
        }
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

/// Finds a planned trial by its folder or id, or a prefix of either.
///
/// # Errors
/// Returns an error when no trial or several trials match.
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

/// Returns the newest unfinished run.
///
/// # Errors
/// Returns an error when there is none.
pub fn newest_unfinished(root: &Path) -> Result<RunDir, RunError> {
    for run in all_runs(root)?.into_iter().rev() {
        if RunInfo::read(run.clone()).is_ok_and(|info| info.is_unfinished()) {
            return Ok(run);
        }
    }
    Err(RunError::NothingToResume { dir: root.join(RUNS) })
}
