//! A run that this process works on: begun, or taken up again after whatever ended it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use yb_model::atomic_file::{Durability, write_atomic};

use super::dir::{CACHE, RunDir};
use super::error::RunError;
use super::event::{AttemptRecord, Entry, JOURNAL_VERSION, RunEvent};
use super::journal::Journal;
use super::lock::{Locked, RunLock};
use super::plan::{Plan, PlanOptions, PlannedTrial};
use super::prepare::{Part, Ready, Setup};
use super::state::RunState;
use super::unit::{Unit, on_disk, remove_half_made};
use yb_agents::trace::Trace;
use yb_case::suite::{Combination, Suite};
use yb_model::outcome::{Outcome, PassCredit};
use yb_repo::ObjectStore;

/// A run that this process works on.
#[non_exhaustive]
pub struct OpenRun {
    /// Its directory.
    pub run: RunDir,
    /// What it is to do.
    pub plan: Plan,
    /// What was done so far.
    pub state: RunState,
    /// The entries that opening it wrote.
    pub begun: Vec<Entry>,
    /// The run's node in a trace, for whoever wants one.
    pub trace: Option<Arc<dyn Trace>>,
    pub(super) cache: PathBuf,
    /// The trials that are still to be done.
    pub(super) units: Vec<Unit>,
    pub(super) store: ObjectStore,
    pub(super) journal: Journal,
    pub(super) jobs: usize,
    pub(super) _lock: RunLock,
}

/// Which trials are done again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rerun {
    /// Those that counted against the agent; in a run of their own, because repeating them until they pass would
    /// forge the score of the first.
    Failed,
    /// Those that say nothing about the agent; in the same run.
    Infra,
}

impl Rerun {
    fn takes(self, outcome: Outcome) -> bool {
        match self {
            Self::Failed => outcome.pass_credit() == PassCredit::Zero,
            // One that only its grader failed is graded again, not run again.
            Self::Infra => outcome.pass_credit() == PassCredit::Excluded,
        }
    }

    fn nothing(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Infra => "was lost",
        }
    }
}

impl Plan {
    /// The files that are others now than when the plan was made.
    #[must_use]
    pub fn changed_files(&self) -> Vec<String> {
        let same = |file: &yb_case::suite::SourceFile| {
            fs::read(&file.path).is_ok_and(|bytes| blake3::hash(&bytes).to_hex().as_str() == file.digest)
        };
        self.files.iter().filter(|file| !same(file)).map(|file| file.path.display().to_string()).collect()
    }
}

