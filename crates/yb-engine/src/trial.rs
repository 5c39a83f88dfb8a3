//! One trial: resolve, prepare, act, capture, grade, record.

mod agent;
mod error;
mod eval;
mod grade;
mod hooks;
mod isolation;
mod place;
mod tape;
mod webhook;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use jiff::Timestamp;
use tokio::sync::OnceCell;
use yb_supervise::{CancellationToken, PauseSwitch, disk_usage};

pub use error::TrialError;
pub use eval::Evaluated;
pub(crate) use grade::expected_tree;
pub use hooks::HookResult;
pub(crate) use place::PRIVATE;
pub use yb_agents::agent_host;

use crate::Extensions;
use crate::run::RunDir;
use place::Place;
use yb_agents::tape::{TapeOptions, TapeUse};
use yb_agents::trace::{self, AgentBegins, End, Trace};
use yb_agents::{
    Adapter, AdapterError, AgentConfig, AvailabilityStatus, ExecutionContext, ExecutionResult, Host, Intent,
    Isolation, Observer, without_secrets,
};
use yb_case::config::Settings;
use yb_case::{Case, Start};
use yb_model::log::{FILE_NAME as LOG_FILE, YouBenchaLog};
use yb_model::outcome::Outcome;
use yb_model::results::{self, AgentInfo, Artifacts, Results, RunInfo, Summary, TestCase};
use yb_repo::{
    Cache, CaptureWarning, Git, History, HostPolicy, Identity, ObjectStore, PathGlobs, PrunedRepo, Refresh,
    RepoError, ResolvedCommit, Revision, Source, StartTree, WorkspaceOptions, blocking,
};

const RESULTS_FILE: &str = "results.json";

/// What a trial needs beside its case.
#[derive(Clone)]
#[non_exhaustive]
pub struct Runner {
    /// The settings that hold.
    pub settings: Settings,
    /// The environment from which the agent's part is chosen.
    pub env: BTreeMap<String, String>,
    /// Which hosts may be fetched from.
    pub hosts: HostPolicy,
    /// The program that contains every child; by default the running one.
    pub shim: Option<PathBuf>,
    /// Ends the trial.
    pub stop: Stop,
    /// Holds everything still.
    pub pause: PauseSwitch,
    /// The isolation, where it is another than the case's.
    pub isolation: Option<yb_case::Isolation>,
    /// The network, where it is another than the case's.
    pub network: Option<yb_case::NetworkMode>,
    /// What is done with tapes, beside what the case says.
    pub tape: TapeOptions,
    /// Looks on while the agent works.
    pub observer: Option<Arc<dyn Observer>>,
    /// The trial's node in a trace, where there is one.
    pub trace: Option<Arc<dyn Trace>>,
    /// The agents and evaluators that cases may name.
    pub extensions: Extensions,
}

/// Ends trials, and knows what that makes of them.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    token: CancellationToken,
    outcome: Arc<OnceLock<Outcome>>,
}

impl Stop {
    /// Ends the trial, which came to this unless it ended by itself before.
    pub fn with(&self, outcome: Outcome) {
        let _ = self.outcome.set(outcome);
        self.token.cancel();
    }

    /// What it came to, if it was stopped.
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        self.outcome.get().copied()
    }

    /// Cancelled when the trial is to end.
    #[must_use]
    pub fn token(&self) -> &CancellationToken {
        &self.token
    }
}

impl Runner {
    /// A runner with these settings and this environment.
    #[must_use]
    pub fn new(settings: Settings, env: BTreeMap<String, String>, extensions: Extensions) -> Self {
        Self {
            settings,
            env,
            hosts: HostPolicy::default(),
            shim: None,
            stop: Stop::default(),
            pause: PauseSwitch::default(),
            isolation: None,
            network: None,
            tape: TapeOptions::default(),
            observer: None,
            trace: None,
            extensions,
        }
    }

    /// The adapter of an agent.
    pub(crate) fn adapter(&self, agent: &str) -> Result<&'static dyn Adapter, TrialError> {
        self.extensions.adapters.get(agent).ok_or_else(|| TrialError::unsupported_agent(agent))
    }
}

