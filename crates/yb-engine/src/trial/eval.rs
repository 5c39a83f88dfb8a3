//! Grading an existing directory without running an agent.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::OnceCell;
use yb_supervise::CancellationToken;

use super::attempt_dirs::{AttemptDirs, PRIVATE, WORKSPACE_LAYER};
use super::{RESULTS_FILE, Runner, TrialError, expected_tree, refuse_unsupported, webhook};
use crate::processes::{ProcessLog, end_leftovers};
use crate::run::create_ignored;
use yb_agents::Isolation;
use yb_case::{Case, EvalFile, MANUAL, NetworkMode};
use yb_evaluate::{PATCH_FILE, Subject};
use yb_model::log::{
    AgentInfo, Environment, Execution, ExecutionStatus, FILE_NAME as LOG_FILE, LogMessage, LogParts,
    ModelInfo, ModelSource, OutputFiles, Role, Usage, YouBenchaLog,
};
use yb_model::outcome::Outcome;
use yb_model::results::{self, Artifacts, Results, RunInfo, Summary, TestCase};
use yb_repo::{Cache, CaptureWarning, Git, ObjectStore, Refresh, Revision, Source};

/// The empty tree, which git knows without storing it.
const EMPTY_TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

/// The evaluation of a directory.
#[derive(Debug)]
#[non_exhaustive]
pub struct DirectoryEvaluation {
    /// The outcome.
    pub outcome: Outcome,
    /// The contents of `results.json`.
    pub results: Results,
    /// The directory of the artifacts.
    pub artifacts: PathBuf,
    /// Warnings.
    pub warnings: Vec<String>,
}

