//! Trials: checks whether a case can run, resolves its start, and runs attempts at it.

mod add_ons;
mod agent;
mod attempt;
mod attempt_dirs;
mod attribution;
mod check;
mod error;
mod eval;
mod grade;
mod hooks;
mod image_root;
mod isolation;
mod layers;
mod model_endpoint;
mod overlay;
mod steps;
mod webhook;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::OnceCell;
use yb_supervise::{CancellationToken, PauseSwitch};

pub use attempt_dirs::WORKSPACE_LAYER;
pub(crate) use attempt_dirs::{AttemptDirs, PRIVATE};
pub(crate) use check::{CheckResult, Reference, gradable};
pub use error::TrialError;
pub use eval::DirectoryEvaluation;
pub(crate) use grade::expected_tree;
pub use hooks::HookResult;
pub use steps::{RecordedStep, STEPS_FILE};
pub use yb_agents::agent_host;

use image_root::RootSpec;

use crate::Extensions;
use crate::run::RunDir;
use yb_agents::tape::{TapeOptions, TapeUse};
use yb_agents::trace::Trace;
use yb_agents::{Adapter, AvailabilityStatus, Intent, Isolation, Observer, SessionFacts, StartRecorder};
use yb_case::config::Settings;
use yb_case::{Case, Start};
use yb_model::log::YouBenchaLog;
use yb_model::outcome::Outcome;
use yb_model::results::Results;
use yb_repo::{
    Cache, Git, History, HostPolicy, ObjectStore, PathGlobs, PrunedRepo, Refresh, RepoError, ResolvedCommit,
    Revision, SharedCheckout, Source, StartTree,
};

pub(crate) const RESULTS_FILE: &str = "results.json";

/// Runs trials: settings, environment and overrides, without a case.
#[derive(Clone)]
#[non_exhaustive]
pub struct Runner {
    /// The effective settings.
    pub settings: Settings,
    /// The environment from which the agent's variables are selected.
    pub env: BTreeMap<String, String>,
    /// The hosts that may be fetched from.
    pub hosts: HostPolicy,
    /// The shim executable that supervises child processes; defaults to the current executable.
    pub shim: Option<PathBuf>,
    /// Stops the trial.
    pub stop: StopHandle,
    /// Suspends all child processes.
    pub pause: PauseSwitch,
    /// Overrides the isolation of the case.
    pub isolation: Option<yb_case::Isolation>,
    /// Overrides the network access of the case.
    pub network: Option<yb_case::NetworkMode>,
    /// Records the workspace after each step, also of cases that do not request it.
    pub steps: bool,
    /// Tape options that override those of the case.
    pub tape: TapeOptions,
    /// Receives live data of the running agent.
    pub observer: Option<Arc<dyn Observer>>,
    /// Persists the record of each process of the trial before its program runs.
    pub start_recorder: Option<StartRecorder>,
    /// The trace node of the trial, if it is traced.
    pub trace: Option<Arc<dyn Trace>>,
    /// The agents and evaluators that cases may name.
    pub extensions: Extensions,
}

/// Why a trial is stopped. Either way it is `cancelled`, and still to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopCause {
    /// The user interrupted the run: grading stops too.
    Interrupted,
    /// The run reached its cost limit: agents stop, but a result that is paid for is graded.
    CostLimit,
}

/// Stops a trial.
#[derive(Debug, Clone, Default)]
pub struct StopHandle {
    token: CancellationToken,
    interrupt: CancellationToken,
}

impl StopHandle {
    /// Stops the trial. Has no effect on a trial that has already ended.
    pub fn stop(&self, cause: StopCause) {
        self.token.cancel();
        if cause == StopCause::Interrupted {
            self.interrupt.cancel();
        }
    }

    /// Returns whether the trial was stopped.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Returns the token that is cancelled when the user interrupts the trial.
    pub(crate) fn interrupt(&self) -> &CancellationToken {
        &self.interrupt
    }

