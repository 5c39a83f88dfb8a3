//! Hooks: commands that prepare the workspace before the agent, and actions on the results after grading.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};
use yb_supervise::{Command, Launch, OutputMode, Sandbox};

use super::attempt_dirs::AttemptDirs;
use super::{Runner, SandboxSpec, TrialError, webhook};
use yb_agents::{Environment, Places, ProcessRole, base_view, connect, limit};
use yb_case::{Case, Database, PostHook, Script, TrialLimits, with_environment};
use yb_model::results::Results;

/// The maximum length of the recorded output of a hook, in characters.
pub(super) const MAX_OUTPUT_CHARS: usize = 1000;
const MAX_CAPTURE_BYTES: usize = 1 << 20;

/// The artifact with the results of all hooks.
pub(super) const HOOKS_FILE: &str = "hooks.json";

/// The variable with the case's directory, which hooks can read.
const CASE_DIR: &str = "YB_CASE_DIR";

/// The directory in the artifacts that sandboxed hooks before the agent may write to. They run code of the repository,
/// which must not change other artifacts.
const HOOK_ARTIFACTS: &str = "pre-execution";

/// The result of one hook.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct HookResult {
    /// `pre_execution` or `post_evaluation`.
    pub moment: &'static str,
    /// The kind of hook: `script`, `webhook` or `database`.
    pub hook: &'static str,
    /// The command, the file, or the method and the host.
    pub what: String,
    /// Whether the hook succeeded.
    pub succeeded: bool,
    /// How the hook ended, in one line.
    pub message: String,
    /// The end of its output, or the beginning of the response.
    pub output: String,
    /// The duration in milliseconds.
    pub duration_ms: u64,
    /// When the hook ended, ISO 8601.
    pub timestamp: String,
}

impl HookResult {
    /// Returns the error for a failed hook before the agent.
    pub(super) fn error(&self) -> TrialError {
        let said = if self.output.is_empty() { String::new() } else { format!("\n{}", self.output) };
        TrialError::Hook { command: self.what.clone(), reason: format!("{}{said}", self.message) }
    }
}

/// Runs a hook before the agent in the workspace, with a restricted environment.
pub(super) async fn run_before(
    hook: &Script,
    case: &Case,
    dirs: &AttemptDirs,
    runner: &Runner,
    branch: &str,
    view: &SandboxSpec,
) -> Result<HookResult, TrialError> {
    let sandboxed = view.isolation.kind().is_some();
    let artifacts = if sandboxed { dirs.artifacts.join(HOOK_ARTIFACTS) } else { dirs.artifacts.clone() };
    let workspace = view.workspace(&dirs.workspace).to_string_lossy().into_owned();
    let case_dir = case_dir(case);
    let variables = [
        (CASE_DIR, case_dir.to_string_lossy().into_owned()),
        ("WORKSPACE_DIR", workspace.clone()),
        ("REPO_DIR", workspace),
        ("ARTIFACTS_DIR", artifacts.to_string_lossy().into_owned()),
        ("TEST_CASE_NAME", case.name.clone()),
        ("REPO_URL", case.start.to_string()),
        ("BRANCH", branch.to_owned()),
    ];
    let sandbox =
        if sandboxed { Some(sandbox(hook, &artifacts, &case_dir, dirs, runner, view)?) } else { None };
    let changes = view.overlay.as_ref().map_or(&dirs.workspace, |overlay| &overlay.upper);
    let limits = Some((view.limits, [changes.clone(), dirs.hooks.clone()]));
    let mut env = literal_env(case);
    if let Some(root) = &view.root {
        let is_set = |name: &String| env.iter().any(|(set, _)| set == name);
        let of_root: Vec<_> = root.env.clone().into_iter().filter(|(name, _)| !is_set(name)).collect();
        env.extend(of_root);
    }
    let restrictions = HookRestrictions { sandbox, limits, env };
    let at = (view.workspace(&dirs.workspace), restrictions);
    run_script(hook, "pre_execution", &variables, at, runner, &runner.secrets(case)?).await
}

/// Returns the directory of the case.
fn case_dir(case: &Case) -> PathBuf {
    case.dir.canonicalize().unwrap_or_else(|_| case.dir.clone())
}

