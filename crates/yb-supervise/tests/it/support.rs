//! How the tests start their children.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use yb_supervise::{Command, ContainmentMethod, Launch};
use yb_testkit::{FakeAgent, Process};

/// Ten times the targets of the design: a guard against hangs, not a measurement (see `bench/`).
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// A launch mode with a containment method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LaunchConfig {
    Cgroup,
    Subreaper,
    Sweep,
    Direct,
}

impl LaunchConfig {
    /// The configurations that work on every machine.
    pub(crate) const PORTABLE: [Self; 3] = [Self::Subreaper, Self::Sweep, Self::Direct];

    pub(crate) fn command(self, program: impl AsRef<Path>) -> Command {
        let command = Command::new(program.as_ref());
        let contained = |command: Command, method| {
            command.launch(Launch::Contained).shim(yb_testkit::bin("yb-shim")).containment_method(method)
        };
        match self {
            Self::Cgroup => contained(command, ContainmentMethod::Cgroup),
            Self::Subreaper => contained(command, ContainmentMethod::Subreaper),
            Self::Sweep => contained(command, ContainmentMethod::Sweep),
            Self::Direct => command.launch(Launch::Direct),
        }
    }
}

/// A contained command with the default containment method.
pub(crate) fn contained(program: impl AsRef<Path>) -> Command {
    Command::new(program.as_ref()).launch(Launch::Contained).shim(yb_testkit::bin("yb-shim"))
}

/// A temporary directory with a fake agent.
pub(crate) struct AgentDir {
    dir: TempDir,
    pub(crate) agent: PathBuf,
}

impl AgentDir {
    pub(crate) fn new(script: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let agent = FakeAgent::in_dir(dir.path()).script(script);
        Self { dir, agent }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns the agent as a contained command in its directory.
    pub(crate) fn contained(&self) -> Command {
        contained(&self.agent).current_dir(self.path())
    }

    pub(crate) fn command(&self, config: LaunchConfig) -> Command {
        config.command(&self.agent).current_dir(self.path())
    }
}

/// Sends a signal by name, unless the process is gone.
pub(crate) fn signal(process: Process, name: &str) {
    if process.is_alive() {
        let mut kill = std::process::Command::new("/bin/kill");
        let sent = kill.args([&format!("-{name}"), &process.pid.to_string()]).status().unwrap();
        assert!(sent.success() || !process.is_alive(), "kill -{name} {process}");
    }
}
