//! Proving cases before anybody pays for a trial: the start tree must fail (*nop*), the reference solution must pass
//! (*oracle*), each time. Results are cached by a digest of everything that decides them.

mod proof;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

pub(crate) use proof::known_proof;
use proof::store_proof;
pub use proof::{Proof, proven_cases};

use crate::processes::ProcessLog;
use crate::run::{
    CACHE, LockAttempt, PlanOptions, RunContext, RunDir, RunError, RunLock, Selection, create_ignored, select,
};
use crate::trial::{AttemptContext, CheckResult, Runner, SharedStartTree, StartPoint, TrialError, gradable};
use yb_case::suite::{Combination, Suite};
use yb_case::{Case, Solution};
use yb_evaluate::EvaluatorStatus;
use yb_model::outcome::Outcome;

/// The directory of cached results, in the cache.
const FOLDER: &str = "checks";
/// The version of cached results. Others are ignored.
const VERSION: u32 = 1;

/// Options of checking cases.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CheckOptions {
    /// How often the start tree and the solution are graded.
    pub repeats: u32,
    /// Whether evaluators that cost money are included.
    pub judges: bool,
    /// Whether cached results are ignored.
    pub fresh: bool,
    /// How many cases are checked at once.
    pub jobs: usize,
}

impl CheckOptions {
    /// Returns options without judges, with cached results.
    #[must_use]
    pub fn new(repeats: u32, jobs: usize) -> Self {
        Self { repeats, judges: false, fresh: false, jobs }
    }
}

/// The gradings of the start tree, or of the reference solution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SideCheck {
    /// The outcome of each grading.
    pub outcomes: Vec<Outcome>,
    /// The evaluators, in the order of the case.
    pub evaluators: Vec<EvaluatorCheck>,
    /// Why the solution can't be applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Whether the result is of an earlier check.
    #[serde(skip_deserializing)]
    pub cached: bool,
}

/// The verdicts of an evaluator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EvaluatorCheck {
    /// The name.
    pub name: String,
    /// The verdict of each grading.
    pub statuses: Vec<EvaluatorStatus>,
    /// The message of the last grading.
    pub message: String,
}

impl SideCheck {
    fn of(results: Vec<CheckResult>) -> Self {
        let mut side = Self { outcomes: Vec::new(), evaluators: Vec::new(), error: None, cached: false };
        for result in results {
            side.outcomes.push(result.outcome);
            side.error = side.error.or(result.error);
            for (at, verdict) in result.evaluators.into_iter().enumerate() {
                let (name, message) = (verdict.verdict.evaluator, verdict.verdict.message);
                if side.evaluators.len() <= at {
                    side.evaluators.push(EvaluatorCheck {
                        name,
                        statuses: Vec::new(),
                        message: String::new(),
                    });
                }
                side.evaluators[at].statuses.push(verdict.verdict.status);
                side.evaluators[at].message = message;
            }
        }
        side
    }

    /// Returns the outcome, unless gradings differ.
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        self.outcomes.first().copied().filter(|first| self.outcomes.iter().all(|outcome| outcome == first))
    }

    /// Returns the evaluators whose verdicts differ.
    pub fn flaky(&self) -> impl Iterator<Item = &str> {
        let differs = |one: &&EvaluatorCheck| one.statuses.iter().any(|status| *status != one.statuses[0]);
        self.evaluators.iter().filter(differs).map(|one| one.name.as_str())
    }
}

/// The check of a case.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct CaseCheck {
    /// The case.
    pub case: String,
    /// The variants with this start tree and these graders, if the case has others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub variants: Vec<String>,
    /// What the check shows.
    pub proof: Proof,
    /// The gradings of the start tree.
    pub nop: SideCheck,
    /// The gradings of the reference solution, if there is one.
    pub oracle: Option<SideCheck>,
    /// The evaluators that were left out, with the reason.
    pub left_out: Vec<LeftOut>,
    /// The directory with artifacts; absent if the case is proven or the result is cached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifacts: Option<PathBuf>,
}

/// An evaluator that was left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LeftOut {
    /// The name.
    pub name: String,
    /// Whether it is left out for the start tree too, or for the solution only.
    pub nop: bool,
    /// The reason.
    pub reason: &'static str,
}

impl CaseCheck {
    fn new(case: &Case, nop: SideCheck, oracle: Option<SideCheck>, judges: bool) -> Self {
        let mut left_out: Vec<LeftOut> = Vec::new();
        for (is_solution, nop) in [(false, true), (true, false)] {
            for (name, reason) in gradable(case, is_solution, judges).1 {
                if left_out.iter().all(|known| known.name != name) {
                    left_out.push(LeftOut { name, nop, reason });
                }
            }
        }
        let proof = proof(&nop, oracle.as_ref(), left_out.iter().any(|one| one.nop));
        Self { case: case.name.clone(), variants: Vec::new(), proof, nop, oracle, left_out, artifacts: None }
    }
}