    /// Returns the token that is cancelled when the trial is stopped.
    #[must_use]
    pub fn token(&self) -> &CancellationToken {
        &self.token
    }
}

impl Runner {
    /// Returns a runner with these settings and this environment.
    #[must_use]
    pub fn new(settings: Settings, env: BTreeMap<String, String>, extensions: Extensions) -> Self {
        Self {
            settings,
            env,
            hosts: HostPolicy::default(),
            shim: None,
            stop: StopHandle::default(),
            pause: PauseSwitch::default(),
            isolation: None,
            network: None,
            steps: false,
            tape: TapeOptions::default(),
            observer: None,
            start_recorder: None,
            trace: None,
            extensions,
        }
    }

    /// The adapter of an agent.
    pub(crate) fn adapter(&self, agent: &str) -> Result<&'static dyn Adapter, TrialError> {
        self.extensions.adapters.get(agent).ok_or_else(|| TrialError::unsupported_agent(agent))
    }
}

/// The sandbox of the processes of an attempt.
pub(super) struct SandboxSpec {
    pub(super) isolation: Isolation,
    pub(super) hidden: Vec<PathBuf>,
    pub(super) network: yb_case::Network,
    pub(super) limits: yb_case::TrialLimits,
    /// The overlay to mount at the workspace, if it is one.
    pub(super) overlay: Option<yb_supervise::OverlayMount>,
    /// The root in which they run, if it is not the host's.
    pub(super) root: Option<yb_agents::OtherRoot>,
}

impl SandboxSpec {
    /// Returns the workspace as processes see it.
    pub(super) fn workspace<'a>(&'a self, outside: &'a Path) -> &'a Path {
        self.root.as_ref().and_then(|root| root.workdir.as_deref()).unwrap_or(outside)
    }
}

/// A step that a trial has reached.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TrialStep {
    /// The workspace was created.
    Prepared {
        /// The directory of the workspace.
        workspace: PathBuf,
    },
    /// A hook before the agent starts.
    Hook {
        /// The command of the hook.
        command: String,
    },
    /// The start tree was recorded, and its grading is prepared.
    StartRecorded {
        /// The id of the tree.
        tree: String,
    },
    /// The agent starts.
    Acting {
        /// The name of the agent.
        agent: &'static str,
    },
    /// The agent ended and its changes were captured.
    Captured,
}

/// The resolved start of a case, shared by all its trials.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StartPoint {
    git: Git,
    /// Digest of the case file when the run started.
    config_hash: String,
    cut: PrunedRepo,
    /// The root of its processes, if the case has one.
    pub(crate) root: Option<RootSpec>,
    source: String,
    branch: String,
    pub(crate) expected: Option<ResolvedCommit>,
    /// What the start lacks.
    pub(crate) warnings: Vec<String>,
}

impl StartPoint {
    /// Returns the expected commit, or nothing.
    pub(crate) fn expected_commit(&self) -> &str {
        self.expected.as_ref().map_or("", |resolved| &resolved.commit)
    }

    /// Returns what identifies the root of the case, if it has one.
    pub(crate) fn root_key(&self) -> Option<String> {
        self.root.as_ref().map(RootSpec::key)
    }

    /// Returns the start commit.
    #[must_use]
    pub fn commit(&self) -> &str {
        self.cut.commit()
    }

    /// Returns the source of the commit, without credentials.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }
}

/// The start tree that the trials of one combination share, once the first of them has recorded it. Not used for cases
/// with hooks before the agent, which need not be deterministic.
#[derive(Debug, Default)]
pub struct SharedStartTree {
    recorded: OnceCell<RecordedStart>,
    /// The checkout that workspaces are overlays or copies of, if they are.
    checkout: OnceCell<Option<SharedCheckout>>,
    /// The directory with the prepared files of the start, for cases that prepare the workspace of the agent.
    prepared: OnceCell<PathBuf>,
}

