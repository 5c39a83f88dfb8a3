//! Resuming a run after it was stopped or killed, and rerunning trials of an earlier run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use yb_model::atomic_file::{Durability, write_private};

use super::dir::{CACHE, RunDir};
use super::error::RunError;
use super::event::{AttemptRecord, JOURNAL_VERSION, JournalEntry, RunEvent};
use super::journal::Journal;
use super::lock::{LockAttempt, RunLock};
use super::plan::{Plan, PlanOptions, PlannedTrial, Selection};
use super::prepare::{PreparedCombination, PreparedRun, RunContext};
use super::state::RunState;
use super::unit::{TrialUnit, attempts_on_disk, remove_incomplete};
use yb_agents::trace::Trace;
use yb_case::suite::{Combination, Suite};
use yb_model::outcome::{Outcome, PassCredit};
use yb_repo::ObjectStore;

/// A run that this process has locked and may execute.
#[non_exhaustive]
pub struct ActiveRun {
    /// The run directory.
    pub run: RunDir,
    /// The plan.
    pub plan: Plan,
    /// The state so far.
    pub state: RunState,
    /// The journal entries written when the run was started or resumed.
    pub opening_entries: Vec<JournalEntry>,
    /// The trace node of the run, if it is traced.
    pub trace: Option<Arc<dyn Trace>>,
    pub(super) cache: PathBuf,
    /// The pending trials.
    pub(super) units: Vec<TrialUnit>,
    pub(super) store: ObjectStore,
    pub(super) journal: Journal,
    pub(super) jobs: usize,
    pub(super) _lock: RunLock,
}

/// Which finished trials are rerun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RerunKind {
    /// Failed trials, in a new run: repeating them in the same run until they pass would falsify its pass rate.
    Failed,
    /// Trials excluded by infrastructure failures, in the same run.
    Infra,
}

impl RerunKind {
    fn includes(self, outcome: Outcome) -> bool {
        match self {
            Self::Failed => outcome.pass_credit() == PassCredit::Zero,
            // A trial with a grader error is regraded, not rerun.
            Self::Infra => outcome.pass_credit() == PassCredit::Excluded,
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Infra => "was excluded by an infrastructure failure",
        }
    }
}

impl Plan {
    /// Returns the files that changed since the plan was created.
    #[must_use]
    pub fn changed_files(&self) -> Vec<String> {
        let unchanged = |file: &yb_case::suite::SourceFile| {
            fs::read(&file.path).is_ok_and(|bytes| blake3::hash(&bytes).to_hex().as_str() == file.digest)
        };
        self.files
            .iter()
            .filter(|file| !unchanged(file))
            .map(|file| file.path.display().to_string())
            .collect()
    }
}

