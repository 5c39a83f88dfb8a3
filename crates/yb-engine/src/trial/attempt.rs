//! One attempt at a trial: prepare the workspace, run the agent, capture its changes, grade them, record the results.

use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use yb_supervise::disk_usage;

use super::attempt_dirs::AttemptDirs;
use super::hooks::{self, HookResult};
use super::isolation::IsolationPlan;
use super::model_endpoint::{ModelServers, TapeReport};
use super::steps::{StepRecorder, StepSource};
use super::{
    AttemptContext, FinishedAttempt, RESULTS_FILE, RecordedStart, Runner, SandboxSpec, StartPoint,
    TrialError, TrialStep, add_ons, agent, attribution, environment, overlay,
};
use yb_agents::trace::{self, AgentBegins, End};
use yb_agents::{
    Adapter, AdapterError, AgentConfig, ExecutionContext, ExecutionResult, Host, Isolation, ProcessRole,
};
use yb_case::{AgentSpec, Case, NetworkMode};
use yb_evaluate::EvaluatorResult;

use yb_model::log::{FILE_NAME as LOG_FILE, YouBenchaLog};
use yb_model::outcome::Outcome;
use yb_model::results::{self, AgentInfo, Artifacts, Results, RunInfo, Summary, TestCase};
use yb_repo::{
    CaptureWarning, EndTree, FileStamps, Identity, ObjectStore, PathGlobs, RepoError, StartTree, Workspace,
    WorkspaceOptions, blocking, overlay_tree,
};

/// A callback for the steps of a trial.
type OnStep<'a> = &'a mut (dyn FnMut(TrialStep) + Send);

/// Named values that must not appear in any artifact.
type Secrets = [(String, Vec<u8>)];

/// A workspace in which the agent can start.
pub(super) struct PreparedWorkspace {
    workspace: Workspace,
    pub(super) start: Arc<StartTree>,
    /// The files before the agent, if it can't hide a change of one.
    stamps: Option<FileStamps>,
    /// Disk usage before the agent, where it is known.
    disk_before: Option<u64>,
    hooks: Vec<HookResult>,
    warnings: Vec<String>,
}

/// An agent with everything that its execution needs.
struct AgentSetup {
    adapter: &'static dyn Adapter,
    config: AgentConfig,
    host: Host,
    sandbox: SandboxSpec,
}

/// The execution of an agent.
struct AgentRun {
    executed: ExecutionResult,
    log: Arc<YouBenchaLog>,
    isolation: Isolation,
    network: NetworkMode,
    tape: Option<TapeReport>,
    /// The mistake in the configuration because of which the agent was not started.
    config_error: Option<AdapterError>,
}