/// What an attempt's children are kept from.
pub(super) struct View {
    pub(super) isolation: Isolation,
    pub(super) hidden: Vec<PathBuf>,
    pub(super) network: yb_case::Network,
    pub(super) limits: yb_case::Limits,
}

/// What a trial tells while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// The workspace is there.
    Prepared {
        /// Its directory.
        workspace: PathBuf,
    },
    /// A hook ran before the agent.
    Hook {
        /// Its command.
        command: String,
    },
    /// The agent begins.
    Acting {
        /// Which agent.
        agent: &'static str,
    },
    /// The agent is done, and what it left is recorded.
    Captured,
}

/// Where a case starts: found once, for all its trials.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StartPoint {
    git: Git,
    /// What the case's file was when the run began, in short.
    config_hash: String,
    cut: PrunedRepo,
    source: String,
    branch: String,
    expected: Option<ResolvedCommit>,
}

impl StartPoint {
    /// The commit.
    #[must_use]
    pub fn commit(&self) -> &str {
        self.cut.commit()
    }

    /// Where it came from, without credentials.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }
}

/// The tree that trials of one combination begin with, once the first of them has recorded it. A case with hooks before
/// the agent has none: a hook may do something else each time.
#[derive(Debug, Default)]
pub struct KnownStart(OnceCell<Known>);

#[derive(Debug)]
struct Known {
    start: Arc<StartTree>,
    /// What its workspace takes on disk.
    disk: u64,
}

/// Which attempt of which trial, and where it belongs.
#[derive(Debug, Clone, Copy)]
pub struct Attempt<'a> {
    /// The run.
    pub run: &'a RunDir,
    /// The run's store of trees.
    pub store: &'a ObjectStore,
    /// Where the case starts.
    pub start: &'a StartPoint,
    /// The tree that others of its combination began with.
    pub known: &'a KnownStart,
    /// The trial's folder.
    pub trial: &'a str,
    /// Counts from 1.
    pub number: u32,
}

/// A finished trial.
#[derive(Debug)]
#[non_exhaustive]
pub struct Finished {
    /// What it came to.
    pub outcome: Outcome,
    /// The agent's log.
    pub log: YouBenchaLog,
    /// What `results.json` says.
    pub results: Results,
    /// The trees before and after.
    pub trees: (String, String),
    /// The artifacts by name, with their digests; all of them are on disk.
    pub artifacts: BTreeMap<String, String>,
    /// What went otherwise than asked.
    pub warnings: Vec<String>,
    /// The tape that it was recorded on or replayed from.
    pub tape: Option<TapeUse>,
    /// What it cost, where a tape knows better than the agent.
    pub spent: Option<f64>,
}

impl Runner {
    /// Finds out whether a case can be run at all, without starting or writing anything.
    ///
    /// # Errors
    /// When it can't.
    pub fn check(&self, case: &Case) -> Result<(), TrialError> {
        let adapter = self.adapter(&case.agent.kind)?;
        refuse_unsupported(case)?;
        webhook::check(case, &self.env)?;
        self.check_variables(case)?;
        PathGlobs::new(&case.capture_include)?;
        let config = agent::config(case, self.settings.model(), &self.env)?;
        let host = self.host(case)?;
        let roots = std::slice::from_ref(&case.dir);
        let level = self.level(case)?;
        adapter.validate(&Intent::new(&config, &host, level.used, roots).with_network(&level.network))?;
        self.check_evaluators(case)
    }

    /// Finds out whether the case's agent is installed and may ask its model. Returns its version, if it said.
    ///
    /// # Errors
    /// When it is not, or the case can't be run at all.
    pub async fn check_agent(&self, case: &Case) -> Result<Option<String>, TrialError> {
        let adapter = self.adapter(&case.agent.kind)?;
        let config = agent::config(case, self.settings.model(), &self.env)?;
        let host = self.host(case)?;
        let availability = adapter.check_availability(&config, &host).await;
        if availability.status == AvailabilityStatus::Ready {
            self.check_evaluator_availability(case).await?;
            Ok(availability.version)
        } else {
            Err(TrialError::Unavailable { message: availability.message, hints: availability.hints })
        }
    }