/// Returns the variables of case and variant that are written out. Those that are taken from the environment are often
/// credentials of the agent; a hook, which runs code of the repository, names what it needs of them itself.
fn literal_env(case: &Case) -> Vec<(String, String)> {
    let written_out = case.env.iter().filter_map(|variable| {
        let value = variable.value.as_ref().filter(|value| yb_case::environment_names(value).is_empty())?;
        Some((variable.name.clone(), value.clone()))
    });
    written_out.collect()
}

/// Returns the sandbox of a hook before the agent: that of the agent, the case's directory, and a writable directory of the
/// artifacts.
fn sandbox(
    hook: &Script,
    artifacts: &Path,
    case_dir: &Path,
    dirs: &AttemptDirs,
    runner: &Runner,
    view: &SandboxSpec,
) -> Result<HookSandbox, TrialError> {
    std::fs::create_dir_all(artifacts).map_err(TrialError::io(artifacts))?;
    let mut env = Environment::new();
    for (name, value) in &hook.env {
        env.insert(name.into(), expand(value, runner)?.into());
    }
    // The agent must not see the case; its hooks may. Other runs stay hidden from both.
    let mut hidden = view.hidden.clone();
    hidden.retain(|path| {
        path.canonicalize().ok().is_none_or(|path| {
            path != case_dir && (dirs.workspace.starts_with(&path) || !path.starts_with(case_dir))
        })
    });
    let root = view.root.as_ref().map(|root| &root.mount);
    let places = Places { workspace: &dirs.workspace, private: &dirs.hooks, hidden: &hidden, root };
    let sandbox = base_view(places, &env).map_err(TrialError::io(&dirs.hooks))?;
    let mut sandbox = sandbox.read_only(case_dir).writable(artifacts);
    let is_in_root = view.root.as_ref().is_some_and(|root| root.workdir.is_some());
    if root.is_some() && !is_in_root {
        sandbox = sandbox.writable(&dirs.workspace);
    }
    if let Some(overlay) = view.overlay.as_ref().filter(|_| !is_in_root) {
        sandbox = sandbox.overlay(overlay.clone());
    }
    let sandbox = sandbox.kind(view.isolation.kind().unwrap_or_default());
    let sandbox = connect(sandbox, &view.network, None);
    Ok(HookSandbox { sandbox, private: dirs.hooks.clone() })
}

/// The restrictions on a hook before the agent. Hooks after grading are trusted and run without.
#[derive(Default)]
struct HookRestrictions {
    sandbox: Option<HookSandbox>,
    /// Resource limits, with the directories that count towards disk usage.
    limits: Option<(TrialLimits, [PathBuf; 2])>,
    /// Variables of the case, which those of the hook override.
    env: Vec<(String, String)>,
}

/// The sandbox of a hook, with the directory of its HOME and TMPDIR.
struct HookSandbox {
    sandbox: Sandbox,
    private: PathBuf,
}

/// Runs a hook on the results. A failure is reported and does not change the outcome.
pub(super) async fn run_after(
    hook: &PostHook,
    case: &Case,
    dirs: &AttemptDirs,
    runner: &Runner,
    results: &Results,
) -> Result<HookResult, TrialError> {
    match hook {
        PostHook::Script(hook) => {
            let variables = [
                (CASE_DIR, case_dir(case).to_string_lossy().into_owned()),
                ("RESULTS_PATH", dirs.artifacts.join(super::RESULTS_FILE).to_string_lossy().into_owned()),
                ("ARTIFACTS_DIR", dirs.artifacts.to_string_lossy().into_owned()),
                ("WORKSPACE_DIR", dirs.workspace.to_string_lossy().into_owned()),
                ("TEST_CASE_NAME", case.name.clone()),
                ("OVERALL_STATUS", results.summary.overall_status.to_owned()),
            ];
            let here = std::env::current_dir().unwrap_or_else(|_| case.dir.clone());
            run_script(
                hook,
                "post_evaluation",
                &variables,
                (&here, HookRestrictions::default()),
                runner,
                &runner.secrets(case)?,
            )
            .await
        }
        PostHook::Database(database) => {
            let began = std::time::Instant::now();
            let path = case.dir.join(expand(&database.output_path, runner)?);
            let written = write_line(database, &path, results);
            Ok(HookResult {
                moment: "post_evaluation",
                hook: "database",
                what: path.display().to_string(),
                succeeded: written.is_ok(),
                message: written.map_or_else(|error| error.to_string(), |()| "written".to_owned()),
                output: String::new(),
                duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
                timestamp: Timestamp::now().to_string(),
            })
        }
        PostHook::Webhook(hook) => {
            let artifacts = hook.include_artifacts.then_some(dirs.artifacts.as_path());
            webhook::send(hook, artifacts, runner, results, &runner.secrets(case)?).await
        }
    }
}