impl Runner {
    /// Grades a directory without changing it and without running anything from its `.git`. Evaluators of what the agent said and
    /// called read the log, if one is given.
    ///
    /// # Errors
    /// Returns an error when the directory can't be graded on this machine.
    pub async fn evaluate(
        &self,
        eval: &EvalFile,
        directory: &Path,
        log: Option<YouBenchaLog>,
    ) -> Result<DirectoryEvaluation, TrialError> {
        let (began, started_at) = (self.pause.stopwatch(), Timestamp::now());
        let case = eval.case();
        refuse_unsupported(&case)?;
        webhook::check(&case, &self.env)?;
        self.check_evaluators(&case)?;
        self.check_evaluator_availability(&case).await?;
        let level = self.level(&case)?;
        let mut warnings: Vec<String> = level.warnings;

        let root = eval.output_dir.clone().unwrap_or_else(|| self.settings.output_dir());
        let dirs = place(&root, directory, started_at)?;
        warnings.extend(end_leftovers(&root));
        let processes = ProcessLog::create(&root).map_err(TrialError::io(&root))?;
        let this = &Self { start_recorder: Some(processes.recorder()), ..self.clone() };
        let folder = dirs.artifacts.parent().unwrap_or(&root).to_owned();
        let cache = folder.with_file_name("cache");
        let git = self.git(&cache)?;
        let store = ObjectStore::open(folder.join("objects.git"), &git).await?;
        let start = self.base(eval, directory, &cache, &git, &store, &mut warnings).await?;
        let tracked: BTreeSet<Vec<u8>> =
            store.list(&start).await?.into_iter().map(|file| file.path).collect();
        let (end, left_out) = store.capture_directory("eval", directory, tracked).await?;
        warnings.extend(left_out.iter().map(CaptureWarning::to_string));

        let said = format!("Evaluation of an existing directory: {}", eval.name);
        let log = log.unwrap_or_else(|| manual(said, directory, started_at, level.used));
        let agent = log.agent.name.clone();
        log.write(&dirs.artifacts)?;
        let secrets = self.secrets(&case)?;
        let patch = dirs.artifacts.join(PATCH_FILE);
        let (diff, _) = store.diff_and_patch(&start, &end, &patch, &secrets).await?;
        let cancel: CancellationToken = self.stop.token().clone();
        let hidden = vec![folder.clone(), case.dir.clone(), directory.to_owned()];
        let subject = Arc::new(Subject {
            expected: expected_tree(&case, &store, &start, None).await,
            store,
            start,
            end,
            overlay: case.overlay.clone(),
            diff: Arc::new(diff),
            log: Arc::new(log),
            frames: None,
            secrets: secrets.into(),
            prepare: case.prepare.clone().into(),
            may_change: case.may_change.clone().map(Into::into),
            artifacts: dirs.artifacts.clone(),
            scratch: dirs.scratch.clone(),
            grader_env: this.grader_env(&case, &cache, hidden, cancel)?,
            files: OnceCell::new(),
            trace: self.trace.clone(),
        });
        let evaluators = yb_evaluate::grade(&case.evaluators, &subject, self.grade_options())
            .await
            .map_err(|error| TrialError::Grading { reason: error.to_string() })?;
        subject.store.close().await;
        let outcome = match yb_evaluate::outcome(&evaluators) {
            Outcome::GraderError if self.stop.is_stopped() => Outcome::Cancelled,
            outcome => outcome,
        };
        let artifacts = evaluators.iter().flat_map(|one| one.artifacts.iter().map(|a| a.path.clone()));
        let results = Results {
            version: results::VERSION,
            test_case: test_case(eval, &case, directory),
            execution: RunInfo {
                started_at: started_at.to_string(),
                completed_at: Timestamp::now().to_string(),
                duration_ms: began.elapsed_ms(),
                youbencha_version: env!("CARGO_PKG_VERSION"),
                environment: super::environment(&folder),
                isolation: level.used,
                syscall_filter: level.used.syscall_filter(),
                network: NetworkMode::Open,
            },
            agent: results::AgentInfo {
                kind: agent,
                youbencha_log_path: LOG_FILE.to_owned(),
                status: ExecutionStatus::Success,
                exit_code: 0,
            },
            summary: Summary::of(&evaluators),
            artifacts: Artifacts {
                agent_log: LOG_FILE.to_owned(),
                reports: Vec::new(),
                evaluator_artifacts: artifacts.collect(),
            },
            evaluators,
            outcome,
        };
        dirs.write(RESULTS_FILE, &results)?;
        this.run_post_hooks(&case, &dirs, &results, &mut Vec::new(), &mut warnings).await?;
        warnings.extend(yb_repo::remove_or_set_aside(&dirs.scratch).warning());
        Ok(DirectoryEvaluation { outcome, results, artifacts: dirs.artifacts, warnings })
    }

    /// Returns the tree that the directory is compared with: a commit of its repository, or the empty tree.
    async fn base(
        &self,
        eval: &EvalFile,
        directory: &Path,
        cache: &Path,
        git: &Git,
        store: &ObjectStore,
        warnings: &mut Vec<String>,
    ) -> Result<String, TrialError> {
        let revision = match eval.base.as_deref() {
            None | Some("HEAD") => Revision::Default,
            Some(id) if id.len() >= 40 && id.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
                Revision::Commit(id.to_owned())
            }
            Some(name) => Revision::Branch(name.to_owned()),
        };
        let nothing = |warnings: &mut Vec<String>, why: &str| {
            warnings.push(format!("{why}: all files count as added"));
            Ok(EMPTY_TREE.to_owned())
        };
        if !directory.join(".git").exists() {
            return nothing(warnings, "the directory is not a git repository");
        }
        let cache = Cache::new(cache, git)?.hosts(self.hosts);
        match cache.resolve(&Source::Local(directory.to_owned()), &revision, Refresh::Moving).await {
            Ok(resolved) => Ok(store.store_expected_commit("start", &resolved).await?),
            Err(_) if eval.base.is_none() => nothing(warnings, "the repository has no commit"),
            Err(error) => Err(error.into()),
        }
    }
}