    /// What tells accounts apart, without telling anything about them.
    ///
    /// # Errors
    /// When a variable that the case names is not set.
    pub fn account(&self, case: &Case) -> Result<String, TrialError> {
        let mut hasher = blake3::Hasher::new();
        for (name, value) in agent::secrets(case, self.agent_spec(case), &self.env)? {
            hasher.update(name.as_bytes()).update(b"=").update(&value).update(b"\0");
        }
        Ok(format!("{}:{}", case.agent.kind, hasher.finalize().to_hex()))
    }

    /// The names of the secrets that the case's agent is given.
    ///
    /// # Errors
    /// When a variable that the case names is not set.
    pub fn credentials(&self, case: &Case) -> Result<Vec<String>, TrialError> {
        Ok(self.secrets(case)?.into_iter().map(|(name, _)| name).collect())
    }

    /// Finds the commit that a case starts with, or takes the one that is given, and readies it for workspaces.
    ///
    /// # Errors
    /// When there is no such commit, or it can't be fetched.
    pub async fn start_point(
        &self,
        case: &Case,
        cache: &Path,
        commit: Option<&str>,
    ) -> Result<StartPoint, TrialError> {
        let git = self.git(cache)?;
        let (source, revision, branch) = match &case.start {
            Start::Repo { repo, branch, commit: wanted } => {
                let revision = match (commit.or(wanted.as_deref()), branch) {
                    (Some(commit), _) => Revision::Commit(commit.to_owned()),
                    (None, Some(branch)) => Revision::Branch(branch.clone()),
                    (None, None) => Revision::Default,
                };
                (Source::parse(repo, &case.dir).map_err(RepoError::from)?, revision, branch.clone())
            }
            Start::Directory(path) => (Source::Directory(path.clone()), Revision::Default, None),
        };
        let cache = Cache::new(cache, &git)?.hosts(self.hosts);
        // Asking git for its version takes as long as a small fetch: both at once, and the version's word first.
        let (version, resolved) =
            tokio::join!(git.check(), cache.resolve(&source, &revision, Refresh::Moving));
        version.map_err(RepoError::from)?;
        let resolved = resolved?;
        let cut = cache.pruned_repo(&resolved, History::Full).await?;
        let branch = branch.unwrap_or_else(|| "main".to_owned());
        let expected = grade::resolve_expected(case, &cache, &source).await?;
        let file = std::fs::read(&case.file).unwrap_or_default();
        let config_hash = blake3::hash(&file).to_hex().chars().take(16).collect();
        Ok(StartPoint { git, config_hash, cut, source: source.to_string(), branch, expected })
    }

    /// Opens the store of a run. What an agent did until it was stopped is recorded too, so the recording itself is
    /// not cancelled.
    ///
    /// # Errors
    /// When it can't be made.
    pub async fn store(&self, run: &RunDir, cache: &Path) -> Result<ObjectStore, TrialError> {
        let recorder = self.git(cache)?.cancel_on(CancellationToken::new());
        Ok(ObjectStore::open(run.objects(), &recorder).await?)
    }

