//! The ways in which every test child is started.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use yb_supervise::{Command, Launch, Means};
use yb_testkit::{FakeAgent, Process};

/// Ten times the bounds of the design: a guard against hanging, not a measurement (that is in `bench/`).
pub(crate) const GUARD: Duration = Duration::from_secs(20);

/// A launch mode with a means of containment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Cgroup,
    Subreaper,
    Sweep,
    Direct,
}

impl Way {
    /// The ways that every machine has.
    pub(crate) const EVERYWHERE: [Self; 3] = [Self::Subreaper, Self::Sweep, Self::Direct];

    pub(crate) fn command(self, program: impl AsRef<Path>) -> Command {
        let command = Command::new(program.as_ref());
        let contained = |command: Command, means| {
            command.launch(Launch::Contained).shim(yb_testkit::bin("yb-shim")).means(means)
        };
        match self {
            Self::Cgroup => contained(command, Means::Cgroup),
            Self::Subreaper => contained(command, Means::Subreaper),
            Self::Sweep => contained(command, Means::Sweep),
            Self::Direct => command.launch(Launch::Direct),
        }
    }
}

/// A contained command with the default means.
pub(crate) fn contained(program: impl AsRef<Path>) -> Command {
    Command::new(program.as_ref()).launch(Launch::Contained).shim(yb_testkit::bin("yb-shim"))
}

/// A directory with a fake agent in it.
pub(crate) struct Stage {
    dir: TempDir,
    pub(crate) agent: PathBuf,
}

impl Stage {
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

    /// The agent as a contained command in its directory.
    pub(crate) fn contained(&self) -> Command {
        contained(&self.agent).current_dir(self.path())
    }

    pub(crate) fn command(&self, way: Way) -> Command {
        way.command(&self.agent).current_dir(self.path())
    }
}

/// Sends a signal, by its name, unless the process is gone.
pub(crate) fn signal(process: Process, name: &str) {
    if process.is_alive() {
        let mut kill = std::process::Command::new("/bin/kill");
        let sent = kill.args([&format!("-{name}"), &process.pid.to_string()]).status().unwrap();
        assert!(sent.success() || !process.is_alive(), "kill -{name} {process}");
    }
}
