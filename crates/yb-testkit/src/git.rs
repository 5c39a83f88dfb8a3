//! Hermetic git repositories: real git without the machine's configuration, and deterministic commit ids.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// Author and committer of every commit.
const NAME: &str = "Test Author";
const EMAIL: &str = "test@example.com";

/// The date of every commit, which makes commit ids deterministic.
const DATE: &str = "2026-01-02T03:04:05+00:00";

/// Fallback PATH, for a process with an empty environment.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/opt/homebrew/bin";

/// Returns a command that runs git in `dir` without the machine's git configuration.
///
/// Its HOME does not exist unless the caller sets one.
#[must_use]
pub fn command(dir: &Path) -> Command {
    let mut command = Command::new("git");
    command.current_dir(dir).env_clear();
    command.env("PATH", std::env::var_os("PATH").unwrap_or_else(|| USUAL_PATH.into()));
    for (name, value) in [
        ("HOME", "/nonexistent"),
        ("LANG", "C.UTF-8"),
        ("LC_ALL", "C.UTF-8"),
        ("TZ", "UTC"),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_ATTR_NOSYSTEM", "1"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_EDITOR", "false"),
        ("GIT_AUTHOR_NAME", NAME),
        ("GIT_AUTHOR_EMAIL", EMAIL),
        ("GIT_AUTHOR_DATE", DATE),
        ("GIT_COMMITTER_NAME", NAME),
        ("GIT_COMMITTER_EMAIL", EMAIL),
        ("GIT_COMMITTER_DATE", DATE),
    ] {
        command.env(name, value);
    }
    command.args(["-c", "commit.gpgSign=false", "-c", "tag.gpgSign=false", "-c", "core.autocrlf=false"]);
    command.args(["-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0", "-c", "maintenance.auto=false"]);
    command
}

/// Runs git and returns its stdout, or an error with its stderr.
pub(crate) fn run(dir: &Path, home: Option<&Path>, args: &[&str]) -> Result<String, String> {
    let mut command = command(dir);
    if let Some(home) = home {
        command.env("HOME", home);
    }
    let output = command
        .args(args)
        .stdin(std::process::Stdio::null())
        .output()
        .map_err(|error| format!("failed to run git in {}: {error}", dir.display()))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(format!("`git {}` failed in {}: {}", args.join(" "), dir.display(), stderr.trim_end()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A repository for one test. Methods panic with git's stderr if git fails.
#[derive(Debug)]
pub struct Repo {
    dir: PathBuf,
    home: TempDir,
}

impl Repo {
    /// Creates an empty repository on branch `main` in `dir`, creating the directory if needed.
    ///
    /// # Panics
    /// Panics if git fails.
    #[must_use]
    pub fn init(dir: impl AsRef<Path>) -> Self {
        let dir = dir.as_ref().to_owned();
        fs::create_dir_all(&dir).unwrap_or_else(|error| panic!("create {}: {error}", dir.display()));
        let home = TempDir::with_prefix("yb-git-home-").unwrap_or_else(|error| panic!("temp dir: {error}"));
        let repo = Self { dir, home };
        // An empty template avoids sample hooks and excludes.
        repo.git(&["init", "--quiet", "--template=", "--initial-branch=main"]);
        repo
    }

    /// Returns the working tree.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// Runs git in the repository and returns its stdout.
    ///
    /// # Panics
    /// Panics if git fails.
    #[track_caller]
    pub fn git(&self, args: &[&str]) -> String {
        run(&self.dir, Some(self.home.path()), args).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Writes a file, creating parent directories.
    ///
    /// # Panics
    /// Panics if it can't be written.
    #[track_caller]
    pub fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> &Self {
        let path = self.dir.join(path);
        let written =
            path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&path, content));
        written.unwrap_or_else(|error| panic!("write {}: {error}", path.display()));
        self
    }

    /// Commits everything, even without changes, and returns the commit id.
    #[track_caller]
    pub fn commit(&self, message: &str) -> String {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "-m", message]);
        self.rev_parse("HEAD")
    }

    /// Returns the commit id of a revision.
    #[must_use]
    #[track_caller]
    pub fn rev_parse(&self, revision: &str) -> String {
        self.git(&["rev-parse", "--verify", "--end-of-options", revision]).trim_end().to_owned()
    }

    /// Returns the changes since the last commit, one `XY path` per line.
    #[must_use]
    #[track_caller]
    pub fn status(&self) -> String {
        self.git(&["status", "--porcelain", "--untracked-files=all"])
    }

    /// Returns the subjects of all commits, newest first.
    #[must_use]
    #[track_caller]
    pub fn log(&self) -> Vec<String> {
        self.git(&["log", "--format=%s"]).lines().map(str::to_owned).collect()
    }
}
