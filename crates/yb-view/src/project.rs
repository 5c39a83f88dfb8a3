//! The runs of a project: read when a page needs them, and again only when they change. Memory is bounded by the number of
//! runs whose trials are kept.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use yb_engine::evaluate::EvaluatorStatus;
use yb_engine::run::{
    AttemptRecord, RUNS, RunDir, RunFollower, RunInfo, RunLock, RunResults, TrialResults, all_runs,
};
use yb_engine::stats::{ExcludedTrials, Interval, Observation, PassCount, count_outcomes};
use yb_report::{Run, TrialOutcome};

use crate::controls::Activity;
use crate::live::Progress;

/// The number of runs whose trials are kept in memory.
const KEPT: usize = 3;

/// The number of cases of a run whose trend is shown: the figures of all runs are kept.
const MAX_CASES: usize = 500;

/// The runs below a workspace directory.
#[derive(Debug)]
pub(crate) struct Project {
    root: PathBuf,
    runs: Mutex<BTreeMap<String, Arc<Mutex<CachedRun>>>>,
    uses: AtomicU64,
}

#[derive(Debug, Default)]
struct CachedRun {
    follower: Option<RunFollower>,
    stamp: Option<Stamp>,
    summary: Option<Arc<RunSummary>>,
    loaded: Option<Arc<LoadedRun>>,
    used: u64,
}

/// What changes when a run changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    len: u64,
    modified: Option<SystemTime>,
    active: bool,
}

/// A line in the list of runs.
#[derive(Debug, Clone)]
pub(crate) struct RunSummary {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) created_at: String,
    pub(crate) condition: String,
    pub(crate) active: bool,
    pub(crate) planned: usize,
    pub(crate) done: usize,
    pub(crate) passed: u64,
    pub(crate) counted: u64,
    pub(crate) rate: Option<(f64, Interval)>,
    pub(crate) cost: Option<f64>,
    pub(crate) median_ms: Option<u64>,
    pub(crate) outcomes: Vec<(TrialOutcome, usize)>,
    /// Names and versions of the agents.
    pub(crate) agents: Vec<String>,
    pub(crate) tags: Vec<String>,
    /// Start commits of the cases, short and without duplicates.
    pub(crate) commits: Vec<String>,
    /// Passed and counted trials of each case, by name; empty for a run with too many.
    pub(crate) cases: BTreeMap<String, PassCount>,
    pub(crate) problems: Vec<String>,
}

/// A run with all its trials.
#[derive(Debug)]
pub(crate) struct LoadedRun {
    pub(crate) run: Run,
    pub(crate) active: bool,
    pub(crate) problems: Vec<String>,
    /// Reason and tags of each trial, in the order of `run.trials`.
    pub(crate) notes: Vec<TrialNote>,
}

/// What the journal and the plan say about a trial, apart from the report.
#[derive(Debug, Default)]
pub(crate) struct TrialNote {
    /// Why it did not pass, in one line.
    pub(crate) reason: String,
    pub(crate) tags: Vec<String>,
}

/// A run that can't be shown, with the reason.
pub(crate) type Unreadable = String;

impl Project {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self { root, runs: Mutex::default(), uses: AtomicU64::new(0) }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the ids of all runs, newest first.
    pub(crate) fn ids(&self) -> Result<Vec<String>, Unreadable> {
        let runs = all_runs(&self.root).map_err(|error| error.to_string())?;
        Ok(runs.iter().rev().filter(|run| is_plain_directory(run.path())).map(RunDir::id).collect())
    }

    /// Returns the directory of a run; `None` if there is no such run.
    pub(crate) fn directory(&self, id: &str) -> Option<RunDir> {
        let run = RunDir::at(self.root.join(RUNS).join(id));
        (run.id() == id && is_plain_directory(run.path()) && run.plan().is_file()).then_some(run)
    }

