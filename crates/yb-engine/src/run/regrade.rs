//! Regrades recorded trials offline, from `objects.git` and their logs. A grading is stored beside the results of the run,
//! which are not changed. The same input gives the same files, byte for byte, except for `timings.json`.

mod files;
mod journal;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio::sync::{OnceCell, Semaphore};
use tokio::task::JoinSet;
use yb_supervise::CancellationToken;

use super::dir::{CACHE, RunDir};
use super::error::RunError;
use super::event::{AttemptRecord, AttemptTrees, EvaluatorVerdict, StopReason};
use super::lookup::RunInfo;
use super::plan::PlannedTrial;
use super::prepare::RunContext;
use super::state::{RunState, TrialState};
use crate::processes::ProcessLog;
use crate::trial::{RESULTS_FILE, Runner, expected_tree};
pub(crate) use files::{GRADINGS, is_recorded};
use files::{GradingDir, GradingReport, SCRATCH, TRIALS};
pub(crate) use journal::{GradingJournal, gradings_on_disk};
use yb_agents::trace::{Begin, End, Trace, TrialEnd};
use yb_case::EvalFile;
use yb_case::suite::{Combination, SourceFile, Suite};
use yb_evaluate::{GradeError, Subject};
use yb_model::log::{FILE_NAME as LOG_FILE, YouBenchaLog};
use yb_model::outcome::{Outcome, PassCredit};
use yb_repo::ObjectStore;

/// Number of concurrent trials when no evaluator runs a process, so that their git requests are batched.
const MAX_CONCURRENT_READS: usize = 128;

/// The evaluators that regrade a run.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum GraderSource<'a> {
    /// The current evaluators of each case.
    Suite(&'a Suite),
    /// The same evaluators for every trial.
    File(&'a EvalFile),
}

/// Options for regrading a run.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct RegradeOptions {
    /// Regrade only trials without a verdict.
    pub failed_only: bool,
    /// Number of concurrent trials when evaluators run processes.
    pub jobs: usize,
    /// Start no further trial once judges have cost this much.
    pub max_cost_usd: Option<f64>,
    /// The trace node of the grading, if it is traced.
    pub trace: Option<Arc<dyn Trace>>,
}

impl RegradeOptions {
    /// Returns the options.
    #[must_use]
    pub fn new(failed_only: bool, jobs: usize, max_cost_usd: Option<f64>) -> Self {
        Self { failed_only, jobs, max_cost_usd, trace: None }
    }
}

/// A regraded trial, or the reason why it could not be graded.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RegradedTrial {
    /// The trial's folder.
    pub trial: String,
    /// The outcome before.
    pub before: Outcome,
    /// The outcome now.
    pub after: Outcome,
    /// The verdict of each evaluator.
    pub evaluators: Vec<EvaluatorVerdict>,
    /// The cost of judges.
    pub judge_usd: Option<f64>,
    /// Why it could not be graded.
    pub error: Option<String>,
    durations: Vec<u64>,
    attempt: u32,
    trees: AttemptTrees,
    log_digest: String,
    grade_digest: String,
    verdicts: BTreeMap<String, String>,
}

/// A grading on disk.
#[derive(Debug)]
#[non_exhaustive]
pub struct Grading {
    /// `<number>-<digest of the evaluators>`; ids sort in creation order.
    pub id: String,
    /// The directory of the grading.
    pub path: PathBuf,
    /// The regraded trials, in plan order.
    pub trials: Vec<RegradedTrial>,
    /// The state of the run with the new outcomes. Trials that were not regraded keep theirs.
    pub state: RunState,
    /// Why not all trials were regraded.
    pub stopped: Option<StopReason>,
}

/// The data that is needed to regrade one trial.
struct RegradeJob {
    trial: PlannedTrial,
    record: AttemptRecord,
    trees: AttemptTrees,
    shared: Arc<CombinationGraders>,
    expected: Option<Result<String, String>>,
    store: ObjectStore,
}