impl Runner {
    /// Runs one attempt at a case.
    ///
    /// # Errors
    /// Returns an error when the attempt has no results: the case can't run on this machine, or preparing, capturing or
    /// recording failed.
    pub async fn attempt(
        &self,
        case: &Case,
        cache: &Path,
        attempt: &AttemptContext<'_>,
        on_step: &mut (dyn FnMut(TrialStep) + Send),
    ) -> Result<FinishedAttempt, TrialError> {
        let (began, started_at) = (self.pause.stopwatch(), Timestamp::now());
        let adapter = self.adapter(&case.agent.kind)?;
        let include = included(case)?;
        let host = self.host(case)?;
        let secrets = self.secrets(case)?;
        let (mut sandbox, mut warnings) = self.sandbox(case, attempt)?;
        let dirs = AttemptDirs::create(attempt.run, attempt.trial, attempt.number)?;
        let config = agent::config(case, self.settings.model(), &self.env, &dirs.add_ons)?;
        add_ons::copy(case, &dirs.add_ons)?;

        let prepared =
            self.prepare_workspace((case, cache), attempt, &dirs, &mut sandbox, &include, on_step).await?;
        // Grading is prepared before the agent runs: a result that can't be graded is not worth its cost.
        self.prepare_grading(case, cache, attempt, &prepared.start.tree).await?;
        on_step(TrialStep::StartRecorded { tree: prepared.start.tree.clone() });

        on_step(TrialStep::Acting { agent: adapter.spec().name });
        let setup = AgentSetup { adapter, config, host, sandbox };
        let mut run = self.run_agent(case, attempt, &dirs, setup, &prepared, &secrets).await?;
        let PreparedWorkspace { workspace, start, stamps, mut hooks, .. } = prepared;
        warnings.extend(prepared.warnings);
        let captured = match workspace.overlay() {
            Some(overlay) => attempt.store.capture_end_of_overlay(&dirs.trial, overlay, &start).await,
            None => {
                let stamps = stamps.as_ref();
                attempt.store.capture_end_since(&dirs.trial, workspace.path(), &start, stamps).await
            }
        };
        if let Some(checkout) = attempt.known.checkout() {
            checkout.check().await?;
        }
        let end = match captured {
            Ok(end) => end,
            Err(error) => {
                let end = run.attribute(error.into(), adapter.spec(), attempt.store).await?;
                attempt.store.set_end(&dirs.trial, &end)?;
                end
            }
        };
        warnings.extend(end.warnings.iter().map(CaptureWarning::to_string));
        if let Some(exceeded) = end.exceeded.as_ref().filter(|_| run.executed.was_started()) {
            let message = format!("the result was not captured completely: {exceeded}");
            attribution::fail(
                adapter.spec(),
                &mut run.executed,
                Arc::make_mut(&mut run.log),
                Outcome::OverQuota,
                message,
            );
        }
        on_step(TrialStep::Captured);

        let confined = run.isolation.kind().is_some() || !run.executed.was_started();
        let outside = |error: TrialError| if confined { error } else { error.by_unconfined_agent() };
        run.log.write(&dirs.artifacts).map_err(|error| outside(error.into()))?;
        let trees = (start.tree.as_str(), end.tree.as_str());
        let graded = match &run.config_error {
            // There is nothing to grade, and a judge would cost.
            Some(error) => Ok((Vec::new(), error.outcome())),
            None => self.grade(case, cache, attempt, trees, &run.log, &dirs).await,
        };
        let (evaluators, graded) = match graded {
            Ok(graded) => graded,
            Err(error) => {
                run.attribute(error, adapter.spec(), attempt.store).await?;
                run.log.write(&dirs.artifacts).map_err(|error| outside(error.into()))?;
                (Vec::new(), Outcome::Failed)
            }
        };
        let execution = RunInfo {
            started_at: started_at.to_string(),
            completed_at: Timestamp::now().to_string(),
            duration_ms: began.elapsed_ms(),
            youbencha_version: env!("CARGO_PKG_VERSION"),
            environment: environment(attempt.run.path()),
            isolation: run.isolation,
            syscall_filter: run.isolation.syscall_filter(),
            network: run.network,
        };
        let results =
            run.results(attempt.start.test_case(case), execution, adapter.spec().name, evaluators, graded);
        dirs.write(RESULTS_FILE, &results).map_err(outside)?;
        warnings.extend(run.executed.warnings.iter().cloned());
        // A cancelled trial is still to do: it has no results yet.
        if results.outcome != Outcome::Cancelled {
            self.run_post_hooks(case, &dirs, &results, &mut hooks, &mut warnings).await?;
        }
        let known = yb_redact::Secrets::of_safe_length(secrets.iter().cloned());
        for warning in &mut warnings {
            *warning = known.redact(warning).into_owned();
        }
        warnings.extend(dirs.finish(self.settings.keep_workspace()));
        let artifacts = dirs.seal().map_err(outside)?;
        let (tape, spent) = match run.tape {
            Some(report) => {
                let (tape, spent) = report.into_tape_use(run.log.usage.estimated_cost_usd);
                (Some(tape), spent)
            }
            None => (None, None),
        };
        let trees = (start.tree.clone(), end.tree);
        Ok(FinishedAttempt {
            outcome: results.outcome,
            log: Arc::unwrap_or_clone(run.log),
            results,
            trees,
            artifacts,
            warnings,
            tape,
            spent,
            config_error: run.config_error.map(TrialError::from),
            session: run.executed.session.take(),
        })
    }

    /// Returns the sandbox of a trial's processes, and warnings about it.
    pub(super) fn sandbox(
        &self,
        case: &Case,
        attempt: &AttemptContext<'_>,
    ) -> Result<(SandboxSpec, Vec<String>), TrialError> {
        let IsolationPlan { used: isolation, network, limits, warnings } = self.level(case)?;
        let hidden = self.hidden(case, attempt);
        Ok((SandboxSpec { isolation, hidden, network, limits, overlay: None, root: None }, warnings))
    }

