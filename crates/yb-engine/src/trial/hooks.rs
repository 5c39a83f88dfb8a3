//! Hooks: commands that ready the workspace before the agent, and what happens with the results afterwards.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};
use yb_supervise::{Command, Launch, OutputMode, Sandbox};

use super::place::Place;
use super::{Runner, TrialError, View, webhook};
use yb_agents::{Environment, Places, base_view, connect, limit};
use yb_case::{Case, Database, Limits, PostHook, Script, with_environment};
use yb_model::results::Results;

/// How much of a hook's output is kept.
pub(super) const SHOWN: usize = 1000;
const READ: usize = 1 << 20;

/// The file in the artifacts that tells how each hook went.
pub(super) const HOOKS_FILE: &str = "hooks.json";

/// The folder in the artifacts into which hooks before the agent may write when they are in a sandbox. They run what
/// the repository brings, which is to have no hand in any other file there.
const FROM_HOOKS: &str = "pre-execution";

/// How one hook went.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct HookResult {
    /// `pre_execution` or `post_evaluation`.
    pub moment: &'static str,
    /// The kind of hook: `script`, `webhook` or `database`.
    pub hook: &'static str,
    /// The command, the file, or the method and the host.
    pub what: String,
    /// Whether it did what it was to do.
    pub succeeded: bool,
    /// How it ended, in one line.
    pub message: String,
    /// The end of what it printed, or the beginning of what was answered.
    pub output: String,
    /// How long it took.
    pub duration_ms: u64,
    /// When it was done, ISO 8601.
    pub timestamp: String,
}

impl HookResult {
    /// The error that a failed hook before the agent is.
    pub(super) fn error(&self) -> TrialError {
        let said = if self.output.is_empty() { String::new() } else { format!("\n{}", self.output) };
        TrialError::Hook { command: self.what.clone(), reason: format!("{}{said}", self.message) }
    }
}

/// Runs a hook before the agent: in the workspace, with a short list of variables.
pub(super) async fn before(
    hook: &Script,
    case: &Case,
    place: &Place,
    runner: &Runner,
    branch: &str,
    view: &View,
) -> Result<HookResult, TrialError> {
    let sandboxed = view.isolation.kind().is_some();
    let artifacts = if sandboxed { place.artifacts.join(FROM_HOOKS) } else { place.artifacts.clone() };
    let workspace = place.workspace.to_string_lossy().into_owned();
    let variables = [
        ("WORKSPACE_DIR", workspace.clone()),
        ("REPO_DIR", workspace),
        ("ARTIFACTS_DIR", artifacts.to_string_lossy().into_owned()),
        ("TEST_CASE_NAME", case.name.clone()),
        ("REPO_URL", case.start.to_string()),
        ("BRANCH", branch.to_owned()),
    ];
    let sandbox = if sandboxed { Some(sandbox(hook, &artifacts, place, runner, view)?) } else { None };
    let held = Held { sandbox, limits: Some((view.limits, place.hooks.clone())) };
    let at = (place.workspace.as_path(), held);
    script(hook, "pre_execution", &variables, at, runner, &runner.secrets(case)?).await
}

/// What a hook before the agent sees: what the agent will, and a folder of the artifacts.
fn sandbox(
    hook: &Script,
    artifacts: &Path,
    place: &Place,
    runner: &Runner,
    view: &View,
) -> Result<Sandboxed, TrialError> {
    std::fs::create_dir_all(artifacts).map_err(TrialError::io(artifacts))?;
    let mut env = Environment::new();
    for (name, value) in &hook.env {
        env.insert(name.into(), fill(value, runner)?.into());
    }
    let places = Places { workspace: &place.workspace, private: &place.hooks, hidden: &view.hidden };
    let sandbox = base_view(places, &env).map_err(TrialError::io(&place.hooks))?.writable(artifacts);
    let sandbox = sandbox.kind(view.isolation.kind().unwrap_or_default());
    let sandbox = connect(sandbox, &view.network, None);
    Ok(Sandboxed { sandbox, private: place.hooks.clone() })
}

