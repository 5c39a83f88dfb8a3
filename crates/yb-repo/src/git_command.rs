//! A single git command. All of its environment is set here.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use yb_supervise::{Child, Command, End, Output, OutputMode, PauseSwitch, Report, Stdin};

use super::error::GitError;
use super::git::Git;

/// The most stdout that is kept in memory.
const STDOUT_LIMIT: usize = 256 << 20;
/// The longest line of a long-running git process.
const LINE_LIMIT: usize = 1 << 20;
/// The most stderr that goes into an error.
const STDERR_LIMIT: usize = 4096;

/// The user's environment variables that are passed on when fetching from a remote, for credentials and proxies. Fetching runs none
/// of the user's hooks and filters.
const USER_VARIABLES: [&str; 18] = [
    "HOME",
    "XDG_CONFIG_HOME",
    "XDG_RUNTIME_DIR",
    "USER",
    "LOGNAME",
    "SSH_AUTH_SOCK",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_SSL_CAINFO",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "http_proxy",
    "https_proxy",
    "HTTPS_PROXY",
    "all_proxy",
    "ALL_PROXY",
    "no_proxy",
    "NO_PROXY",
];

/// Overrides for a fetch that reads the user's configuration.
const FETCH_OVERRIDES: [&str; 10] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.askPass=",
    "gc.auto=0",
    "maintenance.auto=false",
    "fetch.recurseSubmodules=false",
    "fetch.writeCommitGraph=false",
    "fetch.bundleURI=",
    "transfer.credentialsInUrl=allow",
    "protocol.version=2",
];

/// The configuration that git uses, and the repositories that it may access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    /// Our configuration, and no other repository.
    Hermetic,
    /// Our configuration, and a repository on this machine.
    Local,
    /// The user's configuration, and a remote.
    Remote,
}

/// A builder for a git command.
#[must_use]
pub(crate) struct GitCommand<'a> {
    git: &'a Git,
    name: &'static str,
    args: Vec<OsString>,
    settings: Vec<String>,
    cwd: Option<PathBuf>,
    git_dir: Option<PathBuf>,
    work_tree: Option<PathBuf>,
    index: Option<PathBuf>,
    alternate: Option<PathBuf>,
    stdin: Vec<u8>,
    access: Access,
    secrets: Vec<(String, Vec<u8>)>,
}

impl<'a> GitCommand<'a> {
    pub(super) fn new(git: &'a Git, name: &'static str) -> Self {
        Self {
            git,
            name,
            args: Vec::new(),
            settings: Vec::new(),
            cwd: None,
            git_dir: None,
            work_tree: None,
            index: None,
            alternate: None,
            stdin: Vec::new(),
            access: Access::Hermetic,
            secrets: Vec::new(),
        }
    }

    pub(crate) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    pub(crate) fn args<I: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = I>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Adds a configuration setting, `name=value`.
    pub(crate) fn setting(mut self, setting: impl Into<String>) -> Self {
        self.settings.push(setting.into());
        self
    }

    pub(crate) fn current_dir(mut self, dir: &Path) -> Self {
        self.cwd = Some(dir.to_owned());
        self
    }

    /// Sets the repository; git never searches for one.
    pub(crate) fn git_dir(mut self, dir: &Path) -> Self {
        self.git_dir = Some(dir.to_owned());
        self
    }

    pub(crate) fn work_tree(mut self, dir: &Path) -> Self {
        self.work_tree = Some(dir.to_owned());
        self
    }

    /// Sets an index other than that of the repository.
    pub(crate) fn index(mut self, path: &Path) -> Self {
        self.index = Some(path.to_owned());
        self
    }

    /// Lets git also read the objects in a directory, whose path must not contain a colon or start with a quote.
    pub(crate) fn alternate(mut self, objects: &Path) -> Self {
        self.alternate = Some(objects.to_owned());
        self
    }

    pub(crate) fn stdin(mut self, bytes: Vec<u8>) -> Self {
        self.stdin = bytes;
        self
    }

    /// Lets git read another repository on this machine.
    pub(crate) fn local(mut self) -> Self {
        self.access = Access::Local;
        self
    }

    /// Lets git access a remote, with the user's credentials.
    pub(crate) fn remote(mut self) -> Self {
        self.access = Access::Remote;
        self
    }

    /// Adds a value to redact in git's output.
    pub(crate) fn secret(mut self, name: &str, value: &str) -> Self {
        self.secrets.push((name.to_owned(), value.as_bytes().to_vec()));
        self
    }

    /// Adds values to redact in git's output.
    pub(crate) fn secrets(mut self, secrets: &[(String, Vec<u8>)]) -> Self {
        self.secrets.extend_from_slice(secrets);
        self
    }

    /// Runs the command and returns its stdout.
    pub(crate) async fn bytes(mut self) -> Result<Vec<u8>, GitError> {
        let name = self.name;
        let stdin = std::mem::take(&mut self.stdin);
        let stdin = if stdin.is_empty() { Stdin::None } else { Stdin::Bytes(stdin.into()) };
        let report = self.command().stdin(stdin).run().await;
        stdout_of(name, report)
    }

    /// Runs the command and returns its stdout as text, without trailing newlines.
    pub(crate) async fn text(self) -> Result<String, GitError> {
        let name = self.name;
        match String::from_utf8(self.bytes().await?) {
            Ok(text) => Ok(text.trim_end_matches('\n').to_owned()),
            Err(_) => Err(bad_output(name, "not UTF-8")),
        }
    }

    /// The subcommand, the timeout and the pause switch, for a [`GitSession`](super::session::GitSession).
    pub(super) fn session_settings(&self) -> (&'static str, Duration, PauseSwitch) {
        (self.name, self.git.deadline, self.git.pause.clone())
    }

