//! Grading recorded trials again, offline, from `objects.git` and their logs: a grading of its own beside what the run said,
//! which stays as it is. The same input gives the same files, byte for byte; only `timings.json` knows a clock.

mod files;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio::sync::{OnceCell, Semaphore};
use tokio::task::JoinSet;
use yb_supervise::CancellationToken;

use super::dir::{CACHE, RunDir};
use super::error::RunError;
use super::event::{AttemptRecord, Graded, StopReason, Trees};
use super::find::RunInfo;
use super::plan::PlannedTrial;
use super::prepare::Setup;
use super::state::{RunState, TrialState};
use crate::trial::{Runner, expected_tree};
use files::{Made, Part, SCRATCH, TRIALS};
use yb_case::EvalFile;
use yb_case::suite::{Combination, SourceFile, Suite};
use yb_evaluate::{GradeError, Subject};
use yb_model::log::{FILE_NAME as LOG_FILE, YouBenchaLog};
use yb_model::outcome::Outcome;
use yb_repo::ObjectStore;

/// How many trials are looked at together where no evaluator runs anything: what they ask of git is asked at once.
const TOGETHER: usize = 128;

/// What grades a run again.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Graders<'a> {
    /// Each case's own evaluators, as its file has them now.
    Suite(&'a Suite),
    /// The same evaluators for every trial.
    File(&'a EvalFile),
}

/// How a run is graded again.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Regrade {
    /// Only trials that no evaluator could say anything about.
    pub failed_only: bool,
    /// How many at once, where code is run for grading.
    pub jobs: usize,
    /// Nothing more is begun when judges have cost this much.
    pub max_cost_usd: Option<f64>,
}

impl Regrade {
    /// So many at once.
    #[must_use]
    pub fn new(failed_only: bool, jobs: usize, max_cost_usd: Option<f64>) -> Self {
        Self { failed_only, jobs, max_cost_usd }
    }
}

/// One trial that was graded again, or why not.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Regraded {
    /// The trial's folder.
    pub trial: String,
    /// What it had come to.
    pub before: Outcome,
    /// What it comes to now.
    pub after: Outcome,
    /// What each evaluator says now.
    pub evaluators: Vec<Graded>,
    /// What judges cost.
    pub judge_usd: Option<f64>,
    /// Why it could not be graded.
    pub error: Option<String>,
    durations: Vec<u64>,
    attempt: u32,
    trees: Trees,
    log_digest: String,
    grade_digest: String,
    verdicts: BTreeMap<String, String>,
}

/// A grading that is on disk.
#[derive(Debug)]
#[non_exhaustive]
pub struct Grading {
    /// `<number>-<digest of what graded>`: they sort in the order in which they were made.
    pub id: String,
    /// Where it is.
    pub path: PathBuf,
    /// Those that were graded, in the order of the plan.
    pub trials: Vec<Regraded>,
    /// The run as it is by this grading; what was not graded is as it was.
    pub state: RunState,
    /// Why not all were graded.
    pub stopped: Option<StopReason>,
}

/// What one trial needs to be graded.
struct Work {
    trial: PlannedTrial,
    record: AttemptRecord,
    trees: Trees,
    shared: Arc<Shared>,
    expected: Option<Result<String, String>>,
    store: ObjectStore,
}

/// What all trials of a combination share.
struct Shared {
    combination: Combination,
    runner: Runner,
    grade_digest: String,
    secrets: Arc<[(String, Vec<u8>)]>,
}