/// Creates `<output_dir>/eval-<time>/artifacts` in a directory that captures ignore.
fn place(root: &Path, directory: &Path, now: Timestamp) -> Result<AttemptDirs, TrialError> {
    let root = std::path::absolute(root).map_err(TrialError::io(root))?;
    let make = |path: &Path| std::fs::create_dir_all(path).map_err(TrialError::io(path));
    create_ignored(&root).map_err(TrialError::io(&root))?;
    let name = format!("eval-{}", now.strftime("%Y-%m-%dT%H-%M-%S-%3fZ"));
    let mut folder = root.join(&name);
    let mut again = 1;
    while let Err(error) = std::fs::create_dir(&folder) {
        if error.kind() != std::io::ErrorKind::AlreadyExists {
            return Err(TrialError::io(&folder)(error));
        }
        again += 1;
        folder = root.join(format!("{name}-{again}"));
    }
    let [private, hooks, scratch, add_ons] = PRIVATE.map(|name| folder.join(name));
    let dirs = AttemptDirs {
        trial: "eval".to_owned(),
        workspace: directory.to_owned(),
        layer: folder.join(WORKSPACE_LAYER),
        root_layer: folder.join("root-layer"),
        artifacts: folder.join("artifacts"),
        private,
        hooks,
        scratch,
        add_ons,
    };
    make(&dirs.artifacts)?;
    Ok(dirs)
}

fn test_case(eval: &EvalFile, case: &Case, directory: &Path) -> TestCase {
    let bytes = std::fs::read(&eval.file).unwrap_or_default();
    TestCase {
        name: case.name.clone(),
        description: case.description.clone(),
        config_file: eval.file.display().to_string(),
        config_hash: blake3::hash(&bytes).to_hex().chars().take(16).collect(),
        repo: format!("file://{}", directory.display()),
        branch: "eval-only".to_owned(),
        commit: MANUAL.to_owned(),
        expected_branch: eval.expected.is_some().then(|| "eval-only-expected".to_owned()),
    }
}

/// Returns a log without an agent, for readers that expect one.
pub(super) fn manual(said: String, directory: &Path, now: Timestamp, isolation: Isolation) -> YouBenchaLog {
    let now = now.to_string();
    YouBenchaLog::new(LogParts {
        agent: AgentInfo {
            name: MANUAL.to_owned(),
            version: "unknown".to_owned(),
            adapter_version: env!("CARGO_PKG_VERSION").to_owned(),
        },
        model: ModelInfo {
            name: "none".to_owned(),
            provider: MANUAL.to_owned(),
            parameters: Default::default(),
            source: ModelSource::Unknown,
        },
        execution: Execution {
            started_at: now.clone(),
            completed_at: now.clone(),
            duration_ms: 0,
            exit_code: 0,
            status: ExecutionStatus::Success,
            timed_out: false,
            isolation,
            syscall_filter: isolation.syscall_filter(),
            permission_mode: None,
            containment: None,
            trust_repo_settings: false,
            session_id: None,
            num_turns: None,
            ending: None,
            stop_reason: None,
            api_retries: 0,
            permission_denials: 0,
            argv: Vec::new(),
            env: Vec::new(),
            stdin: None,
            network: NetworkMode::Open,
            refused_connections: Vec::new(),
            api_observation: None,
        },
        messages: vec![LogMessage {
            role: Role::User,
            content: said,
            timestamp: now,
            thinking: String::new(),
            tool_calls: Vec::new(),
            tool_call_id: None,
            parent_tool_call_id: None,
        }],
        tool_calls: Vec::new(),
        usage: Usage::unreported(),
        errors: Vec::new(),
        warnings: Vec::new(),
        environment: Environment {
            os: format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH),
            node_version: "none".to_owned(),
            youbencha_version: env!("CARGO_PKG_VERSION").to_owned(),
            working_directory: directory.display().to_string(),
        },
        output: OutputFiles::default(),
        omitted: None,
        outcome: None,
    })
}