fn proof(nop: &SideCheck, oracle: Option<&SideCheck>, judges_left_out: bool) -> Proof {
    let is_flaky = |side: &SideCheck| side.outcome().is_none() || side.flaky().next().is_some();
    match nop.outcome() {
        Some(Outcome::Passed) if judges_left_out => return Proof::Undecided,
        Some(Outcome::Passed) => return Proof::PassesUntouched,
        Some(Outcome::GraderError) => return Proof::Undecided,
        _ if is_flaky(nop) || oracle.is_some_and(is_flaky) => return Proof::Flaky,
        _ => {}
    }
    match oracle.map(SideCheck::outcome) {
        None => Proof::NoSolution,
        Some(Some(Outcome::Passed)) => Proof::Proven,
        Some(Some(Outcome::GraderError)) => Proof::Undecided,
        Some(_) => Proof::SolutionFails,
    }
}

/// A cached result.
#[derive(Serialize, Deserialize)]
struct CachedSide {
    version: u32,
    side: SideCheck,
}

/// Returns the digest of what decides the result of the start tree or, with a solution, of that.
pub(crate) fn digest(
    case: &Case,
    runner: &Runner,
    start: &StartPoint,
    judges: bool,
    solution: Option<(&Solution, Option<&str>)>,
) -> Result<String, TrialError> {
    let isolation = runner.isolation_level(case)?;
    let judges = if judges { "judges" } else { "" };
    let mut facts =
        vec![env!("CARGO_PKG_VERSION"), start.commit(), start.expected_commit(), &isolation, judges];
    let root = start.root_key();
    facts.extend(root.as_deref());
    let key = solution.map(|(solution, _)| solution.key());
    facts.extend(key.as_deref());
    facts.extend(solution.and_then(|(_, commit)| commit));
    Ok(case.check_digest(&facts))
}

fn cached_path(cache: &Path, digest: &str) -> PathBuf {
    cache.join(FOLDER).join(format!("{digest}.json"))
}

/// Returns a cached result with at least this number of gradings.
pub(crate) fn cached(cache: &Path, digest: &str, repeats: u32) -> Option<SideCheck> {
    let bytes = std::fs::read(cached_path(cache, digest)).ok()?;
    let found: CachedSide = serde_json::from_slice(&bytes).ok()?;
    let enough = found.side.outcomes.len() >= repeats as usize;
    (found.version == VERSION && enough).then_some(SideCheck { cached: true, ..found.side })
}

/// Stores a result. The cache only saves time: a failure to write it is not an error.
pub(crate) fn store(cache: &Path, digest: &str, side: &SideCheck) {
    // An evaluator that could not grade may grade the next time.
    if side.outcomes.contains(&Outcome::GraderError) || side.outcomes.contains(&Outcome::Cancelled) {
        return;
    }
    let path = cached_path(cache, digest);
    let Some(folder) = path.parent() else { return };
    let cached = CachedSide { version: VERSION, side: side.clone() };
    if let Ok(bytes) = serde_json::to_vec_pretty(&cached) {
        let _ = std::fs::create_dir_all(folder);
        let _ =
            yb_model::atomic_file::write_atomic(&path, &bytes, yb_model::atomic_file::Durability::Unsynced);
    }
}

/// Grades the start tree of a running trial in place of an agent's result, unless that is cached.
pub(crate) struct UntouchedCheck {
    pub(crate) runner: Runner,
    pub(crate) case: Arc<Case>,
    pub(crate) start: Arc<StartPoint>,
    pub(crate) run: RunDir,
    pub(crate) objects: yb_repo::ObjectStore,
    pub(crate) cache: PathBuf,
    pub(crate) tree: String,
}

impl UntouchedCheck {
    /// Returns whether every evaluator that costs nothing passes, and none was left out. `None` if that is unknown.
    pub(crate) async fn passes(self) -> Option<bool> {
        let (kept, left_out) = gradable(&self.case, false, false);
        if !left_out.is_empty() {
            return None;
        }
        let digest = digest(&self.case, &self.runner, &self.start, false, None).ok()?;
        let side = match cached(&self.cache, &digest, 1) {
            Some(side) => side,
            None => {
                let scratch =
                    self.run.root().join(FOLDER).join(format!("{}-{}", self.run.id(), &digest[..12]));
                let graded = self.grade(&kept, &scratch).await;
                let _ = yb_repo::remove_or_set_aside(&scratch);
                let side = SideCheck::of(vec![graded.ok()?]);
                store(&self.cache, &digest, &side);
                side
            }
        };
        match side.outcome()? {
            Outcome::Passed => Some(true),
            Outcome::GraderError | Outcome::Cancelled => None,
            _ => Some(false),
        }
    }

