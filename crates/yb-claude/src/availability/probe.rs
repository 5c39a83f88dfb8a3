//! The two probe commands: `claude --version` and `claude auth status`.

use std::path::Path;

use serde_json::Value;
use yb_supervise::{CapturedOutput, Command, End, Report, Stdin};

use super::{AuthMethod, AvailabilityCheck};
use crate::env_vars as vars;
use crate::version::Version;

pub(crate) async fn version(check: &AvailabilityCheck, path: &Path) -> Result<Version, String> {
    let report = run(check, path, &["--version"]).await;
    let stdout = stdout(&report);
    match Version::from_output(&stdout) {
        Some(version) if report.success() => Ok(version),
        _ if !report.success() => Err(report.end.to_string()),
        _ => Err("no version in the output".to_owned()),
    }
}

/// Returns the authentication method, or `None` if the CLI reports that it is not logged in.
pub(crate) async fn auth(check: &AvailabilityCheck, path: &Path) -> Option<AuthMethod> {
    let report = run(check, path, &["auth", "status"]).await;
    let unknown = |reason: String| Some(AuthMethod::Unknown { reason });
    let End::Exited { code } = report.end else { return unknown(report.end.to_string()) };
    let Ok(status) = serde_json::from_str::<Value>(&stdout(&report)) else {
        return unknown(format!("`claude auth status` exited with code {code} and did not print JSON"));
    };
    let text = |key: &str| status[key].as_str().unwrap_or("unknown").to_owned();
    match status["loggedIn"].as_bool() {
        Some(true) => Some(AuthMethod::Login { method: text("authMethod"), provider: text("apiProvider") }),
        Some(false) => None,
        None => unknown("`claude auth status` did not report `loggedIn`".to_owned()),
    }
}

async fn run(check: &AvailabilityCheck, path: &Path, args: &[&str]) -> Report {
    let mut command = Command::new(path).args(args).stdin(Stdin::None).deadline(check.timeout);
    command = command.envs(check.env.iter().map(|(name, value)| (name, value)));
    // `CLAUDECODE` would make the CLI refuse to start as a nested session.
    command = command.env_remove(vars::CLAUDECODE).env(vars::DISABLE_AUTOUPDATER, "1");
    command = command.env(vars::CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC, "1");
    // Not the current directory: it may be a repository whose settings name programs to run.
    if let Some(dir) = path.parent().filter(|dir| dir.is_dir()) {
        command = command.current_dir(dir);
    }
    if let Some(shim) = &check.shim {
        command = command.shim(shim);
    }
    command.run().await
}

fn stdout(report: &Report) -> String {
    let bytes = report.output.captured().map(CapturedOutput::stdout).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}