impl Setup {
    /// Grades the trials of a run again. `tell` hears of each, with how many are done and how many there are.
    ///
    /// # Errors
    /// When nothing can be graded, or the grading can't be written; then nothing of it is left.
    pub async fn regrade(
        &self,
        info: &RunInfo,
        graders: Graders<'_>,
        how: &Regrade,
        tell: &mut (dyn FnMut(&Regraded, usize, usize) + Send),
    ) -> Result<Grading, RunError> {
        let began = Instant::now();
        let cache = info.run.path().ancestors().nth(2).unwrap_or(info.run.path()).join(CACHE);
        let (work, together) = self.work(info, graders, how, &cache).await?;
        let part = Part::begin(&info.run)?;
        let total = work.len();
        let seats = Arc::new(Semaphore::new(if together { TOGETHER } else { how.jobs.max(1) }));
        let spent = Arc::new(Mutex::new(0.0_f64));
        let mut tasks = JoinSet::new();
        for (at, one) in work.into_iter().enumerate() {
            let (seats, spent, max) = (Arc::clone(&seats), Arc::clone(&spent), how.max_cost_usd);
            let (run, cache, place) = (info.run.clone(), cache.clone(), part.path().to_owned());
            tasks.spawn(async move {
                let _seat = seats.acquire().await;
                let known = *spent.lock().unwrap_or_else(PoisonError::into_inner);
                if max.is_some_and(|max| known >= max) {
                    return (at, None);
                }
                let graded = one.grade(&run, &cache, &place).await;
                *spent.lock().unwrap_or_else(PoisonError::into_inner) += graded.judge_usd.unwrap_or(0.0);
                (at, Some(graded))
            });
        }
        let mut done: BTreeMap<usize, Regraded> = BTreeMap::new();
        let mut left = 0;
        while let Some(ended) = tasks.join_next().await {
            match ended {
                Ok((at, Some(graded))) => {
                    tell(&graded, done.len() + 1, total);
                    done.insert(at, graded);
                }
                Ok((_, None)) => left += 1,
                Err(_) => {
                    return Err(RunError::Regrade { reason: "a trial was lost; this is a bug".to_owned() });
                }
            }
        }
        let trials: Vec<Regraded> = done.into_values().collect();
        let mut state = info.state.clone();
        for one in &trials {
            state.regrade(&one.trial, one.after, &one.evaluators, one.judge_usd, one.error.as_deref());
        }
        let stopped = (left > 0).then_some(StopReason::Budget);
        let (config, sources): (&Path, &[SourceFile]) = match graders {
            Graders::Suite(suite) => (&suite.file, &suite.files),
            Graders::File(eval) => (&eval.file, &eval.files),
        };
        let made = Made { info, how, config, sources, trials: &trials, state: &state, began };
        let (id, path) = part.finish(&made)?;
        Ok(Grading { id, path, trials, state, stopped })
    }

    /// What is to be graded, and whether many can be looked at together because nothing is run.
    async fn work(
        &self,
        info: &RunInfo,
        graders: Graders<'_>,
        how: &Regrade,
        cache: &Path,
    ) -> Result<(Vec<Work>, bool), RunError> {
        let mut store: Option<ObjectStore> = None;
        let mut all: HashMap<(&str, &str), Arc<Shared>> = HashMap::new();
        let mut expected: HashMap<String, Option<Result<String, String>>> = HashMap::new();
        let mut missing: Vec<String> = Vec::new();
        let mut work = Vec::new();
        for trial in &info.plan.trials {
            let Some(record) = info.state.get(&trial.folder).and_then(TrialState::result) else { continue };
            let Some(trees) = record.trees.clone() else { continue };
            if how.failed_only && record.outcome != Outcome::GraderError {
                continue;
            }
            let key = (trial.case.as_str(), trial.variant.as_str());
            let shared = match (all.get(&key), combination(graders, trial)) {
                (Some(known), _) => Arc::clone(known),
                (None, Some(found)) => {
                    let made = Arc::new(self.shared(found, info).await?);
                    all.insert(key, Arc::clone(&made));
                    made
                }
                (None, None) => {
                    missing.push(format!("`{}` / `{}`", trial.case, trial.variant));
                    continue;
                }
            };
            let store = match &store {
                Some(open) => open.clone(),
                None => {
                    let open = shared.runner.store(&info.run, cache).await.map_err(RunError::one)?;
                    store.insert(open.batched()).clone()
                }
            };
            let case = &shared.combination.case;
            let expected = match &case.expected {
                None => None,
                Some(wanted) => {
                    let key = format!("{}\0{}\0{}", case.start, wanted.key(), trees.start);
                    match expected.get(&key) {
                        Some(found) => found.clone(),
                        None => {
                            let found = expected_tree(case, &store, &trees.start, None).await;
                            expected.insert(key, found.clone());
                            found
                        }
                    }
                }
            };
            work.push(Work { trial: trial.clone(), record: record.clone(), trees, shared, expected, store });
        }
        missing.dedup();
        if !missing.is_empty() {
            return Err(RunError::Regrade { reason: format!("no evaluators for {}", missing.join(", ")) });
        }
        if work.is_empty() {
            let which = if how.failed_only { "was left without a verdict" } else { "was recorded" };
            return Err(RunError::NothingToRerun { run: info.run.id(), which });
        }
        let together = all.values().all(|one| !yb_evaluate::needs_tree(&one.combination.case.evaluators));
        Ok((work, together))
    }

