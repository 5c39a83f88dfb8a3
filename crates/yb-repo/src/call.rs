//! One run of git: its environment is built here and nowhere else.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use yb_supervise::{Child, Command, End, Output, OutputMode, PauseSwitch, Report, Stdin};

use super::error::GitError;
use super::git::Git;

/// How much of an answer is kept in memory.
const ANSWER_LIMIT: usize = 256 << 20;
/// The longest line of a git that stays.
const LINE_LIMIT: usize = 1 << 20;
/// How much of git's words goes into an error.
const WORDS_LIMIT: usize = 4096;

/// What of the user's own is passed on when something is fetched from a remote: what finds and proves who they
/// are, and the way out of their network. Their hooks and filters play no part in fetching.
const USERS_OWN: [&str; 18] = [
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

/// With whose configuration git runs, and where it may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    /// Ours, and nowhere.
    Hermetic,
    /// Ours, and a repository on this machine.
    Local,
    /// The user's, and a remote.
    Remote,
}

/// A git command that is being put together.
#[must_use]
pub(crate) struct Call<'a> {
    git: &'a Git,
    name: &'static str,
    args: Vec<OsString>,
    settings: Vec<String>,
    cwd: Option<PathBuf>,
    git_dir: Option<PathBuf>,
    work_tree: Option<PathBuf>,
    index: Option<PathBuf>,
    stdin: Vec<u8>,
    access: Access,
    secrets: Vec<(String, Vec<u8>)>,
}

impl<'a> Call<'a> {
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

    /// A setting for this command alone, `name=value`.
    pub(crate) fn setting(mut self, setting: impl Into<String>) -> Self {
        self.settings.push(setting.into());
        self
    }

    pub(crate) fn current_dir(mut self, dir: &Path) -> Self {
        self.cwd = Some(dir.to_owned());
        self
    }

    /// The repository; git does not search for one.
    pub(crate) fn git_dir(mut self, dir: &Path) -> Self {
        self.git_dir = Some(dir.to_owned());
        self
    }

    pub(crate) fn work_tree(mut self, dir: &Path) -> Self {
        self.work_tree = Some(dir.to_owned());
        self
    }

