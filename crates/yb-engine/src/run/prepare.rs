//! From a suite to a run that can begin: everything is checked and every commit is known before anything is written.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;

use super::dir::{CACHE, RunDir};
use super::error::{Problem, RunError};
use super::event::{JOURNAL_VERSION, RunEvent};
use super::journal::Journal;
use super::lock::{Locked, RunLock};
use super::open::OpenRun;
use super::plan::{PLAN_VERSION, Plan, PlanOptions, PlannedTrial, Selection, expand, label, select};
use super::state::RunState;
use super::unit::Unit;
use crate::Extensions;
use crate::trial::{KnownStart, Runner, StartPoint, TrialError};
use yb_case::config::Settings;
use yb_case::suite::{Combination, Suite};
use yb_repo::HostPolicy;
use yb_supervise::PauseSwitch;

/// What all runs of this process share.
#[derive(Clone)]
#[non_exhaustive]
pub struct Setup {
    /// The settings, without those of any case.
    pub settings: Settings,
    /// The environment from which each agent's part is chosen.
    pub env: BTreeMap<String, String>,
    /// The program that contains every child; by default the running one.
    pub shim: Option<PathBuf>,
    /// Holds everything still.
    pub pause: PauseSwitch,
    /// The agents and evaluators that cases may name.
    pub extensions: Extensions,
}

/// A run that can begin.
#[non_exhaustive]
pub struct Ready {
    /// Where it will be kept.
    pub root: PathBuf,
    /// The agents that it needs, with the versions that they told.
    pub agents: BTreeMap<String, Option<String>>,
    pub(super) name: String,
    pub(super) prefix: String,
    pub(super) config: PathBuf,
    pub(super) files: Vec<yb_case::suite::SourceFile>,
    pub(super) units: Vec<Unit>,
}

impl Setup {
    /// A setup.
    #[must_use]
    pub fn new(settings: Settings, env: BTreeMap<String, String>, extensions: Extensions) -> Self {
        Self { settings, env, shim: None, pause: PauseSwitch::default(), extensions }
    }

    /// Checks every combination that is selected, and finds where each begins.
    ///
    /// # Errors
    /// Everything that stands in the way, at once.
    pub async fn prepare(
        &self,
        suite: &Suite,
        selection: &Selection,
        options: &PlanOptions,
    ) -> Result<Ready, RunError> {
        let taken = select(suite, selection)?;
        crate::gates::check(&options.gates, &self.root(suite)?)?;
        let repeats = selection.repeats.unwrap_or(suite.repeats);
        let (parts, agents) = self.parts(suite, &taken, options, &BTreeMap::new()).await?;
        let units: Vec<Unit> = expand(&parts.iter().map(Part::for_plan).collect::<Vec<_>>(), repeats)
            .into_iter()
            .filter_map(|trial| Part::of(&parts, &trial).map(|part| part.unit(trial)))
            .collect();
        check_tapes(&units, &parts)?;
        let prefix = match (&suite.name, suite.combinations.first()) {
            (None, Some(only)) => only.case.workspace_name.as_deref().map(yb_model::safe_name),
            _ => None,
        };
        Ok(Ready {
            root: self.root(suite)?,
            agents,
            name: suite.name.clone().unwrap_or_else(|| taken[0].case_name.clone()),
            prefix: prefix.unwrap_or_else(|| "run".to_owned()),
            config: std::path::absolute(&suite.file).map_err(RunError::io("find", &suite.file))?,
            files: suite.files.clone(),
            units,
        })
    }

    /// Checks combinations and finds where each begins; cases of which the commit is known begin there.
    pub(super) async fn parts<'a>(
        &self,
        suite: &Suite,
        taken: &[&'a Combination],
        options: &PlanOptions,
        commits: &BTreeMap<String, String>,
    ) -> Result<(Vec<Part<'a>>, BTreeMap<String, Option<String>>), RunError> {
        let cache = self.root(suite)?.join(CACHE);
        let runners: Vec<Runner> = taken.iter().map(|one| self.runner(one, options)).collect();
        let agents = check(taken, &runners).await?;
        let starts = start_points(taken, &runners, &cache, commits).await?;
        let mut parts = Vec::with_capacity(taken.len());
        for ((combination, runner), start) in taken.iter().zip(runners).zip(starts) {
            let account = runner.account(&combination.case).map_err(RunError::one)?;
            parts.push(Part { combination, runner, start, known: Arc::default(), account });
        }
        Ok((parts, agents))
    }

