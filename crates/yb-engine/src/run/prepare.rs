//! Preparing a run: checks every selected combination and resolves every commit before anything is written.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;

use super::dir::{CACHE, RunDir};
use super::error::{PreflightProblem, RunError};
use super::event::{JOURNAL_VERSION, RunEvent};
use super::journal::Journal;
use super::lock::{LockAttempt, RunLock};
use super::plan::{PLAN_VERSION, Plan, PlanOptions, PlannedTrial, Selection, expand, label, select};
use super::resume::ActiveRun;
use super::state::RunState;
use super::unit::TrialUnit;
use crate::Extensions;
use crate::check::{Proof, known_proof};
use crate::trial::{Runner, SharedStartTree, StartPoint, TrialError};
use yb_case::config::Settings;
use yb_case::suite::{Combination, Suite};
use yb_repo::HostPolicy;
use yb_supervise::PauseSwitch;

/// Settings and environment that all runs of this process share.
#[derive(Clone)]
#[non_exhaustive]
pub struct RunContext {
    /// The settings, without those of any case.
    pub settings: Settings,
    /// The environment from which the variables of each agent are selected.
    pub env: BTreeMap<String, String>,
    /// The shim executable that supervises child processes; defaults to the current executable.
    pub shim: Option<PathBuf>,
    /// Suspends all child processes.
    pub pause: PauseSwitch,
    /// The agents and evaluators that cases may name.
    pub extensions: Extensions,
}

/// A checked run that is ready to start.
#[non_exhaustive]
pub struct PreparedRun {
    /// The workspace directory.
    pub root: PathBuf,
    /// The required agents with their versions, if known.
    pub agents: BTreeMap<String, Option<String>>,
    pub(super) name: String,
    pub(super) prefix: String,
    pub(super) config: PathBuf,
    pub(super) files: Vec<yb_case::suite::SourceFile>,
    pub(super) design: Option<yb_stats::FactorialDesign>,
    pub(super) vary: Vec<String>,
    pub(super) units: Vec<TrialUnit>,
}

impl RunContext {
    /// Returns a context with these settings and this environment.
    #[must_use]
    pub fn new(settings: Settings, env: BTreeMap<String, String>, extensions: Extensions) -> Self {
        Self { settings, env, shim: None, pause: PauseSwitch::default(), extensions }
    }

    /// Checks every selected combination and resolves its start commit.
    ///
    /// # Errors
    /// Returns all problems at once.
    pub async fn prepare(
        &self,
        suite: &Suite,
        selection: &Selection,
        options: &PlanOptions,
    ) -> Result<PreparedRun, RunError> {
        let selected = select(suite, selection)?;
        crate::gates::check(&options.gates, &self.root(suite)?)?;
        let repeats = selection.repeats.unwrap_or(suite.repeats);
        let (parts, agents) = self.parts(suite, &selected, options, &BTreeMap::new()).await?;
        let units: Vec<TrialUnit> =
            expand(&parts.iter().map(PreparedCombination::for_plan).collect::<Vec<_>>(), repeats)
                .into_iter()
                .filter_map(|trial| {
                    let part = PreparedCombination::of(&parts, &trial)?;
                    Some(part.unit(PlannedTrial { proof: Some(part.proof), ..trial }))
                })
                .collect();
        check_tapes(&units, &parts)?;
        let prefix = match (&suite.name, suite.combinations.first()) {
            (None, Some(only)) => only.case.workspace_name.as_deref().map(yb_model::safe_name),
            _ => None,
        };
        Ok(PreparedRun {
            root: self.root(suite)?,
            agents,
            name: suite.name.clone().unwrap_or_else(|| selected[0].case_name.clone()),
            prefix: prefix.unwrap_or_else(|| "run".to_owned()),
            config: std::path::absolute(&suite.file).map_err(RunError::io("find", &suite.file))?,
            files: suite.files.clone(),
            design: suite.design.clone(),
            vary: suite.vary.clone(),
            units,
        })
    }

    /// Checks combinations and resolves their start commits. `commits` pins the commits of cases by name.
    pub(super) async fn parts<'a>(
        &self,
        suite: &Suite,
        selected: &[&'a Combination],
        options: &PlanOptions,
        commits: &BTreeMap<String, String>,
    ) -> Result<(Vec<PreparedCombination<'a>>, BTreeMap<String, Option<String>>), RunError> {
        let cache = self.root(suite)?.join(CACHE);
        let runners: Vec<Runner> = selected.iter().map(|one| self.runner(one, options)).collect();
        let agents = check(selected, &runners).await?;
        let starts = start_points(selected, &runners, &cache, commits).await?;
        let mut parts = Vec::with_capacity(selected.len());
        for ((combination, runner), start) in selected.iter().zip(runners).zip(starts) {
            let account = runner.account(&combination.case).map_err(RunError::from_trial)?;
            let proof = known_proof(&cache, &combination.case, &runner, &start);
            let known = Arc::default();
            parts.push(PreparedCombination { combination, runner, start, known, account, proof });
        }
        Ok((parts, agents))
    }

