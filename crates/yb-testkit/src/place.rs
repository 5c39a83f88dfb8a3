//! Puts a fake agent where a test wants it, under the name of the agent that it plays.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::fake_agent;

/// A fake agent on its way into a directory: `FakeAgent::in_dir(dir).name("claude").script(yaml)`.
#[derive(Debug, Clone)]
pub struct FakeAgent {
    dir: PathBuf,
    name: String,
}

impl FakeAgent {
    /// An agent in this directory, which is created where it is missing.
    #[must_use]
    pub fn in_dir(dir: impl AsRef<Path>) -> Self {
        Self { dir: dir.as_ref().to_owned(), name: "fake-agent".to_owned() }
    }

    /// The program's file name; `fake-agent` unless told.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Places the program with its script beside it, and gives the program's path.
    ///
    /// # Panics
    /// When the script can't be read, or the program can't be placed.
    #[track_caller]
    #[must_use]
    pub fn script(self, yaml: &str) -> PathBuf {
        if let Err(error) = fake_agent::check(yaml) {
            panic!("the fake agent's script: {error}\n{yaml}");
        }
        let failed = |what: &Path, error: std::io::Error| -> ! { panic!("{}: {error}", what.display()) };
        std::fs::create_dir_all(&self.dir).unwrap_or_else(|error| failed(&self.dir, error));
        let program = self.dir.join(&self.name);
        place(&crate::bin("fake-agent"), &program).unwrap_or_else(|error| panic!("{error}"));
        let script = fake_agent::script_beside(&program);
        std::fs::write(&script, yaml).unwrap_or_else(|error| failed(&script, error));
        program
    }
}

/// A hard link, or a copy where the file system is another one.
fn place(from: &Path, to: &Path) -> Result<(), String> {
    match std::fs::remove_file(to) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(format!("{}: {error}", to.display()));
        }
        _ => {}
    }
    if std::fs::hard_link(from, to).is_ok() {
        return Ok(());
    }
    // Not `fs::copy`: a process that another thread starts meanwhile would inherit the descriptor that
    // writes the program, and executing it would fail with ETXTBSY until that process is gone.
    let status = Command::new("cp").arg("--").arg(from).arg(to).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("cp to {}: {status}", to.display())),
        Err(error) => Err(format!("cp to {}: {error}", to.display())),
    }
}