impl Setup {
    /// Takes a run up again: never a finished trial, always those in flight. `rerun` adds those that were lost.
    ///
    /// # Errors
    /// When somebody works on it, its files have changed, or something that it recorded is missing.
    pub async fn resume(
        &self,
        run: RunDir,
        plan: Plan,
        suite: &Suite,
        rerun: bool,
        jobs: usize,
    ) -> Result<OpenRun, RunError> {
        let lock = match RunLock::take(&run.lock()).map_err(RunError::io("lock", run.lock()))? {
            Locked::Ours(lock) => lock,
            Locked::Theirs { pid } => return Err(RunError::Locked { run: run.id(), pid }),
        };
        let (mut journal, found) = match Journal::open(&run.journal()) {
            Err(super::journal::JournalError::Io { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound =>
            {
                (Journal::create(&run.journal())?, super::journal::Found::default())
            }
            opened => opened?,
        };
        let mut state = RunState::of(&found.entries);
        state.planned = plan.trials.len();
        missing(&run, &state)?;
        let again: Vec<String> = plan
            .trials
            .iter()
            .filter(|trial| {
                let result = state.get(&trial.folder).and_then(super::state::TrialState::result);
                rerun && result.is_some_and(|result| Rerun::Infra.takes(result.outcome))
            })
            .map(|trial| trial.folder.clone())
            .collect();
        if rerun && again.is_empty() {
            return Err(RunError::NothingToRerun { run: run.id(), which: Rerun::Infra.nothing() });
        }
        let pending: Vec<&PlannedTrial> = plan
            .trials
            .iter()
            .filter(|trial| {
                let done = state.get(&trial.folder).is_some_and(|state| state.result().is_some());
                !done || again.contains(&trial.folder)
            })
            .collect();
        // A run that died between its last trial and its end still has its results to write.
        if pending.is_empty() && state.finished && run.results().is_file() {
            return Err(RunError::NothingToRerun { run: run.id(), which: "is left to be done" });
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
        let store = runner.store(&run, &cache).await.map_err(RunError::one)?;
        let mut events = Vec::new();
        if found.entries.is_empty() {
            events.push(RunEvent::RunStarted {
                version: JOURNAL_VERSION,
                run: run.id(),
                youbencha: env!("CARGO_PKG_VERSION").to_owned(),
                trials: plan.trials.len(),
                jobs,
            });
        }
        forget(&run, &state, &pending);
        events.extend(bury(&run, &state).into_iter().map(RunEvent::AttemptFinished));
        events.push(RunEvent::RunResumed {
            youbencha: env!("CARGO_PKG_VERSION").to_owned(),
            pending: pending.len(),
            jobs,
            again,
        });
        let begun = journal.append(events)?;
        for entry in &begun {
            state.apply(entry);
        }
        // They are another run's from here on: better none than those of before.
        let _ = fs::remove_file(run.results());
        Ok(OpenRun { run, cache, plan, units, store, journal, state, begun, trace: None, jobs, _lock: lock })
    }

    /// A new run of the trials of an old one that failed, as they were.
    ///
    /// # Errors
    /// When there are none, or files have changed.
    pub async fn rerun_failed(&self, run: &RunDir, plan: &Plan, suite: &Suite) -> Result<Ready, RunError> {
        let state = RunState::of(&super::journal::read(&run.journal())?.entries);
        let failed: Vec<&PlannedTrial> = plan
            .trials
            .iter()
            .filter(|trial| {
                let result = state.get(&trial.folder).and_then(super::state::TrialState::result);
                result.is_some_and(|result| Rerun::Failed.takes(result.outcome))
            })
            .collect();
        if failed.is_empty() {
            return Err(RunError::NothingToRerun { run: run.id(), which: Rerun::Failed.nothing() });
        }
        let units = self.units(run, suite, &plan.options, &failed).await?;
        let agents = units.iter().map(|unit| (unit.trial.agent.clone(), None)).collect();
        Ok(Ready {
            root: self.root(suite)?,
            agents,
            name: plan.name.clone(),
            prefix: "run".to_owned(),
            config: plan.config.clone(),
            files: plan.files.clone(),
            units,
        })
    }

    /// The units of planned trials, exactly as they were planned.
    async fn units(
        &self,
        run: &RunDir,
        suite: &Suite,
        options: &PlanOptions,
        trials: &[&PlannedTrial],
    ) -> Result<Vec<Unit>, RunError> {
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
            match Part::of(&parts, trial) {
                Some(part) if part.digests() == (trial.task_digest.clone(), trial.grade_digest.clone()) => {
                    units.push(part.unit((*trial).clone()));
                }
                _ => {
                    changed.insert(format!("what the case `{}` starts with or says", trial.case));
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

/// What finished trials recorded and is not there any more.
fn missing(run: &RunDir, state: &RunState) -> Result<(), RunError> {
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

/// Ends what a dead run left behind, and records that its attempts in flight came to nothing.
fn bury(run: &RunDir, state: &RunState) -> Vec<AttemptRecord> {
    let mut records = Vec::new();
    for (folder, trial) in state.trials() {
        let Some(one) = &trial.in_flight else { continue };
        let mut killed = 0;
        if let Some(tree) = &one.tree {
            killed = yb_supervise::reap(tree).killed;
        }
        remove_half_made(run, folder, one.attempt);
        let mut record = AttemptRecord::new(folder, one.attempt, one.started_at.clone());
        record.outcome = Outcome::Cancelled;
        record.error = Some(match killed {
            0 => "the run died while it ran".to_owned(),
            killed => format!("the run died while it ran; {killed} of its processes were ended"),
        });
        records.push(record);
    }
    records
}

/// Attempts that the journal lost leave keys behind that nobody else would remove.
fn forget(run: &RunDir, state: &RunState, pending: &[&PlannedTrial]) {
    for trial in pending {
        let known = |attempt: u32| {
            let ended = state.get(&trial.folder).into_iter().flat_map(|state| &state.attempts);
            ended.into_iter().any(|record| record.attempt == attempt)
        };
        for attempt in on_disk(run, &trial.folder).filter(|attempt| !known(*attempt)) {
            remove_half_made(run, &trial.folder, attempt);
        }
    }
}

/// Replaces a file atomically. Its content is on disk when this returns; its name is once the directory is synced.
pub(crate) fn replace(path: &Path, content: &[u8]) -> Result<(), RunError> {
    write_atomic(path, content, Durability::Synced).map_err(RunError::io("write", path))
}
