//! The git program and its hermetic configuration.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use yb_supervise::{CancellationToken, Launch, PauseSwitch};

use super::error::{GitError, RepoError};
use super::files;
use super::git_command::GitCommand;

/// The minimum version of git: that of Debian 12 and of the Xcode tools of macOS 14.
pub const MIN_GIT: GitVersion = GitVersion { major: 2, minor: 39 };

/// The fact under which the version is kept between processes.
const VERSION_FACT: &str = "git-version";

/// The complete configuration of a hermetic git. It is a file and not `-c` arguments, because git does not pass those to programs
/// that it starts in another repository.
const CONFIG: &str = "\
[safe]
\tdirectory = *
\tbareRepository = all
[core]
\thooksPath = /dev/null
\tattributesFile = /dev/null
\texcludesFile = /dev/null
\tfsmonitor = false
\tuntrackedCache = false
\tautocrlf = false
\tquotePath = true
\tcommitGraph = true
[commit]
\tgpgSign = false
[tag]
\tgpgSign = false
[gc]
\tauto = 0
\tautoDetach = false
[maintenance]
\tauto = false
[submodule]
\trecurse = false
[fetch]
\trecurseSubmodules = false
\twriteCommitGraph = false
[init]
\tdefaultBranch = main
[user]
\tname = youBencha
\temail = youbencha@localhost
[pack]
\twriteReverseIndex = false
[fastimport]
\tunpackLimit = 0
[advice]
\tdetachedHead = false
";

/// The major and minor version of git.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GitVersion {
    /// The major version.
    pub major: u32,
    /// The minor version.
    pub minor: u32,
}

impl fmt::Display for GitVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl GitVersion {
    /// Parses the output of `git version`, such as `git version 2.47.3 (vendor)`.
    #[must_use]
    pub fn parse(answer: &str) -> Option<Self> {
        let mut numbers = answer.trim().strip_prefix("git version ")?.split(['.', ' ', '-']);
        Some(Self { major: numbers.next()?.parse().ok()?, minor: numbers.next()?.parse().ok()? })
    }
}

/// Runs git commands: supervised, hermetic and non-interactive.
#[derive(Debug, Clone)]
pub struct Git {
    pub(crate) program: OsString,
    pub(crate) launch: Launch,
    pub(crate) shim: Option<PathBuf>,
    pub(crate) home: PathBuf,
    pub(crate) deadline: Duration,
    pub(crate) cancel: CancellationToken,
    pub(crate) pause: PauseSwitch,
}

impl Git {
    /// Uses the first git on PATH, with a private home directory for its configuration, which is created.
    pub fn new(home: impl AsRef<Path>) -> Result<Self, RepoError> {
        let home =
            std::path::absolute(home.as_ref()).map_err(RepoError::io("resolve the path", home.as_ref()))?;
        fs::create_dir_all(&home).map_err(RepoError::io("create the directory", &home))?;
        let git = Self {
            program: first_on_path().unwrap_or_else(|| "git".into()),
            launch: Launch::Contained,
            shim: None,
            home,
            deadline: Duration::from_secs(600),
            cancel: CancellationToken::new(),
            pause: PauseSwitch::new(),
        };
        let config = git.config();
        if !fs::read(&config).is_ok_and(|found| found == CONFIG.as_bytes()) {
            files::replace(&config, CONFIG.as_bytes())?;
        }
        Ok(git)
    }

    /// Sets a program other than the first `git` on PATH.
    #[must_use]
    pub fn program(mut self, program: impl AsRef<OsStr>) -> Self {
        self.program = program.as_ref().to_owned();
        self
    }

    /// Sets how git is launched; below a shim by default.
    #[must_use]
    pub fn launch(mut self, launch: Launch) -> Self {
        self.launch = launch;
        self
    }

    /// Sets the program to use as the shim, if it is not the current one.
    #[must_use]
    pub fn shim(mut self, program: impl AsRef<Path>) -> Self {
        self.shim = Some(program.as_ref().to_owned());
        self
    }

    /// Sets the timeout of each command, ten minutes by default; zero means no limit.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sets a token that cancels running commands.
    #[must_use]
    pub fn cancel_on(mut self, token: CancellationToken) -> Self {
        self.cancel = token;
        self
    }

    /// Sets a switch that pauses running commands.
    #[must_use]
    pub fn pause_on(mut self, switch: PauseSwitch) -> Self {
        self.pause = switch;
        self
    }

    /// Checks that the version of git is supported. The version is remembered as long as the program is the same.
    pub async fn check(&self) -> Result<GitVersion, GitError> {
        let identity = yb_supervise::program_identity(Path::new(&self.program));
        let known = identity.as_ref().and_then(|identity| yb_supervise::recall_fact(VERSION_FACT, identity));
        let answer = match known {
            Some(answer) => answer,
            None => {
                let answer = self.command("version").current_dir(&self.home).text().await?;
                if let Some(identity) = identity {
                    yb_supervise::remember_fact(VERSION_FACT, &identity, &answer);
                }
                answer
            }
        };
        let Some(found) = GitVersion::parse(&answer) else {
            return Err(GitError::NoVersion { answer: answer.chars().take(200).collect() });
        };
        if found < MIN_GIT { Err(GitError::TooOld { found }) } else { Ok(found) }
    }

    /// Builds a git command.
    pub(crate) fn command(&self, command: &'static str) -> GitCommand<'_> {
        GitCommand::new(self, command)
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.home.join("gitconfig")
    }
}

/// The first git on PATH. It is searched for once, because a trial needs it several times and PATH may be long.
fn first_on_path() -> Option<OsString> {
    static FOUND: OnceLock<Option<OsString>> = OnceLock::new();
    let find = || yb_supervise::find_program("git", std::env::var_os("PATH")?).map(PathBuf::into_os_string);
    FOUND.get_or_init(find).clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_version_parses_vendor_formats() {
        for (answer, expected) in [
            ("git version 2.47.3", Some((2, 47))),
            ("git version 2.39.5 (Apple Git-154)\n", Some((2, 39))),
            ("git version 2.50.GIT", Some((2, 50))),
            ("git version 3.0-rc1", Some((3, 0))),
            ("hub version 2.14", None),
            ("", None),
        ] {
            let found = GitVersion::parse(answer).map(|version| (version.major, version.minor));
            assert_eq!(found, expected, "{answer}");
        }
        assert!(GitVersion { major: 2, minor: 38 } < MIN_GIT && GitVersion { major: 3, minor: 0 } > MIN_GIT);
    }
}