/// What holds a hook before the agent; one after it is the user's own command.
#[derive(Default)]
struct Held {
    sandbox: Option<Sandboxed>,
    /// With the directory that counts beside the workspace.
    limits: Option<(Limits, PathBuf)>,
}

/// A hook's view, and where its HOME and TMPDIR are.
struct Sandboxed {
    sandbox: Sandbox,
    private: PathBuf,
}

/// Does what the case wants done with the results. A hook that fails is told, and changes nothing.
pub(super) async fn after(
    hook: &PostHook,
    case: &Case,
    place: &Place,
    runner: &Runner,
    results: &Results,
) -> Result<HookResult, TrialError> {
    match hook {
        PostHook::Script(hook) => {
            let variables = [
                ("RESULTS_PATH", place.artifacts.join(super::RESULTS_FILE).to_string_lossy().into_owned()),
                ("ARTIFACTS_DIR", place.artifacts.to_string_lossy().into_owned()),
                ("WORKSPACE_DIR", place.workspace.to_string_lossy().into_owned()),
                ("TEST_CASE_NAME", case.name.clone()),
                ("OVERALL_STATUS", results.summary.overall_status.to_owned()),
            ];
            let here = std::env::current_dir().unwrap_or_else(|_| case.dir.clone());
            script(
                hook,
                "post_evaluation",
                &variables,
                (&here, Held::default()),
                runner,
                &runner.secrets(case)?,
            )
            .await
        }
        PostHook::Database(database) => {
            let began = std::time::Instant::now();
            let path = case.dir.join(fill(&database.output_path, runner)?);
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
            let artifacts = hook.include_artifacts.then_some(place.artifacts.as_path());
            webhook::send(hook, artifacts, runner, results, &runner.secrets(case)?).await
        }
    }
}

/// Runs a command through a shell, as its user wrote it.
async fn script(
    hook: &Script,
    moment: &'static str,
    variables: &[(&str, String)],
    (directory, held): (&Path, Held),
    runner: &Runner,
    secrets: &[(String, Vec<u8>)],
) -> Result<HookResult, TrialError> {
    let mut line = fill(&hook.command, runner)?;
    for arg in &hook.args {
        let replace =
            |arg: String, (name, value): &(&str, String)| arg.replace(&format!("${{{name}}}"), value);
        let arg = variables.iter().fold(fill(arg, runner)?, replace);
        line.push_str(&format!(" '{}'", arg.replace('\'', "'\\''")));
    }
    let workspace = directory.to_owned();
    let directory: PathBuf =
        hook.working_dir.as_ref().map_or_else(|| directory.to_owned(), |dir| directory.join(dir));
    let mut command = Command::new("sh")
        .args(["-c", &line])
        .current_dir(directory)
        .launch(Launch::Contained)
        .output(OutputMode::Capture { limit: READ })
        .deadline(hook.timeout)
        .cancel_on(runner.stop.token().clone())
        .pause_on(runner.pause.clone())
        .envs(variables.iter().map(|(name, value)| (name, value)));
    for name in ["HOME", "USER"] {
        if let Some(value) = runner.env.get(name) {
            command = command.env(name, value);
        }
    }
    if let Some((limits, private)) = &held.limits {
        command = limit(command, limits, [&workspace, private], None);
    }
    if let Some(Sandboxed { sandbox, private }) = held.sandbox {
        command =
            command.sandbox(sandbox).env("HOME", private.join("home")).env("TMPDIR", private.join("tmp"));
    }
    for (name, value) in &hook.env {
        command = command.env(name, fill(value, runner)?);
    }
    for (name, value) in secrets {
        command = command.secret(name, value.clone());
    }
    if let Some(shim) = &runner.shim {
        command = command.shim(shim);
    }
    let report = command.run().await;
    let said =
        report.output.captured().map(|output| output.text().text.trim().to_owned()).unwrap_or_default();
    let from = said.char_indices().rev().nth(SHOWN).map_or(0, |(at, _)| at);
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

/// One line of JSON for each run; or the file anew.
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

fn fill(text: &str, runner: &Runner) -> Result<String, TrialError> {
    with_environment(text, |name| runner.env.get(name).cloned())
        .map_err(|name| TrialError::NoVariable { name })
}