    /// Returns the figures of a run for the list.
    pub(crate) fn summary(&self, id: &str) -> Result<Arc<RunSummary>, Unreadable> {
        let run = self.directory(id).ok_or("no such run")?;
        let cached = self.cached(id);
        let mut cached = lock(&cached);
        let stamp = Stamp::of(&run);
        if let Some(summary) = cached.summary.as_ref().filter(|_| cached.stamp == Some(stamp)) {
            return Ok(Arc::clone(summary));
        }
        let summary = match &mut cached.follower {
            Some(follower) => {
                follower.poll();
                RunSummary::of(follower)
            }
            None => RunSummary::of(&RunFollower::open(run).map_err(|error| error.to_string())?),
        };
        let summary = Arc::new(summary);
        cached.stamp = Some(stamp);
        cached.summary = Some(Arc::clone(&summary));
        Ok(summary)
    }

    /// Returns a run with its trials.
    pub(crate) fn load(&self, id: &str) -> Result<Arc<LoadedRun>, Unreadable> {
        let loaded = self.follow(id, |follower, cached| {
            Arc::clone(cached.get_or_insert_with(|| Arc::new(LoadedRun::of(follower))))
        })?;
        self.forget_least_used();
        Ok(loaded)
    }

    /// Returns the progress of a run if it is not the one with this key.
    pub(crate) fn progress(
        &self,
        id: &str,
        activity: &Activity,
        known: Option<u64>,
    ) -> Result<Option<Progress>, Unreadable> {
        self.follow(id, |follower, _| {
            let mut hasher = DefaultHasher::new();
            (follower.offset(), follower.info().active, activity.version).hash(&mut hasher);
            // A number that JavaScript can represent.
            let key = hasher.finish() >> 12;
            (known != Some(key)).then(|| Progress::of(follower.info(), activity, key))
        })
    }

    /// Returns the record of a trial's last attempt, and the number of the last attempt, which may be running.
    pub(crate) fn last_attempt(
        &self,
        id: &str,
        folder: &str,
    ) -> Result<(Option<AttemptRecord>, u32), Unreadable> {
        self.follow(id, |follower, _| {
            let state = follower.info().state.get(folder);
            let record = state.and_then(|state| state.attempts.last());
            let running = state.and_then(|state| state.in_flight.as_ref()).map(|attempt| attempt.attempt);
            match running {
                Some(number) => (None, number),
                None => (record.cloned(), record.map_or(1, |record| record.attempt)),
            }
        })
    }

    /// Returns the artifacts of a trial that are not as recorded.
    pub(crate) fn modified_artifacts(&self, id: &str, folder: &str) -> Result<Vec<PathBuf>, Unreadable> {
        self.follow(id, |follower, _| {
            let info = follower.info();
            let record = info.state.get(folder).and_then(|state| state.attempts.last());
            record.map(|record| info.modified_artifacts(record)).unwrap_or_default()
        })
    }

    /// Reads what was added to a run; the loaded run is removed if it is outdated.
    fn follow<T>(
        &self,
        id: &str,
        use_it: impl FnOnce(&RunFollower, &mut Option<Arc<LoadedRun>>) -> T,
    ) -> Result<T, Unreadable> {
        let run = self.directory(id).ok_or("no such run")?;
        let cached = self.cached(id);
        let mut guard = lock(&cached);
        let cached = &mut *guard;
        cached.used = self.uses.fetch_add(1, Ordering::Relaxed);
        let follower = match cached.follower.take() {
            Some(follower) => cached.follower.insert(follower),
            None => cached.follower.insert(RunFollower::open(run).map_err(|error| error.to_string())?),
        };
        if follower.poll() {
            cached.loaded = None;
        }
        Ok(use_it(follower, &mut cached.loaded))
    }

    fn cached(&self, id: &str) -> Arc<Mutex<CachedRun>> {
        Arc::clone(lock(&self.runs).entry(id.to_owned()).or_default())
    }