    /// Returns the workspace directory of a suite. Only a case that is run without a suite can set it.
    ///
    /// # Errors
    /// Returns an error when the current directory is unknown.
    pub fn root(&self, suite: &Suite) -> Result<PathBuf, RunError> {
        let root = match (&suite.name, suite.combinations.first()) {
            (None, Some(only)) => self.settings.clone().with_case(&only.case).workspace_dir(),
            _ => self.settings.workspace_dir(),
        };
        std::path::absolute(&root).map_err(RunError::io("find", &root))
    }

    pub(crate) fn runner(&self, combination: &Combination, options: &PlanOptions) -> Runner {
        let mut settings = self.settings.clone().with_case(&combination.case);
        if options.delete_workspace {
            settings = settings.with_argument("keep_workspace", false);
        }
        for (name, limit) in options.limits.iter() {
            if let Some(limit) = limit {
                settings = settings.with_argument(&format!("limits.{name}"), limit);
            }
        }
        let mut runner = Runner::new(settings, self.env.clone(), self.extensions.clone());
        if options.allow_private_hosts {
            runner.hosts = HostPolicy::AllowPrivate;
        }
        runner.isolation = options.isolation;
        runner.network = options.network;
        runner.steps = options.steps;
        runner.tape.clone_from(&options.tape);
        runner.shim.clone_from(&self.shim);
        runner.pause = self.pause.clone();
        runner
    }
}

/// A checked combination with the data that its trials share.
pub(super) struct PreparedCombination<'a> {
    pub(super) combination: &'a Combination,
    runner: Runner,
    start: Arc<StartPoint>,
    known: Arc<SharedStartTree>,
    account: String,
    proof: Proof,
}

impl<'a> PreparedCombination<'a> {
    pub(super) fn for_plan(&self) -> (&'a Combination, &str, u64) {
        let timeout = self.runner.settings.timeouts().agent.as_millis();
        (self.combination, self.start.commit(), u64::try_from(timeout).unwrap_or(u64::MAX))
    }

    pub(super) fn digests(&self) -> (String, String) {
        (self.combination.task_digest(self.start.commit()), self.combination.grade_digest())
    }

    /// Returns the combination of a trial.
    pub(super) fn of<'p>(parts: &'p [Self], trial: &PlannedTrial) -> Option<&'p Self> {
        parts.iter().find(|part| {
            part.combination.case_name == trial.case && part.combination.variant == trial.variant
        })
    }

    pub(super) fn unit(&self, trial: PlannedTrial) -> TrialUnit {
        TrialUnit {
            trial,
            case: self.combination.case.clone(),
            runner: self.runner.clone(),
            start: self.start.clone(),
            known: self.known.clone(),
            account: self.account.clone(),
        }
    }
}

/// Collects problems; the same problem of several combinations is listed once.
#[derive(Default)]
struct ProblemList(Vec<PreflightProblem>);

impl ProblemList {
    fn add(&mut self, combination: &Combination, runner: &Runner, error: TrialError) {
        let same = self.0.iter_mut().find(|known| known.error.to_string() == error.to_string());
        match same {
            Some(known) => known.affected.push(label(combination)),
            None => {
                let spec = runner.agent_spec(&combination.case);
                let code = error.code().zip(spec).map(|(code, spec)| code.for_agent(spec));
                self.0.push(PreflightProblem { affected: vec![label(combination)], error, code });
            }
        }
    }

    fn into_result(self) -> Result<(), RunError> {
        if self.0.is_empty() { Ok(()) } else { Err(RunError::Refused { problems: self.0 }) }
    }
}

/// Checks that every combination can run on this machine. Returns the versions of the agents.
async fn check(
    selected: &[&Combination],
    runners: &[Runner],
) -> Result<BTreeMap<String, Option<String>>, RunError> {
    let mut problems = ProblemList::default();
    for (one, runner) in selected.iter().zip(runners) {
        if let Err(error) = runner.check(&one.case) {
            problems.add(one, runner, error);
        }
    }
    problems.into_result()?;
    let mut problems = ProblemList::default();
    let mut agents = BTreeMap::new();
    let mut checked: HashMap<String, Option<String>> = HashMap::new();
    for (one, runner) in selected.iter().zip(runners) {
        let agent = &one.case.agent;
        let key = match runner.account(&one.case) {
            Ok(account) => format!("{account}\0{:?}\0{:?}", agent.version, agent.config.section),
            Err(error) => {
                problems.add(one, runner, error);
                continue;
            }
        };
        let version = match checked.get(&key) {
            Some(version) => version.clone(),
            None => match runner.check_agent(&one.case).await {
                Ok(version) => version,
                Err(error) => {
                    problems.add(one, runner, error);
                    continue;
                }
            },
        };
        if let Some(wanted) = &one.agent_version
            && version.as_ref() != Some(wanted)
        {
            problems.add(one, runner, TrialError::wrong_version(&agent.kind, version.as_deref(), wanted));
        }
        checked.insert(key, version.clone());
        let versions = agents.entry(agent.kind.clone()).or_insert_with(|| version.clone());
        if let (Some(versions), Some(version)) = (versions, version)
            && versions.split(", ").all(|known| known != version)
        {
            versions.push_str(&format!(", {version}"));
        }
    }
    problems.into_result()?;
    Ok(agents)
}

