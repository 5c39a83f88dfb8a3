//! One trial: resolve, prepare, act, capture, grade, record.

mod agent;
mod error;
mod hooks;
mod place;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use yb_supervise::{CancellationToken, PauseSwitch};

pub use error::TrialError;
pub use hooks::HookResult;

use crate::adapter::{
    AdapterError, AgentConfig, AvailabilityStatus, ExecutionContext, ExecutionResult, Host, Observer, adapter,
};
use crate::case::{Case, Check, PostHook, Start};
use crate::config::Settings;
use crate::evaluate::{EvaluatorResult, EvaluatorStatus, Trees, git_diff};
use crate::log::{FILE_NAME as LOG_FILE, YouBenchaLog};
use crate::outcome::Outcome;
use crate::repo::{
    Cache, CaptureWarning, Git, History, HostPolicy, Identity, Include, ObjectStore, Refresh, RepoError,
    Revision, Source, StartTree, Workspace, WorkspaceOptions,
};
use crate::results::{self, AgentInfo, Artifacts, Results, RunInfo, Summary, TestCase};
use place::Place;

const PATCH_FILE: &str = "git-diff.patch";
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
    /// Ends the trial when cancelled.
    pub cancellation: CancellationToken,
    /// Holds every process of the trial, and its timeouts, while it is on.
    pub pause: PauseSwitch,
    /// Is told what the agent does while it runs.
    pub observer: Option<Arc<dyn Observer>>,
}

impl Runner {
    /// A runner with these settings and this environment.
    #[must_use]
    pub fn new(settings: Settings, env: BTreeMap<String, String>) -> Self {
        Self {
            settings,
            env,
            hosts: HostPolicy::default(),
            shim: None,
            cancellation: CancellationToken::new(),
            pause: PauseSwitch::new(),
            observer: None,
        }
    }
}

/// What a trial tells while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// The commit is known.
    Resolved {
        /// Its id.
        commit: String,
    },
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

/// A finished trial.
#[derive(Debug)]
#[non_exhaustive]
pub struct Finished {
    /// What it came to.
    pub outcome: Outcome,
    /// The run's directory.
    pub run_dir: PathBuf,
    /// The artifacts.
    pub artifacts: PathBuf,
    /// The agent's log.
    pub log: YouBenchaLog,
    /// What `results.json` says.
    pub results: Results,
    /// What went otherwise than asked.
    pub warnings: Vec<String>,
}