    /// Where a suite's runs are kept. Only a case that is run by itself has a say in that.
    ///
    /// # Errors
    /// When there is no working directory.
    pub fn root(&self, suite: &Suite) -> Result<PathBuf, RunError> {
        let root = match (&suite.name, suite.combinations.first()) {
            (None, Some(only)) => self.settings.clone().with_case(&only.case).workspace_dir(),
            _ => self.settings.workspace_dir(),
        };
        std::path::absolute(&root).map_err(RunError::io("find", &root))
    }

    pub(super) fn runner(&self, combination: &Combination, options: &PlanOptions) -> Runner {
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
        runner.tape.clone_from(&options.tape);
        runner.shim.clone_from(&self.shim);
        runner.pause = self.pause.clone();
        runner
    }
}

/// A combination with all that its trials share.
pub(super) struct Part<'a> {
    pub(super) combination: &'a Combination,
    runner: Runner,
    start: Arc<StartPoint>,
    known: Arc<KnownStart>,
    account: String,
}

impl<'a> Part<'a> {
    pub(super) fn for_plan(&self) -> (&'a Combination, &str, u64) {
        let timeout = self.runner.settings.timeouts().agent.as_millis();
        (self.combination, self.start.commit(), u64::try_from(timeout).unwrap_or(u64::MAX))
    }

    pub(super) fn digests(&self) -> (String, String) {
        (self.combination.task_digest(self.start.commit()), self.combination.grade_digest())
    }

    /// The one that a trial belongs to.
    pub(super) fn of<'p>(parts: &'p [Self], trial: &PlannedTrial) -> Option<&'p Self> {
        parts.iter().find(|part| {
            part.combination.case_name == trial.case && part.combination.variant == trial.variant
        })
    }

    pub(super) fn unit(&self, trial: PlannedTrial) -> Unit {
        Unit {
            trial,
            case: self.combination.case.clone(),
            runner: self.runner.clone(),
            start: self.start.clone(),
            known: self.known.clone(),
            account: self.account.clone(),
        }
    }
}

/// Collects problems; the same one of several combinations is one.
#[derive(Default)]
struct Problems(Vec<Problem>);

impl Problems {
    fn add(&mut self, of: &Combination, error: TrialError) {
        let same = self.0.iter_mut().find(|known| known.error.to_string() == error.to_string());
        match same {
            Some(known) => known.of.push(label(of)),
            None => self.0.push(Problem { of: vec![label(of)], error }),
        }
    }

    fn into_result(self) -> Result<(), RunError> {
        if self.0.is_empty() { Ok(()) } else { Err(RunError::Refused { problems: self.0 }) }
    }
}

/// Whether every combination can be run here; the agents' versions.
async fn check(
    taken: &[&Combination],
    runners: &[Runner],
) -> Result<BTreeMap<String, Option<String>>, RunError> {
    let mut problems = Problems::default();
    for (one, runner) in taken.iter().zip(runners) {
        if let Err(error) = runner.check(&one.case) {
            problems.add(one, error);
        }
    }
    problems.into_result()?;
    let mut problems = Problems::default();
    let mut agents = BTreeMap::new();
    let mut asked: HashMap<String, Option<String>> = HashMap::new();
    for (one, runner) in taken.iter().zip(runners) {
        let agent = &one.case.agent;
        let key = match runner.account(&one.case) {
            Ok(account) => format!("{account}\0{:?}\0{:?}", agent.version, agent.config.section),
            Err(error) => {
                problems.add(one, error);
                continue;
            }
        };
        let version = match asked.get(&key) {
            Some(version) => version.clone(),
            None => match runner.check_agent(&one.case).await {
                Ok(version) => version,
                Err(error) => {
                    problems.add(one, error);
                    continue;
                }
            },
        };
        if let Some(wanted) = &one.agent_version
            && version.as_ref() != Some(wanted)
        {
            problems.add(one, TrialError::wrong_version(&agent.kind, version.as_deref(), wanted));
        }
        asked.insert(key, version.clone());
        let told = agents.entry(agent.kind.clone()).or_insert_with(|| version.clone());
        if let (Some(told), Some(version)) = (told, version)
            && told.split(", ").all(|known| known != version)
        {
            told.push_str(&format!(", {version}"));
        }
    }
    problems.into_result()?;
    Ok(agents)
}