/// Checks that the tapes to replay exist and the tapes to record do not.
fn check_tapes(units: &[TrialUnit], parts: &[PreparedCombination<'_>]) -> Result<(), RunError> {
    let mut problems = ProblemList::default();
    for unit in units {
        if let Err(error) = unit.runner.check_tape(&unit.case, &unit.trial.folder)
            && let Some(part) = PreparedCombination::of(parts, &unit.trial)
        {
            problems.add(part.combination, &unit.runner, error);
        }
    }
    problems.into_result()
}

/// Resolves the start of each combination. Cases with the same start share it.
async fn start_points(
    selected: &[&Combination],
    runners: &[Runner],
    cache: &Path,
    commits: &BTreeMap<String, String>,
) -> Result<Vec<Arc<StartPoint>>, RunError> {
    let mut problems = ProblemList::default();
    let mut known: HashMap<String, Arc<StartPoint>> = HashMap::new();
    let mut starts = Vec::with_capacity(selected.len());
    for (one, runner) in selected.iter().zip(runners) {
        let commit = commits.get(&one.case_name).map(String::as_str);
        let (start, expected) = (&one.case.start, &one.case.expected);
        let key = format!("{start:?}\0{}\0{commit:?}\0{expected:?}", one.case.dir.display());
        if let Some(start) = known.get(&key) {
            starts.push(start.clone());
            continue;
        }
        match runner.start_point(&one.case, cache, commit).await {
            Ok(start) => {
                let start = Arc::new(start);
                known.insert(key, start.clone());
                starts.push(start);
            }
            Err(error) => problems.add(one, runner, error),
        }
    }
    problems.into_result()?;
    Ok(starts)
}

impl PreparedRun {
    /// Returns the trials in start order.
    pub fn trials(&self) -> impl Iterator<Item = &PlannedTrial> {
        self.units.iter().map(|unit| &unit.trial)
    }

    /// Returns the names of the secrets that each agent receives, by agent.
    #[must_use]
    pub fn credentials(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut known: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for unit in &self.units {
            let names = unit.runner.credentials(&unit.case).unwrap_or_default();
            known.entry(unit.trial.agent.clone()).or_default().extend(names);
        }
        known
    }

    /// Creates the run directory, the plan and the journal.
    ///
    /// # Errors
    /// Returns an error when they can't be written.
    pub async fn start(
        self,
        options: PlanOptions,
        jobs: usize,
        rerun_of: Option<String>,
    ) -> Result<ActiveRun, RunError> {
        let now = Timestamp::now();
        let run = RunDir::create(&self.root, &self.prefix, now)
            .map_err(RunError::io("create a run in", &self.root))?;
        let lock = match RunLock::try_acquire(&run.lock()).map_err(RunError::io("lock", run.lock()))? {
            LockAttempt::Acquired(lock) => lock,
            LockAttempt::InUse { pid } => return Err(RunError::Locked { run: run.id(), pid }),
        };
        let plan = Plan {
            version: PLAN_VERSION,
            run: run.id(),
            created_at: now.to_string(),
            youbencha: env!("CARGO_PKG_VERSION").to_owned(),
            name: self.name,
            config: self.config,
            files: self.files,
            options,
            rerun_of,
            design: self.design,
            vary: self.vary,
            trials: self.units.iter().map(|unit| unit.trial.clone()).collect(),
        };
        plan.write(&run.plan())?;
        let cache = self.root.join(CACHE);
        let first = self.units.first().map(|unit| unit.runner.clone());
        let Some(runner) = first else {
            return Err(RunError::NothingSelected { filters: Vec::new(), known: Vec::new() });
        };
        let store = runner.store(&run, &cache).await.map_err(RunError::from_trial)?;
        if let [only] = self.units.as_slice() {
            std::fs::create_dir_all(run.trial(&only.trial.folder))
                .and_then(|()| run.link_run(&only.trial.folder))
                .map_err(RunError::io("write", run.path()))?;
        }
        let mut journal = Journal::create(&run.journal())?;
        let opening_entries = journal.append([RunEvent::RunStarted {
            version: JOURNAL_VERSION,
            run: run.id(),
            youbencha: plan.youbencha.clone(),
            trials: plan.trials.len(),
            jobs,
            plan: Some(super::record::file_digest(&run.plan()).map_err(RunError::io("read", run.plan()))?),
        }])?;
        let state = RunState::of(&opening_entries);
        Ok(ActiveRun {
            run,
            cache,
            plan,
            units: self.units,
            store,
            journal,
            state,
            opening_entries,
            trace: None,
            jobs,
            _lock: lock,
        })
    }
}