    fn forget_least_used(&self) {
        let runs: Vec<Arc<Mutex<CachedRun>>> = lock(&self.runs).values().map(Arc::clone).collect();
        // A run that is in use by another thread is not the least used one.
        let mut kept: Vec<(u64, Arc<Mutex<CachedRun>>)> = Vec::new();
        for run in runs {
            let used = run.try_lock().ok().filter(|run| run.follower.is_some()).map(|run| run.used);
            kept.extend(used.map(|used| (used, run)));
        }
        kept.sort_by_key(|(used, _)| *used);
        let surplus = kept.len().saturating_sub(KEPT);
        for (_, run) in kept.into_iter().take(surplus) {
            let mut run = lock(&run);
            (run.follower, run.loaded) = (None, None);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A link could lead out of the project.
fn is_plain_directory(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir())
}

impl Stamp {
    fn of(run: &RunDir) -> Self {
        let journal = fs::metadata(run.journal()).ok();
        Self {
            len: journal.as_ref().map_or(0, fs::Metadata::len),
            modified: journal.and_then(|journal| journal.modified().ok()),
            active: RunLock::is_held(&run.lock()),
        }
    }
}

impl RunSummary {
    fn of(follower: &RunFollower) -> Self {
        let info = follower.info();
        let results = RunResults::of(&info.plan, &info.state);
        let (passes, rate) = results.pass_rate();
        let tally = info.state.tally();
        let decided: Vec<_> = results.trials.iter().filter_map(TrialResults::result).collect();
        let mut agents: Vec<String> = info.plan.trials.iter().map(|trial| trial.agent.clone()).collect();
        let versions = decided.iter().filter_map(|record| record.agent_version.clone());
        agents.extend(versions);
        let mut tags: Vec<String> = info.plan.trials.iter().flat_map(|trial| trial.tags.clone()).collect();
        let mut commits: Vec<String> =
            info.plan.trials.iter().map(|trial| trial.commit.chars().take(7).collect()).collect();
        for names in [&mut agents, &mut tags, &mut commits] {
            names.sort();
            names.dedup();
        }
        let outcomes = tally.outcomes.iter().map(|(outcome, count)| (TrialOutcome::of(*outcome), *count));
        let mut outcomes: Vec<(TrialOutcome, usize)> = outcomes.collect();
        outcomes.sort_by_key(|(outcome, _)| outcome.class);
        Self {
            id: info.run.id(),
            name: info.plan.name.clone(),
            created_at: info.plan.created_at.clone(),
            condition: yb_report::view::condition(info),
            active: info.active,
            planned: tally.planned,
            done: tally.done,
            passed: passes.passed,
            counted: passes.of,
            rate,
            cost: tally.spend.total(),
            median_ms: yb_figures::median_ms(decided.iter().map(|record| record.duration_ms)),
            outcomes,
            agents,
            tags,
            commits,
            cases: cases(&results),
            problems: follower.problems(),
        }
    }
}

/// Counts the passes of each case.
fn cases(results: &RunResults) -> BTreeMap<String, PassCount> {
    let mut seen: BTreeMap<&str, Vec<Observation>> = BTreeMap::new();
    for trial in &results.trials {
        seen.entry(&trial.case).or_default().push(trial.observation());
    }
    if seen.len() > MAX_CASES {
        return BTreeMap::new();
    }
    let passes = |seen: &[Observation]| count_outcomes(seen).passes(false, ExcludedTrials::Omit);
    seen.iter().map(|(case, seen)| ((*case).to_owned(), passes(seen))).collect()
}

impl LoadedRun {
    fn of(follower: &RunFollower) -> Self {
        let info = follower.info();
        let notes = info
            .plan
            .trials
            .iter()
            .map(|trial| TrialNote { reason: reason(info, &trial.folder), tags: trial.tags.clone() });
        Self {
            run: yb_report::view::run(info),
            active: info.active,
            problems: follower.problems(),
            notes: notes.collect(),
        }
    }
}

/// Returns why a trial did not pass, from the journal alone.
pub(crate) fn reason(info: &RunInfo, folder: &str) -> String {
    let Some(record) = info.state.get(folder).and_then(|state| state.attempts.last()) else {
        return String::new();
    };
    let messages = record
        .evaluators
        .iter()
        .filter_map(|verdict| verdict.message.as_ref().map(|message| format!("{}: {message}", verdict.name)));
    let text = match &record.error {
        Some(error) => error.clone(),
        None => messages.collect::<Vec<_>>().join("; "),
    };
    // Older versions recorded no messages.
    let failed = record.evaluators.iter().filter(|verdict| verdict.status != EvaluatorStatus::Passed);
    let text = match text.is_empty() {
        true => failed.map(|verdict| verdict.name.as_str()).collect::<Vec<_>>().join(", "),
        false => text,
    };
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.char_indices().nth(200) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