/// Runs a command line with a shell.
async fn run_script(
    hook: &Script,
    moment: &'static str,
    variables: &[(&str, String)],
    (directory, restrictions): (&Path, HookRestrictions),
    runner: &Runner,
    secrets: &[(String, Vec<u8>)],
) -> Result<HookResult, TrialError> {
    let mut line = expand(&hook.command, runner)?;
    for arg in &hook.args {
        let replace =
            |arg: String, (name, value): &(&str, String)| arg.replace(&format!("${{{name}}}"), value);
        let arg = variables.iter().fold(expand(arg, runner)?, replace);
        line.push_str(&format!(" '{}'", arg.replace('\'', "'\\''")));
    }
    let directory: PathBuf =
        hook.working_dir.as_ref().map_or_else(|| directory.to_owned(), |dir| directory.join(dir));
    let mut command = Command::new("sh")
        .args(["-c", &line])
        .current_dir(directory)
        .launch(Launch::Contained)
        .output(OutputMode::Capture { limit: MAX_CAPTURE_BYTES })
        .deadline(hook.timeout)
        .cancel_on(runner.stop.token().clone())
        .pause_on(runner.pause.clone())
        .envs(restrictions.env.iter().map(|(name, value)| (name, value)))
        .envs(variables.iter().map(|(name, value)| (name, value)));
    for name in ["HOME", "USER"] {
        if let Some(value) = runner.env.get(name) {
            command = command.env(name, value);
        }
    }
    if let Some((limits, [changes, private])) = &restrictions.limits {
        command = limit(command, limits, [changes, private], None);
    }
    if let Some(HookSandbox { sandbox, private }) = restrictions.sandbox {
        command =
            command.sandbox(sandbox).env("HOME", private.join("home")).env("TMPDIR", private.join("tmp"));
    }
    for (name, value) in &hook.env {
        command = command.env(name, expand(value, runner)?);
    }
    for (name, value) in secrets {
        command = command.secret(name, value.clone());
    }
    if let Some(shim) = &runner.shim {
        command = command.shim(shim);
    }
    if let Some(recorder) = &runner.start_recorder {
        command = recorder.attach(ProcessRole::Hook, command);
    }
    let report = command.run().await;
    let said =
        report.output.captured().map(|output| output.text().text.trim().to_owned()).unwrap_or_default();
    let from = said.char_indices().rev().nth(MAX_OUTPUT_CHARS).map_or(0, |(at, _)| at);
    Ok(HookResult {
        moment,
        hook: "script",
        what: hook.command.clone(),
        succeeded: report.success(),
        message: report.end.to_string(),
        output: said[from..].to_owned(),
        duration_ms: u64::try_from(report.duration.saturating_sub(report.paused).as_millis())
            .unwrap_or(u64::MAX),
        timestamp: report.ended_at.to_string(),
    })
}

/// Appends one line of JSON, or replaces the file.
fn write_line(database: &Database, path: &Path, results: &Results) -> std::io::Result<()> {
    let mut value = serde_json::to_value(results)?;
    if !database.include_full_bundle
        && let Some(evaluators) = value["evaluators"].as_array_mut()
    {
        for evaluator in evaluators.iter_mut().filter_map(Value::as_object_mut) {
            evaluator.remove("assertions");
            evaluator.remove("artifacts");
        }
    }
    value["exported_at"] = json!(Timestamp::now().to_string());
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let mut options = std::fs::OpenOptions::new();
    options.create(true).write(true).append(database.append).truncate(!database.append);
    options.open(path)?.write_all(format!("{value}\n").as_bytes())
}

fn expand(text: &str, runner: &Runner) -> Result<String, TrialError> {
    with_environment(text, |name| runner.env.get(name).cloned())
        .map_err(|name| TrialError::NoVariable { name })
}