impl SharedStartTree {
    /// Returns the checkout that workspaces are overlays or copies of, if they are.
    pub(crate) fn checkout(&self) -> Option<&SharedCheckout> {
        self.checkout.get().and_then(Option::as_ref)
    }
}

#[derive(Debug)]
struct RecordedStart {
    start: Arc<StartTree>,
    /// Disk usage of the workspace.
    disk: u64,
}

/// The context of one attempt at a trial.
#[derive(Debug, Clone, Copy)]
pub struct AttemptContext<'a> {
    /// The run directory.
    pub run: &'a RunDir,
    /// The object store of the run.
    pub store: &'a ObjectStore,
    /// The start of the case.
    pub start: &'a StartPoint,
    /// The start tree shared by the combination.
    pub known: &'a SharedStartTree,
    /// The trial's folder.
    pub trial: &'a str,
    /// The number of the attempt, from 1.
    pub number: u32,
}

/// A finished attempt.
#[derive(Debug)]
#[non_exhaustive]
pub struct FinishedAttempt {
    /// The outcome.
    pub outcome: Outcome,
    /// The agent's log.
    pub log: YouBenchaLog,
    /// The contents of `results.json`.
    pub results: Results,
    /// The start tree and the end tree.
    pub trees: (String, String),
    /// Digests of the artifacts by name. All of them are synced to disk.
    pub artifacts: BTreeMap<String, String>,
    /// Warnings.
    pub warnings: Vec<String>,
    /// The tape that was recorded or replayed.
    pub tape: Option<TapeUse>,
    /// The actual cost, where the tape determines it instead of the agent.
    pub spent: Option<f64>,
    /// The mistake in the configuration because of which the agent was not started.
    pub config_error: Option<TrialError>,
    /// The session as the agent reported it before its first answer.
    pub session: Option<SessionFacts>,
}

impl Runner {
    /// Checks whether a case can run, without starting a process or writing a file.
    ///
    /// # Errors
    /// Returns the reason why the case can't run.
    pub fn check(&self, case: &Case) -> Result<(), TrialError> {
        let adapter = self.adapter(&case.agent.kind)?;
        refuse_unsupported(case)?;
        webhook::check(case, &self.env)?;
        self.check_variables(case)?;
        self.check_programs(case)?;
        PathGlobs::new(&case.capture_include)?;
        let config = agent::config(case, self.settings.model(), &self.env, Path::new("/add-ons"))?;
        let host = self.host(case)?;
        let roots = std::slice::from_ref(&case.dir);
        let level = self.level(case)?;
        adapter.validate(&Intent::new(&config, &host, level.used, roots).with_network(&level.network))?;
        self.check_evaluators(case)
    }

    /// Checks whether the agent of a case is installed and authenticated. Returns its version, if known.
    ///
    /// # Errors
    /// Returns an error when the agent is not available or the case can't run.
    pub async fn check_agent(&self, case: &Case) -> Result<Option<String>, TrialError> {
        let adapter = self.adapter(&case.agent.kind)?;
        let config = agent::config(case, self.settings.model(), &self.env, Path::new("/add-ons"))?;
        let host = self.host(case)?;
        let availability = adapter.check_availability(&config, &host).await;
        if availability.status == AvailabilityStatus::Ready {
            self.check_evaluator_availability(case).await?;
            Ok(availability.version)
        } else {
            Err(TrialError::unavailable(availability))
        }
    }

    /// Returns a key that identifies the account of the agent without revealing its credentials.
    ///
    /// # Errors
    /// Returns an error when a variable that the case names is not set.
    pub fn account(&self, case: &Case) -> Result<String, TrialError> {
        let mut hasher = blake3::Hasher::new();
        for (name, value) in agent::secrets(case, self.agent_spec(case), &self.env)? {
            hasher.update(name.as_bytes()).update(b"=").update(&value).update(b"\0");
        }
        Ok(format!("{}:{}", case.agent.kind, hasher.finalize().to_hex()))
    }