    async fn grade(&self, case: &Case, folder: &Path) -> Result<CheckResult, TrialError> {
        let (known, trial) = (SharedStartTree::default(), "untouched");
        let attempt = AttemptContext {
            run: &self.run,
            store: &self.objects,
            start: &self.start,
            known: &known,
            trial,
            number: 1,
        };
        let dirs = crate::trial::AttemptDirs::scratch(folder, trial)?;
        self.runner.grade_without_agent(case, &self.cache, &attempt, (&self.tree, &self.tree), &dirs).await
    }
}

/// A case with what its check needs.
struct CheckJob {
    runner: Runner,
    case: Arc<Case>,
    variants: Vec<String>,
    root: PathBuf,
    options: CheckOptions,
}

impl RunContext {
    /// Checks the selected cases of a suite, each once for all variants with the same start tree and graders, and reports each when it
    /// is done.
    ///
    /// # Errors
    /// Returns an error when nothing is selected. Errors of a case are reported with it.
    pub async fn check(
        &self,
        suite: &Suite,
        selection: &Selection,
        plan: &PlanOptions,
        options: &CheckOptions,
        on_done: &mut (dyn FnMut(usize, Result<CaseCheck, TrialError>) + Send),
    ) -> Result<(), RunError> {
        let root = self.root(suite)?;
        let processes = ProcessLog::create(&root).map_err(RunError::io("write", &root))?;
        let permits = Arc::new(Semaphore::new(options.jobs.max(1)));
        let mut tasks = JoinSet::new();
        for (at, (combination, variants)) in distinct(&select(suite, selection)?).into_iter().enumerate() {
            let mut runner = self.runner(combination, plan);
            runner.start_recorder = Some(processes.recorder());
            let job = CheckJob {
                runner,
                case: combination.case.clone(),
                variants,
                root: root.clone(),
                options: options.clone(),
            };
            let permits = Arc::clone(&permits);
            tasks.spawn(async move {
                let _permit = permits.acquire().await;
                let variants = job.variants.clone();
                (at, job.check().await.map(|check| CaseCheck { variants, ..check }))
            });
        }
        while let Some(ended) = tasks.join_next().await {
            if let Ok((at, result)) = ended {
                on_done(at, result);
            }
        }
        Ok(())
    }
}

/// Returns the first combination of each case and start tree, with the names of the variants that share them if there are others: the
/// agent does not matter without one.
fn distinct<'a>(selected: &[&'a Combination]) -> Vec<(&'a Combination, Vec<String>)> {
    let mut found: Vec<(&Combination, String, Vec<String>)> = Vec::new();
    for combination in selected {
        let digest = combination.case.check_digest(&[]);
        let same = |known: &&mut (&Combination, String, Vec<String>)| {
            known.0.case_name == combination.case_name && known.1 == digest
        };
        match found.iter_mut().find(same) {
            Some((.., variants)) => variants.push(combination.variant.clone()),
            None => found.push((combination, digest, vec![combination.variant.clone()])),
        }
    }
    let names: Vec<&str> = found.iter().map(|(one, ..)| one.case_name.as_str()).collect();
    let is_only = |name: &str| names.iter().filter(|other| **other == name).count() == 1;
    let alone: Vec<bool> = names.iter().map(|name| is_only(name)).collect();
    let with_variants = found.into_iter().zip(alone);
    with_variants
        .map(|((one, _, variants), alone)| (one, if alone { Vec::new() } else { variants }))
        .collect()
}