    /// Runs a case once: prepare, act, capture, grade, record.
    ///
    /// # Errors
    /// When there is nothing to report: the case can't be run here, or the machine failed before the agent began.
    pub async fn attempt(
        &self,
        case: &Case,
        cache: &Path,
        attempt: &Attempt<'_>,
        tell: &mut (dyn FnMut(Step) + Send),
    ) -> Result<Finished, TrialError> {
        let (began, started_at) = (Instant::now(), Timestamp::now());
        let adapter = self.adapter(&case.agent.kind)?;
        let include = PathGlobs::new(&case.capture_include)?;
        let config = agent::config(case, self.settings.model(), &self.env)?;
        let mut host = self.host(case)?;
        let secrets = self.secrets(case)?;
        let (start_point, store) = (attempt.start, attempt.store);
        let level = self.level(case)?;
        let hidden = self.hidden(case, attempt);
        let view = View { isolation: level.used, hidden, network: level.network, limits: level.limits };
        let place = Place::create(attempt.run, attempt.trial, attempt.number)?;

        let identity = Identity { name: "agent".to_owned(), email: "agent@localhost".to_owned() };
        let options = WorkspaceOptions { branch: start_point.branch.clone(), identity: Some(identity) };
        let git = start_point.git.clone().cancel_on(self.stop.token.clone());
        let workspace = start_point.cut.workspace(&git, &place.workspace, &options).await?;
        tell(Step::Prepared { workspace: place.workspace.clone() });
        let mut warnings: Vec<String> = level.warnings;
        warnings.extend(workspace.unsupported().iter().map(ToString::to_string));

        let mut told = Vec::new();
        for hook in &case.pre_execution {
            tell(Step::Hook { command: hook.command.clone() });
            told.push(hooks::before(hook, case, &place, self, &start_point.branch, &view).await?);
            place.write(hooks::HOOKS_FILE, &told)?;
            if let Some(failed) = told.iter().find(|hook| !hook.succeeded) {
                return Err(failed.error());
            }
        }
        let (start, disk_before) = if case.pre_execution.is_empty() {
            let record = async || {
                let start = Arc::new(store.capture_start(&place.trial, &workspace, &include).await?);
                let folder = place.workspace.clone();
                let disk = blocking(move || Ok(disk_usage(&folder))).await?;
                Ok::<_, RepoError>(Known { start, disk })
            };
            let Known { start, disk } = attempt.known.0.get_or_try_init(record).await?;
            store.reuse_start(&place.trial, start)?;
            (start.clone(), Some(*disk))
        } else {
            (Arc::new(store.capture_start(&place.trial, &workspace, &include).await?), None)
        };
        warnings.extend(start.warnings.iter().map(CaptureWarning::to_string));

        // What can't be graded is not worth an agent's time.
        self.prepare_grading(case, cache, attempt, &start.tree).await?;

        tell(Step::Acting { agent: adapter.spec().name });
        let begins = AgentBegins {
            agent: adapter.spec().name,
            model: config.model.as_deref(),
            prompt: config.prompt.as_deref(),
            secrets: &secrets,
        };
        let trace = trace::begin_agent(self.trace.as_ref(), &begins, &mut host);
        let reel = self.reel(case, attempt, &place, &mut host)?;
        let mut context = self.context(case, &place, config, host, view);
        context.trace.clone_from(&trace);
        context.disk_before = disk_before;
        let ended = tokio::select! {
            ended = adapter.execute(&context) => ended,
            // What its tape has nothing more for, and what does not end by that, is ended.
            never = async {
                match &reel {
                    Some(reel) => reel.is_lost().await,
                    None => std::future::pending().await,
                }
                context.cancellation.cancel();
                std::future::pending().await
            } => never,
        };
        let mut executed = match ended {
            Ok(result) => result,
            Err(error @ AdapterError::InvalidConfig { .. }) => return Err(error.into()),
            Err(error) => ExecutionResult::not_started(adapter.spec(), &error),
        };
        if executed.outcome == Some(Outcome::Cancelled) {
            executed.outcome = self.stop.outcome().or(executed.outcome);
        }
        let played = match reel {
            Some(reel) => Some(reel.finish(&mut executed).await),
            None => None,
        };
        let mut log = adapter.normalize_log(&executed, &context);
        if let Some(played) = &played {
            played.observe(&mut log.usage);
        }
        if let Some(trace) = &trace {
            trace.end(End::Agent { log: &log, outcome: executed.outcome });
        }
        let end = store.capture_end(&place.trial, workspace.path(), &start).await?;
        warnings.extend(end.warnings.iter().map(CaptureWarning::to_string));
        tell(Step::Captured);

        log.write(&place.artifacts)?;
        let trees = (start.tree.as_str(), end.tree.as_str());
        let (evaluators, graded) = self.grade(case, cache, attempt, trees, &log, &place).await?;
        let outcome = executed.outcome.unwrap_or(graded);
        let results = Results {
            version: results::VERSION,
            test_case: start_point.test_case(case),
            execution: RunInfo {
                started_at: started_at.to_string(),
                completed_at: Timestamp::now().to_string(),
                duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
                youbencha_version: env!("CARGO_PKG_VERSION"),
                environment: environment(attempt.run.path()),
                isolation: context.isolation,
                network: context.network.mode,
            },
            agent: AgentInfo {
                kind: adapter.spec().name.to_owned(),
                youbencha_log_path: LOG_FILE.to_owned(),
                status: executed.status,
                exit_code: executed.exit_code,
            },
            summary: Summary::of(&evaluators),
            artifacts: Artifacts {
                agent_log: LOG_FILE.to_owned(),
                reports: Vec::new(),
                evaluator_artifacts: evaluators
                    .iter()
                    .flat_map(|one| one.artifacts.iter().map(|a| a.path.clone()))
                    .collect(),
            },
            evaluators,
            outcome,
        };
        place.write(RESULTS_FILE, &results)?;
        warnings.extend(executed.warnings.iter().cloned());
        for hook in &case.post_evaluation {
            let result = hooks::after(hook, case, &place, self, &results).await?;
            if !result.succeeded {
                warnings.push(format!("post-evaluation failed: `{}`: {}", result.what, result.message));
            }
            told.push(result);
            place.write(hooks::HOOKS_FILE, &told)?;
        }
        for warning in &mut warnings {
            *warning = without_secrets(warning, secrets.iter().cloned());
        }
        place.finish(self.settings.keep_workspace())?;
        let artifacts = place.seal()?;
        let (tape, spent) = match played {
            Some(played) => {
                let (tape, spent) = played.told(log.usage.estimated_cost_usd);
                (Some(tape), spent)
            }
            None => (None, None),
        };
        let trees = (start.tree.clone(), end.tree);
        Ok(Finished { outcome, log, results, trees, artifacts, warnings, tape, spent })
    }

