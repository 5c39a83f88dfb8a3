//! `pre_execution`: commands that ready the workspace before the agent, and before the start tree is recorded.

use yb_supervise::{Command, Launch, OutputMode};

use super::place::Place;
use super::{Runner, TrialError};
use crate::case::{Case, Script, Start, with_environment};

/// How much of a hook's output an error shows.
const SHOWN: usize = 1000;
const KEPT: usize = 1 << 20;

/// Runs one command through a shell, as its users wrote it, with a short list of variables.
pub(super) async fn run(
    hook: &Script,
    case: &Case,
    place: &Place,
    runner: &Runner,
    branch: &str,
) -> Result<(), TrialError> {
    let get = |name: &str| runner.env.get(name).cloned();
    let fill = |text: &str| with_environment(text, get).map_err(|name| TrialError::NoVariable { name });
    let workspace = place.workspace.to_string_lossy().into_owned();
    let repo = match &case.start {
        Start::Repo { repo, .. } => repo.clone(),
        Start::Directory(path) => path.display().to_string(),
    };
    let ours = [
        ("WORKSPACE_DIR", workspace.clone()),
        ("REPO_DIR", workspace),
        ("ARTIFACTS_DIR", place.artifacts.to_string_lossy().into_owned()),
        ("TEST_CASE_NAME", case.name.clone()),
        ("REPO_URL", repo),
        ("BRANCH", branch.to_owned()),
    ];
    let mut line = fill(&hook.command)?;
    for arg in &hook.args {
        let arg =
            ours.iter().fold(fill(arg)?, |arg, (name, value)| arg.replace(&format!("${{{name}}}"), value));
        line.push_str(&format!(" '{}'", arg.replace('\'', "'\\''")));
    }
    let directory = match &hook.working_dir {
        Some(directory) => place.workspace.join(directory),
        None => place.workspace.clone(),
    };
    let mut command = Command::new("sh")
        .args(["-c", &line])
        .current_dir(directory)
        .launch(Launch::Contained)
        .output(OutputMode::Capture { limit: KEPT })
        .deadline(hook.timeout)
        .cancel_on(runner.cancellation.clone())
        .envs(ours.iter().map(|(name, value)| (name, value)));
    for name in ["HOME", "USER"] {
        if let Some(value) = runner.env.get(name) {
            command = command.env(name, value);
        }
    }
    for (name, value) in &hook.env {
        command = command.env(name, fill(value)?);
    }
    if let Some(shim) = &runner.shim {
        command = command.shim(shim);
    }
    let report = command.run().await;
    if report.success() {
        return Ok(());
    }
    let said =
        report.output.captured().map(|output| output.text().text.trim().to_owned()).unwrap_or_default();
    let from = said.char_indices().rev().nth(SHOWN).map_or(0, |(at, _)| at);
    let said = if said.is_empty() { String::new() } else { format!("\n{}", &said[from..]) };
    Err(TrialError::Hook { command: hook.command.clone(), reason: format!("{}{said}", report.end) })
}