    /// Creates the workspace, lays the files of case and variant over it, runs the hooks before the agent, and records the
    /// start tree.
    pub(super) async fn prepare_workspace(
        &self,
        (case, cache): (&Case, &Path),
        attempt: &AttemptContext<'_>,
        dirs: &AttemptDirs,
        sandbox: &mut SandboxSpec,
        include: &PathGlobs,
        on_step: OnStep<'_>,
    ) -> Result<PreparedWorkspace, TrialError> {
        let identity = Identity { name: "agent".to_owned(), email: "agent@localhost".to_owned() };
        let branch = &attempt.start.branch;
        let options = WorkspaceOptions { branch: branch.clone(), identity: Some(identity) };
        if let Some(root) = &attempt.start.root {
            sandbox.root = Some(root.create(dirs)?);
        }
        let workspace = match (&attempt.start.root, &sandbox.root) {
            (Some(spec), Some(root)) if root.workdir.is_some() => {
                spec.workspace(root, attempt.start, dirs)?
            }
            _ => self.create_workspace((case, cache), attempt, dirs, sandbox, &options, include).await?,
        };
        sandbox.overlay = workspace.overlay().cloned();
        on_step(TrialStep::Prepared { workspace: dirs.workspace.clone() });
        let mut warnings: Vec<String> = workspace.unsupported().iter().map(ToString::to_string).collect();

        let mut hooks = Vec::new();
        for hook in &case.pre_execution {
            on_step(TrialStep::Hook { command: hook.command.clone() });
            let result = hooks::run_before(hook, case, dirs, self, branch, sandbox).await?;
            hooks.push(result);
            dirs.write(hooks::HOOKS_FILE, &hooks)?;
            if let Some(failed) = hooks.iter().find(|hook| !hook.succeeded) {
                return Err(failed.error());
            }
        }
        if !case.prepare_for_agent.is_empty() && workspace.overlay().is_none() {
            self.prepare_for_agent(case, cache, attempt, dirs, &workspace, include).await?;
        }
        let (start, disk_before) = record_start(case, attempt, dirs, &workspace, include).await?;
        warnings.extend(start.warnings.iter().map(CaptureWarning::to_string));
        // Last, because a file that is written later is read after the agent.
        let stamps = if workspace.overlay().is_none()
            && change_times_are_reliable(sandbox.isolation, workspace.path())
        {
            attempt.store.stamp_files(workspace.path(), &start).await
        } else {
            None
        };
        Ok(PreparedWorkspace { workspace, start, stamps, disk_before, hooks, warnings })
    }

    /// Copies the files that `prepare` makes for the agent too into its workspace, before the start tree is recorded.
    async fn prepare_for_agent(
        &self,
        case: &Case,
        cache: &Path,
        attempt: &AttemptContext<'_>,
        dirs: &AttemptDirs,
        workspace: &Workspace,
        include: &PathGlobs,
    ) -> Result<(), TrialError> {
        let prepare = async || {
            let start = attempt.store.capture_start(&dirs.trial, workspace, include).await?;
            self.prepare_tree(case, &case.prepare_for_agent, cache, attempt, &start.tree).await
        };
        let prepared = if case.pre_execution.is_empty() {
            attempt.known.prepared.get_or_try_init(prepare).await?.clone()
        } else {
            prepare().await?
        };
        let to = dirs.workspace.clone();
        Ok(blocking(move || overlay_tree(&prepared, &to)).await?)
    }