    /// Spawns the command with interactive stdin and without a deadline.
    pub(super) async fn spawn(self) -> Result<Child, GitError> {
        let output = OutputMode::Stream { line_limit: LINE_LIMIT, tee: None };
        let command = self.command().stdin(Stdin::Interactive).output(output).deadline(Duration::ZERO);
        Ok(command.spawn().await?)
    }

    /// Runs the command and writes its stdout to a file, with secrets redacted.
    pub(crate) async fn into_file(
        self,
        path: &Path,
        ceiling: u64,
    ) -> Result<yb_supervise::LogSummary, GitError> {
        let name = self.name;
        let output = OutputMode::Stream { line_limit: 1, tee: Some(path.to_owned()) };
        let mut running = self.command().output(output).log_ceiling(ceiling).spawn().await?;
        // The tee writes the file whether or not the lines are read, and git never blocks.
        drop(running.lines());
        let report = running.wait().await;
        let log = report.log;
        if let Some(warning) = report
            .warnings
            .iter()
            .find(|warning| matches!(warning, yb_supervise::Warning::WriteFailed { .. }))
        {
            return Err(bad_output(name, warning.to_string()));
        }
        stdout_of(name, report)?;
        Ok(log)
    }

    fn command(self) -> Command {
        let git = self.git;
        let mut command = Command::new(&git.program)
            .launch(git.launch)
            .deadline(git.deadline)
            .cancel_on(git.cancel.clone())
            .pause_on(git.pause.clone())
            .output(OutputMode::Capture { limit: STDOUT_LIMIT })
            // Messages of git are shown and matched in English, and output must not depend on the locale.
            .env("LC_ALL", "C")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_ASKPASS", "")
            .env("SSH_ASKPASS_REQUIRE", "never")
            .env("GCM_INTERACTIVE", "never")
            .env("GIT_ATTR_NOSYSTEM", "1")
            .env("GIT_NO_REPLACE_OBJECTS", "1")
            .env("GIT_NO_LAZY_FETCH", "1")
            .env("GIT_PROTOCOL_FROM_USER", "0")
            .env("GIT_PAGER", "cat")
            .env("GIT_EDITOR", "false");
        if let Some(shim) = &git.shim {
            command = command.shim(shim);
        }
        let mut settings = self.settings;
        command = match self.access {
            Access::Hermetic | Access::Local => {
                let allowed = if self.access == Access::Local { "file" } else { "none" };
                command
                    .env("HOME", &git.home)
                    .env("GIT_CONFIG_NOSYSTEM", "1")
                    .env("GIT_CONFIG_GLOBAL", git.config())
                    .env("GIT_ALLOW_PROTOCOL", allowed)
            }
            Access::Remote => {
                settings.extend(FETCH_OVERRIDES.map(str::to_owned));
                let user = USER_VARIABLES.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
                let mut ssh = std::env::var_os("GIT_SSH_COMMAND").unwrap_or_else(|| "ssh".into());
                ssh.push(" -oBatchMode=yes");
                command.envs(user).env("GIT_SSH_COMMAND", ssh).env("GIT_ALLOW_PROTOCOL", "http:https:ssh")
            }
        };
        // Prevents git from searching parent directories for a repository: they may be under someone else's control.
        let git_dir = self.git_dir.unwrap_or_else(|| PathBuf::from("/nonexistent"));
        let cwd = self.cwd.or_else(|| self.work_tree.clone()).unwrap_or_else(|| git_dir.clone());
        command = command.env("GIT_DIR", &git_dir).current_dir(cwd);
        if let Some(work_tree) = &self.work_tree {
            command = command.env("GIT_WORK_TREE", work_tree);
        }
        if let Some(index) = &self.index {
            command = command.env("GIT_INDEX_FILE", index);
        }
        if let Some(alternate) = &self.alternate {
            command = command.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", alternate);
        }
        for setting in settings {
            command = command.arg("-c").arg(setting);
        }
        for (name, value) in self.secrets {
            command = command.secret(name, value);
        }
        command.arg(self.name).args(self.args)
    }
}

pub(super) fn bad_output(command: &str, problem: impl Into<String>) -> GitError {
    GitError::BadOutput { command: command.to_owned(), problem: problem.into() }
}

/// Returns the stdout of a successful command, or an error.
pub(super) fn stdout_of(name: &'static str, report: Report) -> Result<Vec<u8>, GitError> {
    let command = name.to_owned();
    let (stdout, stderr, dropped) = match &report.output {
        Output::Captured(captured) => (captured.stdout(), captured.stderr(), captured.dropped()),
        Output::Streamed { stderr_tail, .. } => (Vec::new(), stderr_tail.clone(), 0),
        _ => (Vec::new(), Vec::new(), 0),
    };
    match report.end {
        End::Exited { code: 0 } if dropped > 0 => {
            Err(bad_output(name, format!("longer than {STDOUT_LIMIT} bytes")))
        }
        End::Exited { code: 0 } => Ok(stdout),
        End::TimedOut { after } => Err(GitError::TimedOut { command, after }),
        End::Cancelled => Err(GitError::Cancelled { command }),
        End::SpawnFailed(error) => Err(GitError::Spawn(error)),
        end => Err(GitError::Failed { command, how: end.to_string(), stderr: stderr_tail(&stderr) }),
    }
}

/// The end of stderr, which has the reason of a failure.
fn stderr_tail(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let text = text.trim();
    let mut start = text.len().saturating_sub(STDERR_LIMIT);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    text.get(start..).unwrap_or_default().to_owned()
}