/// The evaluators of a combination, shared by its trials.
struct CombinationGraders {
    combination: Combination,
    runner: Runner,
    grade_digest: String,
    secrets: Arc<[(String, Vec<u8>)]>,
}

impl RunContext {
    /// Regrades the trials of a run. Calls `on_trial` after each, with the number of finished trials and the total.
    ///
    /// # Errors
    /// Returns an error when no trial can be graded or the grading can't be written; then no files are left.
    pub async fn regrade(
        &self,
        info: &RunInfo,
        graders: GraderSource<'_>,
        options: &RegradeOptions,
        on_trial: &mut (dyn FnMut(&RegradedTrial, usize, usize) + Send),
    ) -> Result<Grading, RunError> {
        let began = Instant::now();
        let cache = info.run.path().ancestors().nth(2).unwrap_or(info.run.path()).join(CACHE);
        let root = info.run.root();
        let processes = ProcessLog::create(root).map_err(RunError::io("write", root))?;
        let (work, together) = self.regrade_jobs(info, graders, options, (&cache, &processes)).await?;
        let dir = GradingDir::begin(&info.run)?;
        let total = work.len();
        let permits =
            Arc::new(Semaphore::new(if together { MAX_CONCURRENT_READS } else { options.jobs.max(1) }));
        let spent = Arc::new(Mutex::new(0.0_f64));
        let mut tasks = JoinSet::new();
        for (at, one) in work.into_iter().enumerate() {
            let (permits, spent, max) = (Arc::clone(&permits), Arc::clone(&spent), options.max_cost_usd);
            let (run, cache, place) = (info.run.clone(), cache.clone(), dir.path().to_owned());
            let trace = options.trace.clone();
            tasks.spawn(async move {
                let _permit = permits.acquire().await;
                let known = *spent.lock().unwrap_or_else(PoisonError::into_inner);
                if max.is_some_and(|max| known >= max) {
                    return (at, None);
                }
                let graded = one.grade(&run, &cache, &place, trace.as_ref()).await;
                *spent.lock().unwrap_or_else(PoisonError::into_inner) += graded.judge_usd.unwrap_or(0.0);
                (at, Some(graded))
            });
        }
        let mut done: BTreeMap<usize, RegradedTrial> = BTreeMap::new();
        let mut left = 0;
        while let Some(ended) = tasks.join_next().await {
            match ended {
                Ok((at, Some(graded))) => {
                    on_trial(&graded, done.len() + 1, total);
                    done.insert(at, graded);
                }
                Ok((_, None)) => left += 1,
                Err(_) => {
                    return Err(RunError::Regrade {
                        reason: "a grading task panicked; this is a bug".to_owned(),
                    });
                }
            }
        }
        let trials: Vec<RegradedTrial> = done.into_values().collect();
        let mut state = info.state.clone();
        for one in &trials {
            state.regrade(&one.trial, one.after, &one.evaluators, one.judge_usd, one.error.as_deref());
        }
        let stopped = (left > 0).then_some(StopReason::Budget);
        let (config, sources): (&Path, &[SourceFile]) = match graders {
            GraderSource::Suite(suite) => (&suite.file, &suite.files),
            GraderSource::File(eval) => (&eval.file, &eval.files),
        };
        let report = GradingReport { info, options, config, sources, trials: &trials, state: &state, began };
        let (id, path) = dir.finish(&report)?;
        Ok(Grading { id, path, trials, state, stopped })
    }