    /// Executes the agent with its model endpoint, and returns its normalized log.
    async fn run_agent(
        &self,
        case: &Case,
        attempt: &AttemptContext<'_>,
        dirs: &AttemptDirs,
        setup: AgentSetup,
        prepared: &PreparedWorkspace,
        secrets: &Secrets,
    ) -> Result<AgentRun, TrialError> {
        let AgentSetup { adapter, config, mut host, sandbox } = setup;
        let begins = AgentBegins {
            agent: adapter.spec().name,
            model: config.model.as_deref(),
            prompt: config.prompt.as_deref(),
            secrets,
        };
        let trace = trace::begin_agent(self.trace.as_ref(), &begins, &mut host);
        let mut context = self.execution_context(case, dirs, config, host, sandbox);
        let mut texts = yb_agents::case_texts(&context);
        texts.extend(overlay::texts(case));
        let endpoint = self.start_endpoint(case, attempt, dirs, &context.config, &mut context.host, texts)?;
        let watched = add_ons::texts(&context.config);
        endpoint.watch_texts(&watched);
        context.trace.clone_from(&trace);
        context.disk_before = prepared.disk_before;
        context.api_observed = endpoint.unobserved().is_none();
        context.api_observation = match endpoint.unobserved() {
            Some(reason) => Some(format!("not observed: {reason}")),
            None => endpoint.is_observed().then(|| "observed".to_owned()),
        };
        let mut steps = None;
        if self.steps || case.capture_steps {
            steps = endpoint.hold_requests().map(|held| {
                let PreparedWorkspace { workspace, start, stamps, .. } = prepared;
                let source = StepSource { workspace, start, stamps: stamps.as_ref() };
                StepRecorder::new(attempt, dirs, source, held, context.step_pause.clone())
            });
        }
        let unrecorded = (self.steps || case.capture_steps) && steps.is_none();
        let mut config_error = None;
        let mut executed = match endpoint.case_divergence() {
            Some(divergence) => ExecutionResult::skipped(divergence.to_string()),
            None => match execute(adapter, &context, &endpoint, steps.as_mut()).await {
                Ok(result) => result,
                Err(error) => {
                    let available = adapter.check_availability(&context.config, &context.host).await;
                    let agent_version = available.version;
                    let executed = ExecutionResult {
                        agent_version,
                        ..ExecutionResult::not_started(adapter.spec(), &error)
                    };
                    config_error = matches!(error, AdapterError::InvalidConfig { .. }).then_some(error);
                    executed
                }
            },
        };
        if unrecorded {
            let warning = "steps were not recorded: no server stands between the agent and its model";
            executed.warnings.push(warning.to_owned());
        }
        executed.warnings.extend(steps.map(StepRecorder::finish).unwrap_or_default());
        let seen = endpoint.is_observed().then_some(watched);
        let (tape, evidence) = endpoint.finish(&mut executed).await;
        evidence.check(adapter.spec(), &mut executed);
        add_ons::check(adapter.spec(), &context.config, &mut executed, seen.as_ref());
        let mut log = adapter.normalize_log(&executed, &context);
        log.add_ons = std::mem::take(&mut executed.add_ons);
        yb_agents::count_uses(adapter.spec(), &mut log.add_ons, &log.tool_calls);
        if let Some(tape) = &tape {
            tape.apply_observed_usage(&mut log.usage);
        }
        if let Some(trace) = &trace {
            trace.end(End::Agent { log: &log, outcome: executed.outcome });
        }
        // The log has what is needed of them.
        (executed.transcript, executed.output) = (None, String::new());
        let (isolation, network) = (context.isolation, context.network.mode);
        let log = Arc::new(log);
        Ok(AgentRun { executed, log, isolation, network, tape, config_error })
    }

    fn execution_context(
        &self,
        case: &Case,
        dirs: &AttemptDirs,
        config: AgentConfig,
        host: Host,
        sandbox: SandboxSpec,
    ) -> ExecutionContext {
        let mut context = ExecutionContext::new(
            sandbox.workspace(&dirs.workspace),
            &dirs.artifacts,
            &dirs.private,
            config,
            host,
        );
        context.search_roots = vec![case.dir.clone()];
        context.project_dir = std::env::current_dir().ok();
        context.timeout = self.settings.timeouts().agent;
        context.isolation = sandbox.isolation;
        context.overlay = sandbox.overlay;
        context.root = sandbox.root;
        context.hidden = sandbox.hidden;
        context.network = sandbox.network;
        context.limits = sandbox.limits;
        context.cancellation = self.stop.token.child_token();
        context.pause = self.pause.clone();
        context.observer.clone_from(&self.observer);
        context.start_recorder = self.start_recorder.clone().map(|recorder| (ProcessRole::Agent, recorder));
        context
    }