    async fn shared(&self, combination: Combination, info: &RunInfo) -> Result<Shared, RunError> {
        let runner = self.runner(&combination, &info.plan.options);
        runner.check_grading(&combination.case).await.map_err(RunError::one)?;
        let secrets = runner.known_secrets(&combination.case).into();
        Ok(Shared { grade_digest: combination.grade_digest(), combination, runner, secrets })
    }
}

/// The evaluators of a trial.
fn combination(graders: Graders<'_>, trial: &PlannedTrial) -> Option<Combination> {
    match graders {
        Graders::Suite(suite) => suite
            .combinations
            .iter()
            .find(|one| one.case_name == trial.case && one.variant == trial.variant)
            .cloned(),
        Graders::File(eval) => Some(Combination {
            case_name: trial.case.clone(),
            variant: trial.variant.clone(),
            tags: Vec::new(),
            case: Arc::new(eval.case()),
            agent_version: None,
        }),
    }
}

impl Work {
    /// Grades a trial. Whatever goes wrong is no verdict.
    async fn grade(&self, run: &RunDir, cache: &Path, place: &Path) -> Regraded {
        let mut graded = Regraded {
            trial: self.trial.folder.clone(),
            before: self.record.outcome,
            after: Outcome::GraderError,
            evaluators: Vec::new(),
            judge_usd: None,
            error: None,
            durations: Vec::new(),
            attempt: self.record.attempt,
            trees: self.trees.clone(),
            log_digest: String::new(),
            grade_digest: self.shared.grade_digest.clone(),
            verdicts: BTreeMap::new(),
        };
        if let Err(error) = self.try_grade(run, cache, place, &mut graded).await {
            graded.after = Outcome::GraderError;
            graded.error = Some(error.to_string());
        }
        graded
    }

    async fn try_grade(
        &self,
        run: &RunDir,
        cache: &Path,
        place: &Path,
        graded: &mut Regraded,
    ) -> Result<(), GradeError> {
        let recorded = run.artifacts(&self.trial.folder, self.record.attempt);
        let path = recorded.join(LOG_FILE);
        let bytes = std::fs::read(&path).map_err(GradeError::io(&path))?;
        graded.log_digest = blake3::hash(&bytes).to_hex().to_string();
        if self.record.artifacts.get(LOG_FILE).is_some_and(|digest| *digest != graded.log_digest) {
            return Err(GradeError::other("the log is not the one that was recorded"));
        }
        let log = YouBenchaLog::parse(&path, &bytes).map_err(|error| GradeError::other(error.to_string()))?;
        let (shared, case) = (&self.shared, &self.shared.combination.case);
        let diff = self.store.diff(&self.trees.start, &self.trees.end).await?;
        let hidden = run.path().ancestors().nth(2).into_iter().chain([run.path(), case.dir.as_path()]);
        let grader_env = shared
            .runner
            .grader_env(case, cache, hidden.map(Path::to_owned).collect(), CancellationToken::new())
            .map_err(|error| GradeError::other(error.to_string()))?;
        let own = place.join(TRIALS).join(&self.trial.folder);
        let subject = Arc::new(Subject {
            store: self.store.clone(),
            start: self.trees.start.clone(),
            end: self.trees.end.clone(),
            expected: self.expected.clone(),
            diff: Arc::new(diff),
            log: Arc::new(log),
            secrets: Arc::clone(&shared.secrets),
            prepare: case.prepare.clone().into(),
            artifacts: own.clone(),
            scratch: place.join(SCRATCH).join(&self.trial.folder),
            grader_env,
            files: OnceCell::new(),
            trace: None,
        });
        let mut results =
            yb_evaluate::grade(&case.evaluators, &subject, shared.runner.grade_options()).await?;
        for result in &mut results {
            graded.durations.push(std::mem::take(&mut result.duration_ms));
            result.timestamp.clone_from(&subject.log.execution.completed_at);
        }
        // What decided the trial before anything was graded still does.
        graded.after = subject.log.outcome.unwrap_or_else(|| yb_evaluate::outcome(&results));
        graded.evaluators =
            results.iter().map(|one| Graded { name: one.evaluator.clone(), status: one.status }).collect();
        let judges: Vec<f64> = results.iter().filter_map(|one| one.cost_usd).collect();
        graded.judge_usd = (!judges.is_empty()).then(|| judges.iter().sum());
        graded.verdicts = files::verdicts(&own)?;
        files::write_results(&recorded, &own, &results, graded.after)
    }
}