impl Runner {
    /// Runs a case once.
    ///
    /// # Errors
    /// When there is nothing to report: the case can't be run here, or the machine failed before the agent began.
    pub async fn run(
        &self,
        case: &Case,
        tell: &mut (dyn FnMut(Step) + Send),
    ) -> Result<Finished, TrialError> {
        let (began, started_at) = (Instant::now(), Timestamp::now());
        let adapter =
            adapter(&case.agent.kind).ok_or_else(|| TrialError::unsupported_agent(&case.agent.kind))?;
        refuse_unsupported(case)?;
        let include = Include::new(&case.capture_include)?;
        let config = agent::config(case, self.settings.model(), &self.env)?;
        let host = agent::host(case, &self.env, self.shim.as_deref())?;
        let availability = adapter.check_availability(&config, &host).await;
        if availability.status != AvailabilityStatus::Ready {
            return Err(TrialError::Unavailable { message: availability.message, hints: availability.hints });
        }
        let place = Place::create(&self.settings.workspace_dir(), case, started_at)?;
        let git = self.git(&place)?;
        let (workspace, source) = self.prepare(case, &place, &git, tell).await?;
        let mut warnings: Vec<String> = workspace.unsupported().iter().map(ToString::to_string).collect();

        let mut told = Vec::new();
        for hook in &case.pre_execution {
            tell(Step::Hook { command: hook.command.clone() });
            told.push(hooks::before(hook, case, &place, self, &source.branch).await?);
            place.write(hooks::HOOKS_FILE, &told)?;
            if let Some(failed) = told.iter().find(|hook| !hook.succeeded) {
                return Err(failed.error());
            }
        }
        // What an agent did until it was stopped is recorded too, so the recording itself is not cancelled.
        let recorder = git.clone().cancel_on(CancellationToken::new());
        let store = ObjectStore::open(place.run.join("objects.git"), &recorder).await?;
        let start = store.start(&place.trial, &workspace, &include).await?;
        warnings.extend(start.warnings.iter().map(CaptureWarning::to_string));

        tell(Step::Acting { agent: adapter.name() });
        let context = self.context(case, &place, config, host);
        let executed = match adapter.execute(&context).await {
            Ok(result) => result,
            Err(error @ AdapterError::InvalidConfig { .. }) => return Err(error.into()),
            Err(error) => ExecutionResult::not_started(adapter, &error),
        };
        let end = store.end(&place.trial, workspace.path(), &start).await?;
        warnings.extend(end.warnings.iter().map(CaptureWarning::to_string));
        tell(Step::Captured);

        let log = adapter.normalize_log(&executed, &context);
        log.write(&place.artifacts)?;
        let evaluators = self.grade(case, &store, &start, &end.tree, &place).await?;
        let outcome = executed.outcome.unwrap_or_else(|| grade_outcome(&evaluators));
        let results = Results {
            version: results::VERSION,
            test_case: source.test_case(case, workspace.commit()),
            execution: RunInfo {
                started_at: started_at.to_string(),
                completed_at: Timestamp::now().to_string(),
                duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
                youbencha_version: env!("CARGO_PKG_VERSION"),
                environment: environment(&place),
            },
            agent: AgentInfo {
                kind: adapter.name().to_owned(),
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
        place.finish(self.settings.keep_workspace())?;
        Ok(Finished { outcome, run_dir: place.run, artifacts: place.artifacts, log, results, warnings })
    }

    fn git(&self, place: &Place) -> Result<Git, TrialError> {
        let git = Git::new(place.cache.join("git-home"))?
            .deadline(self.settings.timeouts().clone)
            .cancel_on(self.cancellation.clone())
            .pause_on(self.pause.clone());
        Ok(match &self.shim {
            Some(shim) => git.shim(shim),
            None => git,
        })
    }

    async fn prepare(
        &self,
        case: &Case,
        place: &Place,
        git: &Git,
        tell: &mut (dyn FnMut(Step) + Send),
    ) -> Result<(Workspace, Origin), TrialError> {
        git.check().await.map_err(RepoError::from)?;
        let (source, revision, branch) = match &case.start {
            Start::Repo { repo, branch, commit } => {
                let revision = match (commit, branch) {
                    (Some(commit), _) => Revision::Commit(commit.clone()),
                    (None, Some(branch)) => Revision::Branch(branch.clone()),
                    (None, None) => Revision::Default,
                };
                (Source::parse(repo, &case.dir).map_err(RepoError::from)?, revision, branch.clone())
            }
            Start::Directory(path) => (Source::Directory(path.clone()), Revision::Default, None),
        };
        let branch = branch.unwrap_or_else(|| "main".to_owned());
        let origin = Origin { repo: source.to_string(), branch };
        let cache = Cache::new(&place.cache, git)?.hosts(self.hosts);
        let resolved = cache.resolve(&source, &revision, Refresh::Moving).await?;
        tell(Step::Resolved { commit: resolved.commit.clone() });
        let cut = cache.cut(&resolved, History::Full).await?;
        let identity = Identity { name: "agent".to_owned(), email: "agent@localhost".to_owned() };
        let options = WorkspaceOptions { branch: origin.branch.clone(), identity: Some(identity) };
        let workspace = cut.workspace(git, &place.workspace, &options).await?;
        tell(Step::Prepared { workspace: place.workspace.clone() });
        Ok((workspace, origin))
    }

    fn context(&self, case: &Case, place: &Place, config: AgentConfig, host: Host) -> ExecutionContext {
        let mut context =
            ExecutionContext::new(&place.workspace, &place.artifacts, &place.private, config, host);
        context.search_roots = vec![case.dir.clone()];
        context.timeout = self.settings.timeouts().agent;
        context.isolation = agent::isolation(case);
        context.cancellation = self.cancellation.clone();
        context.pause = self.pause.clone();
        context.observer = self.observer.clone();
        context
    }

    /// What must not appear in anything that is kept.
    fn secrets(&self, case: &Case) -> Result<Vec<(String, Vec<u8>)>, TrialError> {
        agent::secrets(case, &self.env)
    }

    async fn grade(
        &self,
        case: &Case,
        store: &ObjectStore,
        start: &StartTree,
        end: &str,
        place: &Place,
    ) -> Result<Vec<EvaluatorResult>, TrialError> {
        let began = Instant::now();
        let diff = store.diff(&start.tree, end).await?;
        let secrets = self.secrets(case)?;
        let patch = store.write_patch(&start.tree, end, &place.artifacts.join(PATCH_FILE), &secrets).await?;
        let patch = patch.map(|_| PATCH_FILE);
        let graded = case.evaluators.iter().filter_map(|evaluator| match &evaluator.check {
            Check::GitDiff(limits) => {
                let trees = Trees { start: &start.tree, end, patch };
                let mut result = git_diff(&evaluator.name, limits, &diff, &trees);
                result.duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
                result.timestamp = Timestamp::now().to_string();
                Some(result)
            }
            _ => None,
        });
        Ok(graded.collect())
    }
}

/// Where a starting tree came from, as results name it.
struct Origin {
    repo: String,
    branch: String,
}

impl Origin {
    fn test_case(&self, case: &Case, commit: &str) -> TestCase {
        let bytes = std::fs::read(&case.file).unwrap_or_default();
        TestCase {
            name: case.name.clone(),
            description: case.description.clone(),
            config_file: case.file.display().to_string(),
            config_hash: blake3::hash(&bytes).to_hex().chars().take(16).collect(),
            repo: self.repo.clone(),
            branch: self.branch.clone(),
            commit: commit.to_owned(),
        }
    }
}

fn environment(place: &Place) -> BTreeMap<&'static str, String> {
    let os = format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH);
    [("os", os), ("node_version", "none".to_owned()), ("workspace_dir", place.run.display().to_string())]
        .into()
}

fn grade_outcome(evaluators: &[EvaluatorResult]) -> Outcome {
    if evaluators.iter().any(|result| result.status == EvaluatorStatus::Failed) {
        Outcome::Failed
    } else {
        Outcome::Passed
    }
}

/// What a case asks for and this engine can't do yet is said before anything is started, never skipped in silence.
fn refuse_unsupported(case: &Case) -> Result<(), TrialError> {
    let mut missing: Vec<String> = case
        .evaluators
        .iter()
        .filter(|evaluator| !matches!(evaluator.check, Check::GitDiff(_)))
        .map(|evaluator| format!("the evaluator `{}`", evaluator.name))
        .collect();
    if case.post_evaluation.iter().any(|hook| matches!(hook, PostHook::Webhook(_))) {
        missing.push("`webhook` hooks".to_owned());
    }
    if missing.is_empty() { Ok(()) } else { Err(TrialError::Unsupported { what: missing }) }
}