    fn git(&self, cache: &Path) -> Result<Git, TrialError> {
        let git = Git::new(cache.join("git-home"))?
            .deadline(self.settings.timeouts().clone)
            .cancel_on(self.stop.token.clone())
            .pause_on(self.pause.clone());
        Ok(match &self.shim {
            Some(shim) => git.shim(shim),
            None => git,
        })
    }

    fn context(
        &self,
        case: &Case,
        place: &Place,
        config: AgentConfig,
        host: Host,
        view: View,
    ) -> ExecutionContext {
        let mut context =
            ExecutionContext::new(&place.workspace, &place.artifacts, &place.private, config, host);
        context.search_roots = vec![case.dir.clone()];
        context.timeout = self.settings.timeouts().agent;
        context.isolation = view.isolation;
        context.hidden = view.hidden;
        context.network = view.network;
        context.limits = view.limits;
        context.cancellation = self.stop.token.child_token();
        context.pause = self.pause.clone();
        context.observer.clone_from(&self.observer);
        context
    }

    /// What must not appear in anything that is kept.
    fn secrets(&self, case: &Case) -> Result<Vec<(String, Vec<u8>)>, TrialError> {
        agent::secrets(case, self.agent_spec(case), &self.env)
    }
}

impl StartPoint {
    fn test_case(&self, case: &Case) -> TestCase {
        TestCase {
            name: case.name.clone(),
            description: case.description.clone(),
            config_file: case.file.display().to_string(),
            config_hash: self.config_hash.clone(),
            repo: self.source.clone(),
            branch: self.branch.clone(),
            commit: self.commit().to_owned(),
            expected_branch: match &case.expected {
                Some(yb_case::Expected::Branch(name)) => Some(name.clone()),
                _ => None,
            },
        }
    }
}

fn environment(folder: &Path) -> BTreeMap<&'static str, String> {
    let os = format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH);
    [("os", os), ("node_version", "none".to_owned()), ("workspace_dir", folder.display().to_string())].into()
}

/// What a case asks for and this engine can't do yet is said before anything is started, never skipped in silence.
fn refuse_unsupported(case: &Case) -> Result<(), TrialError> {
    let missing: Vec<String> = case
        .evaluators
        .iter()
        .filter(|evaluator| !yb_evaluate::is_supported(evaluator))
        .map(|evaluator| format!("the evaluator `{}`", evaluator.name))
        .collect();
    if missing.is_empty() { Ok(()) } else { Err(TrialError::Unsupported { what: missing }) }
}