    /// Returns the names of the secrets that the agent of a case receives.
    ///
    /// # Errors
    /// Returns an error when a variable that the case names is not set.
    pub fn credentials(&self, case: &Case) -> Result<Vec<String>, TrialError> {
        Ok(self.secrets(case)?.into_iter().map(|(name, _)| name).collect())
    }

    /// Resolves the start commit of a case, or uses `commit`, and prepares it for creating workspaces.
    ///
    /// # Errors
    /// Returns an error when the commit does not exist or can't be fetched.
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
            Start::Image => {
                let empty = cache.join("empty");
                std::fs::create_dir_all(&empty).map_err(TrialError::io(&empty))?;
                (Source::Directory(empty), Revision::Default, None)
            }
        };
        let root = self.root_spec(case, cache).await?;
        let cache = Cache::new(cache, &git)?.hosts(self.hosts);
        // Checking git's version takes as long as a small fetch, so both run concurrently. A version error takes precedence.
        let (version, resolved) =
            tokio::join!(git.check(), cache.resolve(&source, &revision, Refresh::Moving));
        version.map_err(RepoError::from)?;
        let resolved = resolved?;
        let mut warnings = Vec::new();
        if revision == Revision::Default {
            // A repository that can't be compared is not worse than one that was not.
            let changed = cache.uncommitted(&source, &resolved).await.unwrap_or_default();
            warnings.extend(uncommitted(&source, &changed));
        }
        let cut = cache.pruned_repo(&resolved, History::Full).await?;
        let branch = branch.unwrap_or_else(|| "main".to_owned());
        let expected = grade::resolve_expected(case, &cache, &source).await?;
        let file = std::fs::read(&case.file).unwrap_or_default();
        let config_hash = blake3::hash(&file).to_hex().chars().take(16).collect();
        let source = match &case.environment {
            Some(environment) if case.start == Start::Image => environment.root.to_string(),
            _ => source.to_string(),
        };
        Ok(StartPoint { git, config_hash, cut, root, source, branch, expected, warnings })
    }

    /// Opens the object store of a run. Capturing is not cancelled with the trial, so that the changes of a stopped agent
    /// are recorded too.
    ///
    /// # Errors
    /// Returns an error when the store can't be opened.
    pub async fn store(&self, run: &RunDir, cache: &Path) -> Result<ObjectStore, TrialError> {
        let recorder = self.git(cache)?.cancel_on(CancellationToken::new());
        Ok(ObjectStore::open(run.objects(), &recorder).await?)
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

    /// Returns the secrets that must not appear in any artifact.
    fn secrets(&self, case: &Case) -> Result<Vec<(String, Vec<u8>)>, TrialError> {
        agent::secrets(case, self.agent_spec(case), &self.env)
    }
}

/// Returns a warning about changes that are in no commit.
fn uncommitted(source: &Source, changed: &[String]) -> Option<String> {
    const LISTED: usize = 3;
    let more = match changed.len().saturating_sub(LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let names: Vec<String> = changed.iter().take(LISTED).map(|name| format!("`{name}`")).collect();
    let names = names.join(", ");
    (!changed.is_empty())
        .then(|| format!("`{source}` has uncommitted changes, which trials do not see: {names}{more}"))
}

fn environment(folder: &Path) -> BTreeMap<&'static str, String> {
    let os = format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH);
    [("os", os), ("node_version", "none".to_owned()), ("workspace_dir", folder.display().to_string())].into()
}

/// Returns an error when a case uses evaluators that are not supported, so that they are never skipped silently.
fn refuse_unsupported(case: &Case) -> Result<(), TrialError> {
    let missing: Vec<String> = case
        .evaluators
        .iter()
        .filter(|evaluator| !yb_evaluate::is_supported(evaluator))
        .map(|evaluator| format!("the evaluator `{}`", evaluator.name))
        .collect();
    if missing.is_empty() { Ok(()) } else { Err(TrialError::Unsupported { what: missing }) }
}