impl RunContext {
    /// Resumes a run: its pending trials and those that were in flight. `rerun` adds trials that were excluded by
    /// infrastructure failures.
    ///
    /// # Errors
    /// Returns an error when the run is in use, its files have changed, or recorded artifacts are missing.
    pub async fn resume(
        &self,
        run: RunDir,
        plan: Plan,
        suite: &Suite,
        rerun: bool,
        jobs: usize,
    ) -> Result<ActiveRun, RunError> {
        let lock = match RunLock::try_acquire(&run.lock()).map_err(RunError::io("lock", run.lock()))? {
            LockAttempt::Acquired(lock) => lock,
            LockAttempt::InUse { pid } => return Err(RunError::Locked { run: run.id(), pid }),
        };
        let (mut journal, found) = match Journal::open(&run.journal()) {
            Err(super::journal::JournalError::Io { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound =>
            {
                (Journal::create(&run.journal())?, super::journal::JournalContents::default())
            }
            opened => opened?,
        };
        let mut state = RunState::of(&found.entries);
        state.planned = plan.trials.len();
        super::record::check_plan(&run, &found.entries)?;
        check_artifacts(&run, &state)?;
        let again: Vec<String> = plan
            .trials
            .iter()
            .filter(|trial| {
                let result = state.get(&trial.folder).and_then(super::state::TrialState::result);
                rerun && result.is_some_and(|result| RerunKind::Infra.includes(result.outcome))
            })
            .map(|trial| trial.folder.clone())
            .collect();
        if rerun && again.is_empty() {
            return Err(RunError::NothingToRerun { run: run.id(), which: RerunKind::Infra.description() });
        }
        let pending: Vec<&PlannedTrial> = plan
            .trials
            .iter()
            .filter(|trial| {
                let done = state.get(&trial.folder).is_some_and(|state| state.result().is_some());
                !done || again.contains(&trial.folder)
            })
            .collect();
        // A run that was killed after its last trial still has to write its results.
        if pending.is_empty() && state.finished && run.results().is_file() {
            return Err(RunError::NothingToRerun { run: run.id(), which: "is pending" });
        }
        let units = self.units(&run, suite, &plan.options, &pending).await?;
        let cache = match run.path().parent().and_then(Path::parent) {
            Some(root) => root.join(CACHE),
            None => self.root(suite)?.join(CACHE),
        };
        let runner = match (units.first(), suite.combinations.first()) {
            (Some(unit), _) => unit.runner.clone(),
            (None, Some(any)) => self.runner(any, &plan.options),
            (None, None) => {
                return Err(RunError::NothingSelected { filters: Vec::new(), known: Vec::new() });
            }
        };
        let store = runner.store(&run, &cache).await.map_err(RunError::from_trial)?;
        store.remove_leftovers().await.map_err(|error| RunError::from_trial(error.into()))?;
        let mut events = Vec::new();
        if found.entries.is_empty() {
            events.push(RunEvent::RunStarted {
                version: JOURNAL_VERSION,
                run: run.id(),
                youbencha: env!("CARGO_PKG_VERSION").to_owned(),
                trials: plan.trials.len(),
                jobs,
                plan: Some(
                    super::record::file_digest(&run.plan()).map_err(RunError::io("read", run.plan()))?,
                ),
            });
        }
        remove_unrecorded_attempts(&run, &state, &pending);
        events.extend(end_orphaned_attempts(&run, &state).into_iter().map(RunEvent::AttemptFinished));
        events.push(RunEvent::RunResumed {
            youbencha: env!("CARGO_PKG_VERSION").to_owned(),
            pending: pending.len(),
            jobs,
            again,
        });
        // The results are stale from here on. They name the last line of the journal, so they go first.
        let _ = fs::remove_file(run.results());
        let opening_entries = journal.append(events)?;
        for entry in &opening_entries {
            state.apply(entry);
        }
        Ok(ActiveRun {
            run,
            cache,
            plan,
            units,
            store,
            journal,
            state,
            opening_entries,
            trace: None,
            jobs,
            _lock: lock,
        })
    }

    /// Prepares a new run of the failed trials of an earlier one.
    ///
    /// # Errors
    /// Returns an error when no trial failed, or files have changed.
    pub async fn rerun_failed(
        &self,
        run: &RunDir,
        plan: &Plan,
        suite: &Suite,
    ) -> Result<PreparedRun, RunError> {
        let state = RunState::of(&super::journal::read(&run.journal())?.entries);
        let failed: Vec<&PlannedTrial> = plan
            .trials
            .iter()
            .filter(|trial| {
                let result = state.get(&trial.folder).and_then(super::state::TrialState::result);
                result.is_some_and(|result| RerunKind::Failed.includes(result.outcome))
            })
            .collect();
        if failed.is_empty() {
            return Err(RunError::NothingToRerun { run: run.id(), which: RerunKind::Failed.description() });
        }
        let units = self.units(run, suite, &plan.options, &failed).await?;
        let agents = units.iter().map(|unit| (unit.trial.agent.clone(), None)).collect();
        Ok(PreparedRun {
            root: self.root(suite)?,
            agents,
            name: plan.name.clone(),
            prefix: "run".to_owned(),
            config: plan.config.clone(),
            files: plan.files.clone(),
            // Failed trials alone say nothing about the factors.
            design: None,
            vary: Vec::new(),
            units,
        })
    }

    /// Prepares a new run of an edited suite: the trials of the earlier run that failed, and those whose case, agent or graders were
    /// edited since. Returns the names of the edited cases too.
    ///
    /// # Errors
    /// Returns an error when the suite can't run, or no trial failed or was edited.
    pub async fn rerun_edited(
        &self,
        run: &RunDir,
        plan: &Plan,
        suite: &Suite,
    ) -> Result<(PreparedRun, BTreeSet<String>), RunError> {
        let state = RunState::of(&super::journal::read(&run.journal())?.entries);
        let repeats = plan.trials.iter().map(|trial| trial.repeat).max();
        let mut ready = self.prepare(suite, &Selection::new(repeats, Vec::new()), &plan.options).await?;
        let known: BTreeMap<&str, &PlannedTrial> =
            plan.trials.iter().map(|trial| (trial.folder.as_str(), trial)).collect();
        let mut edited = BTreeSet::new();
        ready.units.retain(|unit| {
            let Some(earlier) = known.get(unit.trial.folder.as_str()) else { return false };
            let digests = |trial: &PlannedTrial| (trial.task_digest.clone(), trial.grade_digest.clone());
            let is_edited = digests(earlier) != digests(&unit.trial);
            if is_edited {
                edited.insert(unit.trial.case.clone());
            }
            let result = state.get(&earlier.folder).and_then(super::state::TrialState::result);
            is_edited || result.is_some_and(|result| RerunKind::Failed.includes(result.outcome))
        });
        if ready.units.is_empty() {
            return Err(RunError::NothingToRerun { run: run.id(), which: RerunKind::Failed.description() });
        }
        Ok((ready, edited))
    }

    /// Returns the units of planned trials, after checking that their cases have not changed.
    async fn units(
        &self,
        run: &RunDir,
        suite: &Suite,
        options: &PlanOptions,
        trials: &[&PlannedTrial],
    ) -> Result<Vec<TrialUnit>, RunError> {
        let wanted: BTreeSet<(&str, &str)> =
            trials.iter().map(|trial| (trial.case.as_str(), trial.variant.as_str())).collect();
        let taken: Vec<&Combination> = suite
            .combinations
            .iter()
            .filter(|one| wanted.contains(&(one.case_name.as_str(), one.variant.as_str())))
            .collect();
        let commits: BTreeMap<String, String> =
            trials.iter().map(|trial| (trial.case.clone(), trial.commit.clone())).collect();
        let (parts, _) = self.parts(suite, &taken, options, &commits).await?;
        let mut changed = BTreeSet::new();
        let mut units = Vec::with_capacity(trials.len());
        for trial in trials {
            match PreparedCombination::of(&parts, trial) {
                Some(part) if part.digests() == (trial.task_digest.clone(), trial.grade_digest.clone()) => {
                    units.push(part.unit((*trial).clone()));
                }
                _ => {
                    changed.insert(format!("start or content of case `{}`", trial.case));
                }
            }
        }
        if changed.is_empty() {
            Ok(units)
        } else {
            Err(RunError::Changed { run: run.id(), files: changed.into_iter().collect() })
        }
    }
}

/// Checks that the recorded artifacts of finished trials exist.
fn check_artifacts(run: &RunDir, state: &RunState) -> Result<(), RunError> {
    let missing: Vec<String> = state
        .trials()
        .filter_map(|(folder, trial)| Some((folder, trial.result()?)))
        .flat_map(|(folder, result)| {
            let artifacts = run.artifacts(folder, result.attempt);
            result.artifacts.keys().map(move |name| artifacts.join(name))
        })
        .filter(|path| !path.exists())
        .map(|path| format!("`{}` is missing", path.strip_prefix(run.path()).unwrap_or(&path).display()))
        .collect();
    if missing.is_empty() { Ok(()) } else { Err(RunError::Damaged { run: run.id(), missing }) }
}

/// Reaps the process trees that a killed run left behind, and returns records that cancel its attempts in flight.
fn end_orphaned_attempts(run: &RunDir, state: &RunState) -> Vec<AttemptRecord> {
    let mut records = Vec::new();
    for (folder, trial) in state.trials() {
        let Some(one) = &trial.in_flight else { continue };
        let trees = one.tree.iter().chain(&one.other_trees);
        let killed = trees.map(|tree| yb_supervise::reap(tree).killed).sum();
        remove_incomplete(run, folder, one.attempt);
        let mut record = AttemptRecord::new(folder, one.attempt, one.started_at.clone());
        record.outcome = Outcome::Cancelled;
        record.error = Some(match killed {
            0 => "the run was killed during this attempt".to_owned(),
            killed => {
                format!("the run was killed during this attempt; {killed} of its processes were reaped")
            }
        });
        records.push(record);
    }
    records
}

/// Removes the private directories of attempts that the journal does not know: they contain credentials.
fn remove_unrecorded_attempts(run: &RunDir, state: &RunState, pending: &[&PlannedTrial]) {
    for trial in pending {
        let known = |attempt: u32| {
            let ended = state.get(&trial.folder).into_iter().flat_map(|state| &state.attempts);
            ended.into_iter().any(|record| record.attempt == attempt)
        };
        for attempt in attempts_on_disk(run, &trial.folder).filter(|attempt| !known(*attempt)) {
            remove_incomplete(run, &trial.folder, attempt);
        }
    }
}

/// Replaces a file atomically. Its content is on disk when this returns; its name is once the directory is synced.
pub(crate) fn replace(path: &Path, content: &[u8]) -> Result<(), RunError> {
    write_private(path, content, Durability::Synced).map_err(RunError::io("write", path))
}
