//! The real Claude Code CLI, pinned in `agents/`, and the environment that keeps it offline and hermetic.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// The command that installs it.
const INSTALL: &str = "npm ci --ignore-scripts --prefix agents";

/// The pinned CLI, with a private home for one test.
#[derive(Debug)]
pub struct RealClaude {
    program: PathBuf,
    private: TempDir,
    max_retries: u32,
}

impl RealClaude {
    /// Finds the CLI.
    ///
    /// # Panics
    /// Panics with the install command if it is not installed: tests that need it never skip.
    #[must_use]
    #[track_caller]
    pub fn new() -> Self {
        let agents = agents();
        let search = yb_claude::CliSearch::from_env(&|_| None).with_explicit(&agents);
        let found = search.find().unwrap_or_else(|error| {
            panic!("{error}\nhint: in {}, run `{INSTALL}`", workspace_root().display());
        });
        let private = TempDir::with_prefix("yb-claude-").unwrap_or_else(|error| panic!("temp dir: {error}"));
        if let Err(error) = yb_claude::hermetic::create_dirs(private.path()) {
            panic!("{}: {error}", private.path().display());
        }
        Self { program: found.path, private, max_retries: 0 }
    }

    /// Sets the number of retries after a failed model request. Default: 0.
    #[must_use]
    pub fn max_retries(mut self, max_retries: u32) -> Self {
        self.max_retries = max_retries;
        self
    }

    /// Returns the path of the native program.
    #[must_use]
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Returns the directory with its HOME, configuration and TMPDIR.
    #[must_use]
    pub fn private(&self) -> &Path {
        self.private.path()
    }

    /// Returns the version pinned in `agents/package.json`.
    ///
    /// # Panics
    /// Panics if the file has no version.
    #[must_use]
    pub fn pinned_version() -> String {
        let path = agents().join("package.json");
        let text =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let package: serde_json::Value =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let version = package["dependencies"]["@anthropic-ai/claude-code"].as_str();
        version.unwrap_or_else(|| panic!("{} does not pin Claude Code", path.display())).to_owned()
    }

    /// Returns its complete environment. All its requests go to `base_url`.
    #[must_use]
    pub fn env(&self, base_url: &str) -> Vec<(String, OsString)> {
        let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
        let own: [(&str, OsString); 5] = [
            ("PATH", path),
            ("LANG", "C.UTF-8".into()),
            ("TERM", "dumb".into()),
            ("SHELL", "/bin/bash".into()),
            ("CLAUDE_CODE_MAX_RETRIES", self.max_retries.to_string().into()),
        ];
        let hermetic = yb_claude::hermetic::environment(base_url, self.private.path());
        own.into_iter().chain(hermetic).map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

impl Default for RealClaude {
    fn default() -> Self {
        Self::new()
    }
}

fn agents() -> PathBuf {
    workspace_root().join("agents")
}

/// Returns the workspace in which this crate was compiled.
fn workspace_root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here)
}