/// Whether every trial has the tape that it needs, and none that would be written over.
fn check_tapes(units: &[Unit], parts: &[Part<'_>]) -> Result<(), RunError> {
    let mut problems = Problems::default();
    for unit in units {
        if let Err(error) = unit.runner.check_tape(&unit.case, &unit.trial.folder)
            && let Some(part) = Part::of(parts, &unit.trial)
        {
            problems.add(part.combination, error);
        }
    }
    problems.into_result()
}

/// Where each combination begins; cases that begin at the same place share it.
async fn start_points(
    taken: &[&Combination],
    runners: &[Runner],
    cache: &Path,
    commits: &BTreeMap<String, String>,
) -> Result<Vec<Arc<StartPoint>>, RunError> {
    let mut problems = Problems::default();
    let mut known: HashMap<String, Arc<StartPoint>> = HashMap::new();
    let mut starts = Vec::with_capacity(taken.len());
    for (one, runner) in taken.iter().zip(runners) {
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
            Err(error) => problems.add(one, error),
        }
    }
    problems.into_result()?;
    Ok(starts)
}

impl Ready {
    /// The trials, in the order in which they begin.
    pub fn trials(&self) -> impl Iterator<Item = &PlannedTrial> {
        self.units.iter().map(|unit| &unit.trial)
    }

    /// The names of the secrets that each agent is given, by agent.
    #[must_use]
    pub fn credentials(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut known: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for unit in &self.units {
            let names = unit.runner.credentials(&unit.case).unwrap_or_default();
            known.entry(unit.trial.agent.clone()).or_default().extend(names);
        }
        known
    }

    /// Makes the run's directory, its plan and its journal.
    ///
    /// # Errors
    /// When they can't be made.
    pub async fn begin(
        self,
        options: PlanOptions,
        jobs: usize,
        rerun_of: Option<String>,
    ) -> Result<OpenRun, RunError> {
        let now = Timestamp::now();
        let run = RunDir::create(&self.root, &self.prefix, now)
            .map_err(RunError::io("make a run in", &self.root))?;
        let lock = match RunLock::take(&run.lock()).map_err(RunError::io("lock", run.lock()))? {
            Locked::Ours(lock) => lock,
            Locked::Theirs { pid } => return Err(RunError::Locked { run: run.id(), pid }),
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
            trials: self.units.iter().map(|unit| unit.trial.clone()).collect(),
        };
        plan.write(&run.plan())?;
        let cache = self.root.join(CACHE);
        let first = self.units.first().map(|unit| unit.runner.clone());
        let Some(runner) = first else {
            return Err(RunError::NothingSelected { filters: Vec::new(), known: Vec::new() });
        };
        let store = runner.store(&run, &cache).await.map_err(RunError::one)?;
        if let [only] = self.units.as_slice() {
            std::fs::create_dir_all(run.trial(&only.trial.folder))
                .and_then(|()| run.link_run(&only.trial.folder))
                .map_err(RunError::io("write", run.path()))?;
        }
        let mut journal = Journal::create(&run.journal())?;
        let begun = journal.append([RunEvent::RunStarted {
            version: JOURNAL_VERSION,
            run: run.id(),
            youbencha: plan.youbencha.clone(),
            trials: plan.trials.len(),
            jobs,
        }])?;
        let state = RunState::of(&begun);
        Ok(OpenRun {
            run,
            cache,
            plan,
            units: self.units,
            store,
            journal,
            state,
            begun,
            trace: None,
            jobs,
            _lock: lock,
        })
    }
}
