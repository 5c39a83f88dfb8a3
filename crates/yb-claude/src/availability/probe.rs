//! The two questions that cost no tokens: which version, and who is logged in.

use std::path::Path;

use serde_json::Value;
use yb_supervise::{CapturedOutput, Command, End, Report, Stdin};

use super::{Auth, AvailabilityCheck};
use crate::env_vars as vars;
use crate::version::Version;

pub(crate) async fn version(check: &AvailabilityCheck, path: &Path) -> Result<Version, String> {
    let report = run(check, path, &["--version"]).await;
    let stdout = stdout(&report);
    match Version::from_output(&stdout) {
        Some(version) if report.success() => Ok(version),
        _ if !report.success() => Err(report.end.to_string()),
        _ => Err("it does not say its version".to_owned()),
    }
}

/// How it is authenticated; `None` when it says that it is not.
pub(crate) async fn auth(check: &AvailabilityCheck, path: &Path) -> Option<Auth> {
    let report = run(check, path, &["auth", "status"]).await;
    let unknown = |reason: String| Some(Auth::Unknown { reason });
    let End::Exited { code } = report.end else { return unknown(report.end.to_string()) };
    let Ok(status) = serde_json::from_str::<Value>(&stdout(&report)) else {
        return unknown(format!("`claude auth status` exited with code {code} and no JSON"));
    };
    let word = |key: &str| status[key].as_str().unwrap_or("unknown").to_owned();
    match status["loggedIn"].as_bool() {
        Some(true) => Some(Auth::Login { method: word("authMethod"), provider: word("apiProvider") }),
        Some(false) => None,
        None => unknown("`claude auth status` does not say".to_owned()),
    }
}

async fn run(check: &AvailabilityCheck, path: &Path, args: &[&str]) -> Report {
    let mut command = Command::new(path).args(args).stdin(Stdin::None).deadline(check.deadline);
    command = command.envs(check.env.iter().map(|(name, value)| (name, value)));
    // It must neither think that it is nested nor spend its time on anything but the answer.
    command = command.env_remove(vars::CLAUDECODE).env(vars::DISABLE_AUTOUPDATER, "1");
    command = command.env(vars::CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC, "1");
    // Not where we are: that may be a repository whose settings name programs to run.
    if let Some(folder) = path.parent().filter(|folder| folder.is_dir()) {
        command = command.current_dir(folder);
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
