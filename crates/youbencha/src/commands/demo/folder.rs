//! The files of the demo: a repository with a failing test, a suite, a model script and a hidden test.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;
use yb_engine::adapter::{Adapter as _, ClaudeCode, Command as AnyProgram};
use yb_supervise::{Command, End, Launch};

use super::agent::{DemoAgent, VERSION};
use crate::error::{CliError, ErrorKind};

const SUITE: &str = include_str!("../../../demo/suite.yaml");
/// The placeholder of the agent in the suite.
const PLACEHOLDER: &str = "AGENT";
const FILES: [(&str, &str); 4] = [
    ("repo/greet.sh", include_str!("../../../demo/greet.sh")),
    ("repo/test.sh", include_str!("../../../demo/test.sh")),
    ("model.yaml", include_str!("../../../demo/model.yaml")),
    ("hidden/hidden.sh", include_str!("../../../demo/hidden.sh")),
];
const DEADLINE: Duration = Duration::from_secs(60);

/// Creates the files in a new directory.
pub(super) fn make(requested: Option<&Path>, agent: &DemoAgent) -> Result<PathBuf, CliError> {
    let failed = || CliError::failed_to("create the demo directory");
    let folder = match requested {
        Some(dir) => {
            let dir = std::path::absolute(dir).map_err(failed())?;
            if dir.exists() && std::fs::read_dir(&dir).map_err(failed())?.next().is_some() {
                let message = format!("directory is not empty: `{}`", dir.display());
                return Err(CliError::new(ErrorKind::Usage, message).hint("choose a new directory"));
            }
            dir
        }
        None => {
            let new = tempfile::Builder::new().prefix("yb-demo-").tempdir().map_err(failed())?;
            new.keep()
        }
    };
    for (path, content) in FILES.into_iter().chain([("suite.yaml", suite(agent).as_str())]) {
        let path = folder.join(path);
        let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        made.and_then(|()| std::fs::write(&path, content)).map_err(CliError::failed_to("write a file"))?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(CliError::failed_to("start"))?.block_on(async {
        let repo = folder.join("repo");
        git(&repo, &["init", "--quiet", "--initial-branch=main"]).await?;
        git(&repo, &["add", "."]).await?;
        git(&repo, &["commit", "--quiet", "--message=a failing test"]).await
    })?;
    Ok(folder)
}

fn suite(agent: &DemoAgent) -> String {
    // JSON is valid YAML and handles quoting.
    let written = match agent {
        DemoAgent::At(_) => json!({ "type": ClaudeCode.spec().name }),
        DemoAgent::Pinned => json!({ "type": ClaudeCode.spec().name, "version": VERSION }),
        DemoAgent::BuiltIn(_) => {
            let program = std::env::current_exe().unwrap_or_else(|_| "yb".into());
            let own = json!({ "argv": [program, "scripted-agent"], "output": "claude-stream-json" });
            let name = AnyProgram.spec().name;
            json!({ "type": name, "config": { name: own } })
        }
    };
    let mut line = written.to_string();
    if let (DemoAgent::At(path), Some(npm)) = (agent, ClaudeCode.spec().npm()) {
        let path_variable = npm.path_variable;
        line.push_str(&format!("\n    env: {}", json!({ path_variable: path })));
    }
    SUITE.replacen(PLACEHOLDER, &line, 1)
}

/// Runs git without the configuration of the user.
async fn git(repo: &Path, args: &[&str]) -> Result<(), CliError> {
    let mut command =
        Command::new("git").args(args).current_dir(repo).launch(Launch::Contained).deadline(DEADLINE);
    for (name, value) in [
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_AUTHOR_NAME", "yb demo"),
        ("GIT_AUTHOR_EMAIL", "demo@localhost"),
        ("GIT_COMMITTER_NAME", "yb demo"),
        ("GIT_COMMITTER_EMAIL", "demo@localhost"),
    ] {
        command = command.env(name, value);
    }
    let report = command.run().await;
    let output =
        report.output.captured().map(|captured| captured.text().text.into_owned()).unwrap_or_default();
    match report.end {
        End::Exited { code: 0 } => Ok(()),
        End::SpawnFailed(error) => Err(error.into()),
        end => {
            Err(CliError::new(ErrorKind::Infrastructure, format!("git {} {end}", args[0])).caused_by(output))
        }
    }
}