    /// Runs the hooks after grading. A failed hook is a warning and does not change the outcome.
    pub(super) async fn run_post_hooks(
        &self,
        case: &Case,
        dirs: &AttemptDirs,
        results: &Results,
        hooks: &mut Vec<HookResult>,
        warnings: &mut Vec<String>,
    ) -> Result<(), TrialError> {
        for hook in &case.post_evaluation {
            let result = hooks::run_after(hook, case, dirs, self, results).await?;
            if !result.succeeded {
                warnings.push(format!("post-evaluation failed: `{}`: {}", result.what, result.message));
            }
            hooks.push(result);
            dirs.write(hooks::HOOKS_FILE, hooks)?;
        }
        Ok(())
    }
}

/// Records the start tree, or reuses the one that an earlier trial of the combination recorded. A case with hooks before
/// the agent records its own each time, because hooks need not be deterministic.
async fn record_start(
    case: &Case,
    attempt: &AttemptContext<'_>,
    dirs: &AttemptDirs,
    workspace: &Workspace,
    include: &PathGlobs,
) -> Result<(Arc<StartTree>, Option<u64>), TrialError> {
    let store = attempt.store;
    if !case.pre_execution.is_empty() {
        return Ok((Arc::new(store.capture_start(&dirs.trial, workspace, include).await?), None));
    }
    let record = async || {
        let is_fresh = case.overlay.is_empty() && case.prepare_for_agent.is_empty();
        let start = if is_fresh || workspace.overlay().is_some() {
            store.capture_fresh_start(&dirs.trial, workspace, include).await?
        } else {
            store.capture_start(&dirs.trial, workspace, include).await?
        };
        let start = Arc::new(start);
        // Only what is written to the upper layer counts.
        let folder = workspace.overlay().map_or(&dirs.workspace, |overlay| &overlay.upper).clone();
        let disk = blocking(move || Ok(disk_usage(&folder))).await?;
        Ok::<_, RepoError>(RecordedStart { start, disk })
    };
    let RecordedStart { start, disk } = attempt.known.recorded.get_or_try_init(record).await?;
    store.reuse_start(&dirs.trial, start)?;
    Ok((start.clone(), Some(*disk)))
}

/// Returns the ignored files that are captured nevertheless: what a case lays down is part of the start tree, also if the
/// repository ignores it.
pub(super) fn included(case: &Case) -> Result<PathGlobs, RepoError> {
    let laid = case.overlay.targets().map(globset::escape);
    PathGlobs::new(case.capture_include.iter().cloned().chain(laid))
}

/// Whether an agent can't change a file without changing its times. Without a sandbox it may be able to set the clock, to write to the
/// disk, or to exchange the blocks of two files.
fn change_times_are_reliable(isolation: Isolation, workspace: &Path) -> bool {
    isolation == Isolation::Bubblewrap
        && isolation.syscall_filter() == Some(true)
        && yb_repo::has_reliable_change_times(workspace)
}

/// Executes the agent. After a divergence from its tape, an agent that does not end by itself is cancelled.
async fn execute(
    adapter: &dyn Adapter,
    context: &ExecutionContext,
    endpoint: &ModelServers,
    steps: Option<&mut StepRecorder<'_>>,
) -> Result<ExecutionResult, AdapterError> {
    tokio::select! {
        ended = adapter.execute(context) => ended,
        never = async {
            if let Some(steps) = steps {
                steps.run().await;
            }
            std::future::pending().await
        } => never,
        never = async {
            endpoint.wait_for_divergence().await;
            context.cancellation.cancel();
            std::future::pending().await
        } => never,
    }
}

impl AgentRun {
    /// Records an error after the agent ran as the agent's, or returns it if it is not.
    async fn attribute(
        &mut self,
        error: TrialError,
        agent: &AgentSpec,
        store: &ObjectStore,
    ) -> Result<EndTree, TrialError> {
        attribution::attribute(error, store, agent, &mut self.executed, Arc::make_mut(&mut self.log)).await
    }

    /// Returns the results of the attempt. The outcome of the execution takes precedence over that of grading.
    fn results(
        &self,
        test_case: TestCase,
        execution: RunInfo,
        agent: &str,
        evaluators: Vec<EvaluatorResult>,
        graded: Outcome,
    ) -> Results {
        Results {
            version: results::VERSION,
            test_case,
            execution,
            agent: AgentInfo {
                kind: agent.to_owned(),
                youbencha_log_path: LOG_FILE.to_owned(),
                status: self.executed.status,
                exit_code: self.executed.exit_code,
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
            outcome: self.executed.outcome.unwrap_or(graded),
        }
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
