//! Installs the fake agent into a directory, under the name of the agent that it replaces.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::fake_agent;

/// Installs a fake agent: `FakeAgent::in_dir(dir).name("claude").script(yaml)`.
#[derive(Debug, Clone)]
pub struct FakeAgent {
    dir: PathBuf,
    name: String,
}

impl FakeAgent {
    /// Sets the directory, which is created if needed.
    #[must_use]
    pub fn in_dir(dir: impl AsRef<Path>) -> Self {
        Self { dir: dir.as_ref().to_owned(), name: "fake-agent".to_owned() }
    }

    /// Sets the file name of the program. Default: `fake-agent`.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Installs the program with its script beside it, and returns the path of the program.
    ///
    /// # Panics
    /// Panics if the script is invalid or the program can't be installed.
    #[track_caller]
    #[must_use]
    pub fn script(self, yaml: &str) -> PathBuf {
        if let Err(error) = fake_agent::check(yaml) {
            panic!("invalid fake agent script: {error}\n{yaml}");
        }
        let failed = |what: &Path, error: std::io::Error| -> ! { panic!("{}: {error}", what.display()) };
        std::fs::create_dir_all(&self.dir).unwrap_or_else(|error| failed(&self.dir, error));
        let program = self.dir.join(&self.name);
        install(&crate::bin("fake-agent"), &program).unwrap_or_else(|error| panic!("{error}"));
        let script = fake_agent::script_beside(&program);
        std::fs::write(&script, yaml).unwrap_or_else(|error| failed(&script, error));
        program
    }
}

/// Creates a hard link, or a copy across file systems.
fn install(from: &Path, to: &Path) -> Result<(), String> {
    match std::fs::remove_file(to) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(format!("{}: {error}", to.display()));
        }
        _ => {}
    }
    if std::fs::hard_link(from, to).is_ok() {
        return Ok(());
    }
    // Not `fs::copy`: a process spawned concurrently would inherit the writable descriptor, and executing the
    // program would fail with ETXTBSY until that process exits.
    let status = Command::new("cp").arg("--").arg(from).arg(to).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("cp to {}: {status}", to.display())),
        Err(error) => Err(format!("cp to {}: {error}", to.display())),
    }
}