    /// Returns the jobs, and whether they can run with high concurrency because no evaluator runs a process.
    async fn regrade_jobs(
        &self,
        info: &RunInfo,
        graders: GraderSource<'_>,
        options: &RegradeOptions,
        (cache, processes): (&Path, &Arc<ProcessLog>),
    ) -> Result<(Vec<RegradeJob>, bool), RunError> {
        let mut store: Option<ObjectStore> = None;
        let mut all: HashMap<(&str, &str), Arc<CombinationGraders>> = HashMap::new();
        let mut expected: HashMap<String, Option<Result<String, String>>> = HashMap::new();
        let mut missing: Vec<String> = Vec::new();
        let mut work = Vec::new();
        for trial in &info.plan.trials {
            let Some(record) = info.state.get(&trial.folder).and_then(TrialState::result) else { continue };
            let Some(trees) = record.trees.clone() else { continue };
            if options.failed_only && !did_not_pass(record.outcome) {
                continue;
            }
            let key = (trial.case.as_str(), trial.variant.as_str());
            let shared = match (all.get(&key), combination(graders, trial)) {
                (Some(known), _) => Arc::clone(known),
                (None, Some(found)) => {
                    let report = Arc::new(self.combination_graders(found, info, processes).await?);
                    all.insert(key, Arc::clone(&report));
                    report
                }
                (None, None) => {
                    missing.push(format!("`{}` / `{}`", trial.case, trial.variant));
                    continue;
                }
            };
            let store = match &store {
                Some(open) => open.clone(),
                None => {
                    let open = shared.runner.store(&info.run, cache).await.map_err(RunError::from_trial)?;
                    // A run of an earlier version, or one that was killed, may have many packs. Those of a read-only run stay.
                    let _ = open.consolidate().await;
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
            work.push(RegradeJob {
                trial: trial.clone(),
                record: record.clone(),
                trees,
                shared,
                expected,
                store,
            });
        }
        missing.dedup();
        if !missing.is_empty() {
            return Err(RunError::Regrade { reason: format!("no evaluators for {}", missing.join(", ")) });
        }
        if work.is_empty() {
            let which = if options.failed_only { "failed" } else { "was recorded" };
            return Err(RunError::NothingToRerun { run: info.run.id(), which });
        }
        let together = all.values().all(|one| !yb_evaluate::needs_tree(&one.combination.case.evaluators));
        Ok((work, together))
    }

    async fn combination_graders(
        &self,
        combination: Combination,
        info: &RunInfo,
        processes: &Arc<ProcessLog>,
    ) -> Result<CombinationGraders, RunError> {
        let mut runner = self.runner(&combination, &info.plan.options);
        runner.start_recorder = Some(processes.recorder());
        runner.check_grading(&combination.case).await.map_err(RunError::from_trial)?;
        let secrets = runner.known_secrets(&combination.case).into();
        Ok(CombinationGraders { grade_digest: combination.grade_digest(), combination, runner, secrets })
    }
}

/// Whether a trial failed, or could not be graded.
fn did_not_pass(outcome: Outcome) -> bool {
    matches!(outcome.pass_credit(), PassCredit::Zero | PassCredit::Unknown)
}

/// Returns the combination with the evaluators of a trial.
fn combination(graders: GraderSource<'_>, trial: &PlannedTrial) -> Option<Combination> {
    match graders {
        GraderSource::Suite(suite) => suite
            .combinations
            .iter()
            .find(|one| one.case_name == trial.case && one.variant == trial.variant)
            .cloned(),
        GraderSource::File(eval) => Some(Combination {
            case_name: trial.case.clone(),
            variant: trial.variant.clone(),
            tags: Vec::new(),
            case: Arc::new(eval.case()),
            agent_version: None,
        }),
    }
}

impl RegradeJob {
    /// Grades a trial. Any failure is a grader error.
    async fn grade(
        &self,
        run: &RunDir,
        cache: &Path,
        place: &Path,
        trace: Option<&Arc<dyn Trace>>,
    ) -> RegradedTrial {
        let mut graded = RegradedTrial {
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
        let begin = |grading: &Arc<dyn Trace>| {
            grading.begin(Begin::Trial(&self.trial.trace_start(self.record.attempt)))
        };
        let trace = trace.map(begin);
        if let Err(error) = self.try_grade(run, cache, place, trace.clone(), &mut graded).await {
            graded.after = Outcome::GraderError;
            graded.error = Some(error.to_string());
        }
        if let Some(trace) = trace {
            let (outcome, cost_usd, error) = (graded.after, graded.judge_usd, graded.error.as_deref());
            trace.end(End::Trial(&TrialEnd { outcome, isolation: None, cost_usd, error }));
        }
        graded
    }

    /// Returns the file of frames, if the log refers to it for what it leaves out.
    fn frames(&self, log: &YouBenchaLog, recorded: &Path) -> Result<Option<PathBuf>, GradeError> {
        let Some(name) = log.output.frames.as_ref().filter(|_| log.omitted.is_some()) else {
            return Ok(None);
        };
        let path = recorded.join(name);
        let unchanged =
            |digest: &String| super::record::file_digest(&path).is_ok_and(|found| found == *digest);
        match self.record.artifacts.get(name).is_none_or(unchanged) {
            true => Ok(Some(path)),
            false => Err(GradeError::other("the frames do not match their recorded digest")),
        }
    }

    async fn try_grade(
        &self,
        run: &RunDir,
        cache: &Path,
        place: &Path,
        trace: Option<Arc<dyn Trace>>,
        graded: &mut RegradedTrial,
    ) -> Result<(), GradeError> {
        let recorded = run.artifacts(&self.trial.folder, self.record.attempt);
        let path = recorded.join(LOG_FILE);
        let bytes = std::fs::read(&path).map_err(GradeError::io(&path))?;
        graded.log_digest = blake3::hash(&bytes).to_hex().to_string();
        if self.record.artifacts.get(LOG_FILE).is_some_and(|digest| *digest != graded.log_digest) {
            return Err(GradeError::other("the log does not match its recorded digest"));
        }
        let results = recorded.join(RESULTS_FILE);
        let unchanged =
            |digest: &String| super::record::file_digest(&results).is_ok_and(|found| found == *digest);
        if !self.record.artifacts.get(RESULTS_FILE).is_none_or(unchanged) {
            return Err(GradeError::other("the results do not match their recorded digest"));
        }
        let log = YouBenchaLog::parse(&path, &bytes).map_err(|error| GradeError::other(error.to_string()))?;
        drop(bytes);
        let frames = self.frames(&log, &recorded)?;
        let (shared, case) = (&self.shared, &self.shared.combination.case);
        let diff = self.store.diff(&self.trees.start, &self.trees.end).await?;
        let hidden = run.path().ancestors().nth(2).into_iter().chain([run.path(), case.dir.as_path()]);
        let grader_env = shared
            .runner
            .grader_env(case, cache, hidden.map(Path::to_owned).collect(), CancellationToken::new())
            .map_err(|error| GradeError::other(error.to_string()))?;
        if case.environment.is_some() {
            return Err(GradeError::other("trials of a case with `environment` can't be graded again yet"));
        }
        let own = place.join(TRIALS).join(&self.trial.folder);
        let subject = Arc::new(Subject {
            store: self.store.clone(),
            start: self.trees.start.clone(),
            end: self.trees.end.clone(),
            expected: self.expected.clone(),
            overlay: case.overlay.clone(),
            diff: Arc::new(diff),
            log: Arc::new(log),
            frames,
            secrets: Arc::clone(&shared.secrets),
            prepare: case.prepare.clone().into(),
            may_change: case.may_change.clone().map(Into::into),
            artifacts: own.clone(),
            scratch: place.join(SCRATCH).join(&self.trial.folder),
            grader_env,
            files: OnceCell::new(),
            trace,
        });
        let mut results =
            yb_evaluate::grade(&case.evaluators, &subject, shared.runner.grade_options()).await?;
        for result in &mut results {
            graded.durations.push(std::mem::take(&mut result.duration_ms));
            result.timestamp.clone_from(&subject.log.execution.completed_at);
        }
        // An outcome that was decided before grading takes precedence.
        graded.after = subject.log.outcome.unwrap_or_else(|| yb_evaluate::outcome(&results));
        graded.evaluators = results.iter().map(|one| EvaluatorVerdict::of(one)).collect();
        let judges: Vec<f64> = results.iter().filter_map(|one| one.cost_usd).collect();
        graded.judge_usd = (!judges.is_empty()).then(|| judges.iter().sum());
        graded.verdicts = files::verdicts(&own)?;
        files::write_results(&recorded, &own, &results, graded.after)
    }
}
