//! The program behind `fake-agent`: finds its script and plays it.

mod content;
mod dump;
mod files;
mod player;
mod script;
mod signals;
mod spawn;
mod stage;
mod stdio;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use player::Player;
use script::{Script, Steps};

/// The environment variable that names the script.
pub const SCRIPT_VARIABLE: &str = "YB_FAKE_AGENT_SCRIPT";

/// The exit code when a script can't be found, read or played.
pub const EXIT_BAD_SCRIPT: i32 = 99;

/// The exit code when an `expect` step got something else, or nothing in time.
pub const EXIT_UNEXPECTED: i32 = 98;

/// Why a script ended before its end.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The script, or the machine, does not allow what a step asks.
    Script(String),
    /// The other side did not say what was expected.
    Unexpected(String),
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self::Script(message)
    }
}

/// Plays the script that belongs to this process and returns its exit code.
#[must_use]
pub fn main() -> i32 {
    match run() {
        Ok(code) => code,
        Err(failure) => report(&failure),
    }
}

/// Says on stderr why the script failed, and gives the exit code for it.
pub(crate) fn report(failure: &Failure) -> i32 {
    let (message, code) = match failure {
        Failure::Script(message) => (message, EXIT_BAD_SCRIPT),
        Failure::Unexpected(message) => (message, EXIT_UNEXPECTED),
    };
    // A closed stderr must not turn one failure into another.
    let _ = writeln!(std::io::stderr(), "fake-agent: {message}");
    code
}

fn run() -> Result<i32, Failure> {
    let args: Vec<OsString> = std::env::args_os().collect();
    if args.get(1).is_some_and(|arg| arg == spawn::PLAY_FLAG) {
        let json = args.get(2).and_then(|arg| arg.to_str()).ok_or("no steps to play".to_owned())?;
        return play_part(json);
    }
    let path = script_path(&args)?;
    let yaml = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let script = Script::parse(&yaml).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut player = Player::new(stage::now_ms() + script.cap_s * 1000, content::Vars::new());
    player.perform(&script.steps)
}

/// Plays what another process of the same script handed over.
fn play_part(json: &str) -> Result<i32, Failure> {
    let bad = |error: serde_json::Error| Failure::Script(format!("handed over steps: {error}"));
    let mut part: Value = serde_json::from_str(json).map_err(bad)?;
    let steps: Steps = serde_json::from_value(part["steps"].take()).map_err(bad)?;
    let vars = serde_json::from_value(part["vars"].take()).map_err(bad)?;
    let deadline_ms = part["deadline_ms"].as_u64().unwrap_or_default();
    if part["setsid"] == true {
        rustix::process::setsid().map_err(|error| format!("setsid: {error}"))?;
    }
    Player::new(deadline_ms, vars).perform(&steps)
}

/// `--script PATH`, else the environment variable, else `<program>.yaml` beside the program.
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
            "no script: give `--script PATH`, set {SCRIPT_VARIABLE}, or write one of: {candidates:?}"
        ))
    })
}

/// Where the script of a placed program stands.
pub(crate) fn script_beside(program: &Path) -> PathBuf {
    let mut path = program.as_os_str().to_owned();
    path.push(".yaml");
    path.into()
}

/// Refuses a script that could not be played.
pub(crate) fn check(yaml: &str) -> Result<(), String> {
    Script::parse(yaml).map(drop)
}
