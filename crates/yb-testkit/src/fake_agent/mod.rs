//! The implementation of `fake-agent`: finds its script and runs it.

mod content;
mod dump;
mod files;
mod runner;
mod scheduler;
mod script;
mod signals;
mod spawn;
mod stdio;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use runner::ScriptRunner;
use script::{Script, Steps};

/// The environment variable with the path of the script.
pub const SCRIPT_VARIABLE: &str = "YB_FAKE_AGENT_SCRIPT";

/// The exit code if a script can't be found, parsed or run.
pub const EXIT_BAD_SCRIPT: i32 = 99;

/// The exit code if an `expect` step got another line, or timed out.
pub const EXIT_UNEXPECTED: i32 = 98;

/// Why a script failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The script is invalid, or a step failed.
    Script(String),
    /// An expectation was not met.
    Unexpected(String),
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self::Script(message)
    }
}

/// Runs the script of this process and returns its exit code.
#[must_use]
pub fn main() -> i32 {
    match run() {
        Ok(code) => code,
        Err(failure) => report(&failure),
    }
}

/// Prints the failure to stderr and returns its exit code.
pub(crate) fn report(failure: &Failure) -> i32 {
    let (message, code) = match failure {
        Failure::Script(message) => (message, EXIT_BAD_SCRIPT),
        Failure::Unexpected(message) => (message, EXIT_UNEXPECTED),
    };
    // Ignore errors, so that a closed stderr does not hide the failure.
    let _ = writeln!(std::io::stderr(), "fake-agent: {message}");
    code
}

fn run() -> Result<i32, Failure> {
    let args: Vec<OsString> = std::env::args_os().collect();
    if args.get(1).is_some_and(|arg| arg == spawn::STEPS_FLAG) {
        let json = args.get(2).and_then(|arg| arg.to_str()).ok_or("missing steps".to_owned())?;
        return run_inherited_steps(json);
    }
    let path = script_path(&args)?;
    let yaml = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let script = Script::parse(&yaml).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut runner = ScriptRunner::new(scheduler::now_ms() + script.cap_s * 1000, content::Vars::new());
    runner.run(&script.steps)
}

/// Runs the steps that were passed by another process of the same script.
fn run_inherited_steps(json: &str) -> Result<i32, Failure> {
    let bad = |error: serde_json::Error| Failure::Script(format!("inherited steps: {error}"));
    let mut part: Value = serde_json::from_str(json).map_err(bad)?;
    let steps: Steps = serde_json::from_value(part["steps"].take()).map_err(bad)?;
    let vars = serde_json::from_value(part["vars"].take()).map_err(bad)?;
    let deadline_ms = part["deadline_ms"].as_u64().unwrap_or_default();
    if part["setsid"] == true {
        rustix::process::setsid().map_err(|error| format!("setsid: {error}"))?;
    }
    ScriptRunner::new(deadline_ms, vars).run(&steps)
}

/// Finds the script: `--script PATH`, then the environment variable, then `<program>.yaml` beside the
/// program.
fn script_path(args: &[OsString]) -> Result<PathBuf, Failure> {
    if args.get(1).is_some_and(|arg| arg == "--script") {
        return args.get(2).map(PathBuf::from).ok_or(Failure::Script("--script takes a path".to_owned()));
    }
    if let Some(path) = std::env::var_os(SCRIPT_VARIABLE) {
        return Ok(path.into());
    }
    let called_as = args.first().map(PathBuf::from).filter(|name| name.components().count() > 1);
    let candidates: Vec<PathBuf> =
        called_as.into_iter().chain(std::env::current_exe()).map(|program| script_beside(&program)).collect();
    candidates.iter().find(|path| path.is_file()).cloned().ok_or_else(|| {
        Failure::Script(format!(
            "no script: pass `--script PATH`, set {SCRIPT_VARIABLE}, or create one of: {candidates:?}"
        ))
    })
}

/// Returns the path of the script beside a program.
pub(crate) fn script_beside(program: &Path) -> PathBuf {
    let mut path = program.as_os_str().to_owned();
    path.push(".yaml");
    path.into()
}

/// Validates a script.
pub(crate) fn check(yaml: &str) -> Result<(), String> {
    Script::parse(yaml).map(drop)
}