impl CheckJob {
    async fn check(self) -> Result<CaseCheck, TrialError> {
        let cache = self.root.join(CACHE);
        let (case, judges) = (&self.case, self.options.judges);
        self.runner.check_grading(&gradable(case, false, judges).0).await?;
        let start = self.runner.start_point(case, &cache, None).await?;
        let reference = case.reference();
        // The commit of a solution is resolved like that of an expected result.
        let solved = match &reference {
            Some(Solution::Tree(tree)) => {
                let solved = Case { expected: Some(tree.clone()), ..Case::clone(case) };
                Some(self.runner.start_point(&solved, &cache, Some(start.commit())).await?)
            }
            _ => None,
        };
        let solved = solved.as_ref().and_then(|start| start.expected.as_ref());
        let commit = solved.map(|resolved| resolved.commit.as_str());
        let nop_digest = digest(case, &self.runner, &start, judges, None)?;
        let oracle = reference.as_ref().map(|solution| (solution, commit));
        let oracle_digest = oracle.map(|oracle| digest(case, &self.runner, &start, judges, Some(oracle)));
        let oracle_digest = oracle_digest.transpose()?;
        let known =
            |digest: &str| cached(&cache, digest, self.options.repeats).filter(|_| !self.options.fresh);
        let mut nop = known(&nop_digest);
        let mut oracle = oracle_digest.as_deref().and_then(known);
        if nop.is_some() && oracle.is_some() == reference.is_some() {
            let nop = nop.unwrap_or_else(|| SideCheck::of(Vec::new()));
            let done = CaseCheck::new(case, nop, oracle, judges);
            store_proof(&cache, &nop_digest, done.proof);
            return Ok(done);
        }
        let run = RunDir::at(self.root.join(FOLDER).join(&nop_digest[..16]));
        let _lock = self.open(&run)?;
        let objects = self.runner.store(&run, &cache).await?;
        if nop.is_none() {
            let side = self.side(&run, &objects, &start, &cache, None).await?;
            store(&cache, &nop_digest, &side);
            nop = Some(side);
        }
        if let (None, Some(solution), Some(digest)) = (&oracle, &reference, &oracle_digest) {
            let side = self.side(&run, &objects, &start, &cache, Some((solution, solved))).await?;
            store(&cache, digest, &side);
            oracle = Some(side);
        }
        objects.close().await;
        let mut done = CaseCheck::new(case, nop.unwrap_or_else(|| SideCheck::of(Vec::new())), oracle, judges);
        store_proof(&cache, &nop_digest, done.proof);
        if matches!(done.proof, Proof::Proven | Proof::NoSolution) {
            let _ = yb_repo::remove_or_set_aside(run.path());
        } else {
            done.artifacts = Some(run.trials());
        }
        Ok(done)
    }

    /// Creates the directory of the check, or empties that of an earlier one, and locks it.
    fn open(&self, run: &RunDir) -> Result<RunLock, TrialError> {
        let path = run.path();
        create_ignored(&self.root).map_err(TrialError::io(&self.root))?;
        yb_model::atomic_file::create_private_dir(path).map_err(TrialError::io(path))?;
        let lock = RunLock::try_acquire(&run.lock()).map_err(TrialError::io(run.lock()))?;
        let LockAttempt::Acquired(lock) = lock else {
            let reason = format!("another check of `{}` is running", self.case.name);
            return Err(TrialError::Grading { reason });
        };
        for old in [run.trials(), run.objects()] {
            let _ = yb_repo::remove_or_set_aside(&old);
        }
        Ok(lock)
    }

    async fn side(
        &self,
        run: &RunDir,
        objects: &yb_repo::ObjectStore,
        start: &StartPoint,
        cache: &Path,
        reference: Option<crate::trial::Reference<'_>>,
    ) -> Result<SideCheck, TrialError> {
        let (case, _) = gradable(&self.case, reference.is_some(), self.options.judges);
        let (known, trial) = (SharedStartTree::default(), if reference.is_some() { "oracle" } else { "nop" });
        let mut results = Vec::new();
        for number in 1..=self.options.repeats {
            let attempt = AttemptContext { run, store: objects, start, known: &known, trial, number };
            results.push(self.runner.check_once(&case, cache, &attempt, reference).await?);
        }
        Ok(SideCheck::of(results))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(outcomes: &[Outcome]) -> SideCheck {
        SideCheck { outcomes: outcomes.to_vec(), evaluators: Vec::new(), error: None, cached: false }
    }

    #[test]
    fn proof_needs_a_failing_start_and_a_passing_solution_each_time() {
        use Outcome::{Failed, GraderError, Passed};
        let (failed, passed) = (side(&[Failed, Failed]), side(&[Passed, Passed]));
        let of = |nop: &SideCheck, oracle: Option<&SideCheck>| proof(nop, oracle, false);
        assert_eq!(of(&failed, Some(&passed)), Proof::Proven);
        assert_eq!(of(&failed, None), Proof::NoSolution);
        assert_eq!(of(&failed, Some(&failed)), Proof::SolutionFails);
        assert_eq!(of(&passed, Some(&passed)), Proof::PassesUntouched);
        assert_eq!(proof(&passed, Some(&passed), true), Proof::Undecided, "a judge may fail it");
        assert_eq!(of(&side(&[Failed, Passed]), Some(&passed)), Proof::Flaky);
        assert_eq!(of(&failed, Some(&side(&[Passed, Failed]))), Proof::Flaky);
        assert_eq!(of(&side(&[GraderError; 2]), Some(&passed)), Proof::Undecided);
        assert_eq!(of(&failed, Some(&side(&[GraderError; 2]))), Proof::Undecided);
    }
}
