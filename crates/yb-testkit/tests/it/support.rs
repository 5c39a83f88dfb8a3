//! Runs a fake agent in its own directory.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use yb_testkit::FakeAgent;

/// A fake agent and its directory.
pub(crate) struct AgentDir {
    pub(crate) dir: TempDir,
    pub(crate) program: PathBuf,
}

impl AgentDir {
    pub(crate) fn new(script: &str) -> Self {
        let dir = TempDir::with_prefix("yb-kit-").unwrap();
        let program = FakeAgent::in_dir(dir.path().join("bin")).name("claude").script(script);
        Self { dir, program }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns a command that runs the program in its directory, with an empty environment.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.current_dir(self.dir.path()).env_clear();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn spawn(&self) -> Child {
        self.command().spawn().unwrap()
    }

    /// Runs it to completion.
    pub(crate) fn run(&self) -> Output {
        self.command().output().unwrap()
    }

    /// Runs it with these bytes on stdin.
    pub(crate) fn run_with(&self, stdin: &[u8]) -> Output {
        let input = self.path("stdin");
        std::fs::write(&input, stdin).unwrap();
        self.command().stdin(std::fs::File::open(input).unwrap()).output().unwrap()
    }

    pub(crate) fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.text(name)).unwrap()
    }

    pub(crate) fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }
}

/// Runs a script to completion.
pub(crate) fn run(script: &str) -> Output {
    AgentDir::new(script).run()
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Waits for a file.
pub(crate) fn wait_for(path: &Path) {
    eventually(&format!("{} appears", path.display()), || path.exists());
}

pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < end, "never true: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
