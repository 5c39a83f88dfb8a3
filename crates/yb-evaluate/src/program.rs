//! Runs a program on a checkout in the sandbox, and tells failures that the agent can cause from those that it can't.

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use yb_supervise::{Command, End, Network, Report, SpawnError};

use super::env::CommandOptions;
use super::{GradeError, Subject};
use yb_case::EnvVar;
use yb_repo::path_from_bytes;

/// A program to run in a checkout.
pub(crate) struct TreeProgram<'a> {
    /// The absolute path of the checkout.
    pub(crate) root: &'a Path,
    /// Files that the program must not change.
    pub(crate) locked: &'a [PathBuf],
    /// The program and its arguments.
    pub(crate) argv: Vec<String>,
    /// The working directory, relative to the root.
    pub(crate) working_dir: Option<&'a Path>,
    pub(crate) env: &'a [EnvVar],
    pub(crate) timeout: Duration,
    pub(crate) network: bool,
    /// The file for its output.
    pub(crate) log: PathBuf,
}

/// How a program ended, and its output.
#[derive(Debug, Clone)]
pub(crate) struct ProgramOutput {
    pub(crate) exit: ProgramExit,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    /// Stdout and stderr, interleaved.
    pub(crate) combined: String,
    /// Whether there was more output than is kept.
    pub(crate) truncated: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProgramExit {
    Code(i32),
    /// A message, where there is no exit code.
    Other(String),
}

impl ProgramOutput {
    fn not_started(text: String) -> Self {
        let exit = ProgramExit::Other(text);
        Self { exit, stdout: Vec::new(), stderr: Vec::new(), combined: String::new(), truncated: false }
    }
}

/// A program that can be started, or the output of one that can't be.
pub(crate) enum PreparedProgram {
    Command { command: Box<Command>, on_host: bool },
    NotStarted(ProgramOutput),
}

impl TreeProgram<'_> {
    /// Runs the program to its end.
    pub(crate) async fn run(
        &self,
        subject: &Subject,
        adjust: impl FnOnce(Command) -> Command,
    ) -> Result<ProgramOutput, GradeError> {
        match self.prepare(subject).await? {
            PreparedProgram::NotStarted(output) => Ok(output),
            PreparedProgram::Command { command, on_host } => {
                self.output(adjust(*command).run().await, on_host)
            }
        }
    }

    /// Prepares the program. A sandbox that can't be set up fails to start; no exit code stands for that.
    pub(crate) async fn prepare(&self, subject: &Subject) -> Result<PreparedProgram, GradeError> {
        let not_started = |text: String| Ok(PreparedProgram::NotStarted(ProgramOutput::not_started(text)));
        let root = self.root;
        let folder = match self.working_dir {
            None => root.to_owned(),
            Some(wanted) => match inside(root, wanted).filter(|path| path.is_dir()) {
                Some(path) => path,
                None => return not_started(format!("no such directory: `{}`", wanted.display())),
            },
        };
        let (first, args) = self.argv.split_first().ok_or_else(|| GradeError::other("no command"))?;
        let program = PathBuf::from(first);
        let on_host = program.components().count() == 1 || program.is_absolute();
        let program = if on_host {
            program
        } else {
            // A program in the tree. The agent may change or remove it, but a link of the agent must not lead out of
            // the tree. Links that `prepare` made may: a virtual environment's interpreter is the system's.
            let below = folder.strip_prefix(root).unwrap_or(Path::new("")).join(without_dots(&program));
            let links = subject.files().await?.iter().filter(|file| file.is_link());
            let by_agent = links.map(|file| path_from_bytes(&file.path)).any(|link| below.starts_with(link));
            let path = root.join(&below);
            if !path.is_file() || (by_agent && inside(root, &below).is_none()) {
                return not_started(format!("no such program in the tree: `{}`", program.display()));
            }
            path
        };
        let options = CommandOptions {
            tree: root,
            locked: self.locked,
            private: &root.with_file_name("private"),
            env: subject.grader_env.variables(self.env)?,
            timeout: self.timeout,
            network: if self.network { Network::Shared } else { Network::None },
            secrets: &subject.secrets,
            log: self.log.clone(),
        };
        let command =
            subject.grader_env.command(program.as_os_str(), &options)?.current_dir(&folder).args(args);
        Ok(PreparedProgram::Command { command: Box::new(command), on_host })
    }

    /// Interprets how the program ended.
    pub(crate) fn output(&self, report: Report, on_host: bool) -> Result<ProgramOutput, GradeError> {
        let captured = report.output.captured();
        let exit = match report.end {
            End::Exited { code } => ProgramExit::Code(code),
            // A program that is not installed on the host is not the agent's failure.
            End::SpawnFailed(error) if on_host => return Err(GradeError::other(error.to_string())),
            End::SpawnFailed(
                error @ (SpawnError::NotFound { .. }
                | SpawnError::NotExecutable { .. }
                | SpawnError::BadFormat { .. }
                | SpawnError::CwdMissing { .. }),
            ) => ProgramExit::Other(without_root(&error.to_string(), self.root)),
            // A script of the tree whose interpreter is not in the sandbox: the agent can cause that.
            End::SpawnFailed(SpawnError::SandboxFailed { reason })
                if reason.starts_with("bwrap: execvp ") =>
            {
                ProgramExit::Other(without_root(&reason, self.root))
            }
            End::TimedOut { after } => ProgramExit::Other(format!("timed out after {after:?}")),
            End::OverQuota { .. } => ProgramExit::Other("exceeded its disk limit".to_owned()),
            End::OverLimit(over) => ProgramExit::Other(format!("exceeded its {} limit", over.resource)),
            end @ (End::Signaled { .. } | End::SupervisorLost) => ProgramExit::Other(end.to_string()),
            end => return Err(GradeError::other(end.to_string())),
        };
        Ok(ProgramOutput {
            exit,
            stdout: captured.map(|output| output.stdout()).unwrap_or_default(),
            stderr: captured.map(|output| output.stderr()).unwrap_or_default(),
            combined: captured.map(|output| output.text().text.to_string()).unwrap_or_default(),
            truncated: captured.is_some_and(|output| output.dropped() > 0),
        })
    }
}

/// Joins a path to a directory; `None` if a link in it leads out of the directory.
pub(crate) fn inside(root: &Path, path: &Path) -> Option<PathBuf> {
    let mut at = root.to_owned();
    for part in path.components() {
        let Component::Normal(name) = part else { return None };
        if std::fs::symlink_metadata(&at).is_ok_and(|found| found.is_symlink()) {
            return None;
        }
        at.push(name);
    }
    // The last component may be a link that stays within the directory.
    let leads_out = at.canonicalize().is_ok_and(|real| !real.starts_with(root));
    (!leads_out).then_some(at)
}

/// Returns the path from the root of the tree of a file that is named relative to a working directory.
pub(crate) fn path_from_root(working_dir: Option<&Path>, file: &str) -> PathBuf {
    let file = file.trim_start_matches("./");
    working_dir.map_or_else(|| PathBuf::from(file), |folder| folder.join(file))
}

/// Removes the `.` components of a path.
fn without_dots(path: &Path) -> PathBuf {
    path.components().filter(|part| !matches!(part, Component::CurDir)).collect()
}

/// Replaces the path of the tree in a message, so that verdicts do not depend on it.
fn without_root(text: &str, root: &Path) -> String {
    text.replace(&*root.to_string_lossy(), ".")
}