    /// Another index than the repository's own.
    pub(crate) fn index(mut self, path: &Path) -> Self {
        self.index = Some(path.to_owned());
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

    /// Lets git go to a remote, with the user's credentials.
    pub(crate) fn remote(mut self) -> Self {
        self.access = Access::Remote;
        self
    }

    /// A value that must not be seen in what git says.
    pub(crate) fn secret(mut self, name: &str, value: &str) -> Self {
        self.secrets.push((name.to_owned(), value.as_bytes().to_vec()));
        self
    }

    /// More values that must not be seen in what git says.
    pub(crate) fn secrets(mut self, secrets: &[(String, Vec<u8>)]) -> Self {
        self.secrets.extend_from_slice(secrets);
        self
    }

    /// Runs it and gives stdout.
    pub(crate) async fn bytes(mut self) -> Result<Vec<u8>, GitError> {
        let name = self.name;
        let stdin = std::mem::take(&mut self.stdin);
        let stdin = if stdin.is_empty() { Stdin::None } else { Stdin::Bytes(stdin.into()) };
        let report = self.command().stdin(stdin).run().await;
        answer(name, report)
    }

    /// Runs it and gives stdout as text, without the newline at its end.
    pub(crate) async fn text(self) -> Result<String, GitError> {
        let name = self.name;
        match String::from_utf8(self.bytes().await?) {
            Ok(text) => Ok(text.trim_end_matches('\n').to_owned()),
            Err(_) => Err(unusable(name, "not UTF-8")),
        }
    }

    /// Its name, how long an answer may take, and what holds it.
    pub(super) fn for_session(&self) -> (&'static str, Duration, PauseSwitch) {
        (self.name, self.git.deadline, self.git.pause.clone())
    }

    /// Starts it, to be talked with for as long as that takes.
    pub(super) async fn spawn(self) -> Result<Child, GitError> {
        let output = OutputMode::Stream { line_limit: LINE_LIMIT, tee: None };
        let command = self.command().stdin(Stdin::Interactive).output(output).deadline(Duration::ZERO);
        Ok(command.spawn().await?)
    }

    /// Runs it and writes stdout to a file, without the secrets.
    pub(crate) async fn into_file(
        self,
        path: &Path,
        ceiling: u64,
    ) -> Result<yb_supervise::LogSummary, GitError> {
        let name = self.name;
        let output = OutputMode::Stream { line_limit: 1, tee: Some(path.to_owned()) };
        let mut running = self.command().output(output).log_ceiling(ceiling).spawn().await?;
        // Nobody reads the lines: the file gets them all the same, and git never waits.
        drop(running.lines());
        let report = running.wait().await;
        let log = report.log;
        if let Some(warning) = report
            .warnings
            .iter()
            .find(|warning| matches!(warning, yb_supervise::Warning::WriteFailed { .. }))
        {
            return Err(unusable(name, &warning.to_string()));
        }
        answer(name, report)?;
        Ok(log)
    }

    fn command(self) -> Command {
        let git = self.git;
        let mut command = Command::new(&git.program)
            .launch(git.launch)
            .deadline(git.deadline)
            .cancel_on(git.cancel.clone())
            .pause_on(git.pause.clone())
            .output(OutputMode::Capture { limit: ANSWER_LIMIT })
            // Git's words are shown and matched in English, and its answers never depend on a locale.
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
                let users = USERS_OWN.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
                let mut ssh = std::env::var_os("GIT_SSH_COMMAND").unwrap_or_else(|| "ssh".into());
                ssh.push(" -oBatchMode=yes");
                command.envs(users).env("GIT_SSH_COMMAND", ssh).env("GIT_ALLOW_PROTOCOL", "http:https:ssh")
            }
        };
        // Without a repository named, none is searched for: the parents of a directory may belong to anybody.
        let git_dir = self.git_dir.unwrap_or_else(|| PathBuf::from("/nonexistent"));
        let cwd = self.cwd.or_else(|| self.work_tree.clone()).unwrap_or_else(|| git_dir.clone());
        command = command.env("GIT_DIR", &git_dir).current_dir(cwd);
        if let Some(work_tree) = &self.work_tree {
            command = command.env("GIT_WORK_TREE", work_tree);
        }
        if let Some(index) = &self.index {
            command = command.env("GIT_INDEX_FILE", index);
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

pub(super) fn unusable(command: &str, what: &str) -> GitError {
    GitError::Answer { command: command.to_owned(), what: what.to_owned() }
}

/// What git said, or why it did not.
pub(super) fn answer(name: &'static str, report: Report) -> Result<Vec<u8>, GitError> {
    let command = name.to_owned();
    let (stdout, stderr, dropped) = match &report.output {
        Output::Captured(captured) => (captured.stdout(), captured.stderr(), captured.dropped()),
        Output::Streamed { stderr_tail, .. } => (Vec::new(), stderr_tail.clone(), 0),
        _ => (Vec::new(), Vec::new(), 0),
    };
    match report.end {
        End::Exited { code: 0 } if dropped > 0 => {
            Err(unusable(name, &format!("longer than {ANSWER_LIMIT} bytes")))
        }
        End::Exited { code: 0 } => Ok(stdout),
        End::TimedOut { after } => Err(GitError::TimedOut { command, after }),
        End::Cancelled => Err(GitError::Cancelled { command }),
        End::SpawnFailed(error) => Err(GitError::Spawn(error)),
        end => Err(GitError::Failed { command, how: end.to_string(), stderr: words(&stderr) }),
    }
}

/// The end of what git said, where its reason stands.
fn words(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let text = text.trim();
    let mut start = text.len().saturating_sub(WORDS_LIMIT);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    text.get(start..).unwrap_or_default().to_owned()
}
