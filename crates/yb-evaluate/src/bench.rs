//! Runs foreign code for grading: in the sandbox where there is one, with a HOME of its own and no more than it was given.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use yb_supervise::{Command, Launch, Network, OutputMode, Sandbox, SandboxKind};

use super::{Bench, GradeError};
use yb_agents::{Environment, Host, Places, base_view, limit, secrets_of};
use yb_case::{EnvVar, with_environment};

/// How much of an output is kept in memory, and how much in a file.
const OUTPUT: usize = 10 << 20;
const LOG: u64 = 64 << 20;

/// A file that is locked takes a mount; beyond so many they are only files.
const LOCKED: usize = 500;

/// What a command is run with.
pub(crate) struct Job<'a> {
    /// The tree that it may change.
    pub(crate) tree: &'a Path,
    /// Files of it that it may not change, in a sandbox.
    pub(crate) locked: &'a [PathBuf],
    /// Where HOME and TMPDIR are made; nobody else's.
    pub(crate) private: &'a Path,
    /// Variables that the case gives it.
    pub(crate) env: Vec<(String, String)>,
    /// Its time; zero is for ever.
    pub(crate) timeout: Duration,
    /// What it can reach.
    pub(crate) network: Network,
    /// What must not appear in what it prints.
    pub(crate) secrets: &'a [(String, Vec<u8>)],
    /// A file that gets all that it prints.
    pub(crate) log: PathBuf,
}

impl Bench {
    /// A command that is ready to run: never a shell of its own accord, and PATH is that of the host without relative parts.
    pub(crate) fn command(&self, program: &OsStr, job: &Job<'_>) -> Result<Command, GradeError> {
        let (home, tmp) = (job.private.join("home"), job.private.join("tmp"));
        for directory in [&home, &tmp] {
            std::fs::create_dir_all(directory).map_err(GradeError::io(directory))?;
        }
        if let Some(folder) = job.log.parent() {
            std::fs::create_dir_all(folder).map_err(GradeError::io(folder))?;
        }
        let mut command = Command::new(program)
            .current_dir(job.tree)
            .launch(Launch::Contained)
            .output(OutputMode::Capture { limit: OUTPUT })
            .log_file(&job.log)
            .log_ceiling(LOG)
            .deadline(job.timeout)
            .cancel_on(self.cancel.clone())
            .pause_on(self.pause.clone())
            .env("PATH", self.path())
            .env("HOME", &home)
            .env("TMPDIR", &tmp);
        command = limit(command, &self.limits, [job.tree, job.private], None);
        if let Some(kind) = self.isolation.kind() {
            let env: Environment = job.env.iter().map(|(name, value)| (name.into(), value.into())).collect();
            let places = Places { workspace: job.tree, private: job.private, hidden: &self.hidden };
            let view = base_view(places, &env).map_err(GradeError::io(job.private))?;
            let view = if kind == SandboxKind::Bubblewrap { lock(view, job.tree, job.locked) } else { view };
            // Old kernels can't hold the network by landlock; what they can do is better than nothing.
            let network = kind.probe_network().map_or(Network::Shared, |()| job.network);
            command = command.sandbox(view.kind(kind).network(network));
        }
        command = command.envs(job.env.iter().map(|(name, value)| (name, value)));
        let given = secrets_of(&Host::new(job.env.iter().map(|(name, value)| (name, value))));
        for (name, value) in job.secrets.iter().chain(&given) {
            command = command.secret(name, value.clone());
        }
        Ok(match &self.shim {
            Some(shim) => command.shim(shim),
            None => command,
        })
    }

    /// Runs nothing at all in the same sandbox: one that can't be made would look like a command that failed.
    pub(crate) async fn try_out(&self, job: &Job<'_>) -> Result<(), GradeError> {
        if self.isolation.kind().is_none() {
            return Ok(());
        }
        let (log, env) = (job.private.join("try-out.log"), job.env.clone());
        let report = self.command("true".as_ref(), &Job { log, env, ..*job })?.run().await;
        if report.success() {
            return Ok(());
        }
        let said = report.output.captured().map(|output| output.text().text.trim().to_owned());
        let said = said.unwrap_or_default();
        Err(GradeError::other(format!(
            "the sandbox for evaluators does not work here: {}: {said}",
            report.end
        )))
    }

    /// Where programs are looked for: never in a tree.
    fn path(&self) -> std::ffi::OsString {
        let path = self.env.get("PATH").cloned().unwrap_or_default();
        let absolute = std::env::split_paths(&path).filter(|directory| directory.is_absolute());
        std::env::join_paths(absolute).unwrap_or_default()
    }

    /// The variables that a case names, with their values.
    pub(crate) fn variables(&self, wanted: &[EnvVar]) -> Result<Vec<(String, String)>, GradeError> {
        let unset = |name: String| GradeError::other(format!("environment variable is not set: `{name}`"));
        wanted
            .iter()
            .map(|variable| {
                let value = match &variable.value {
                    Some(value) => self.fill(value)?,
                    None => {
                        self.env.get(&variable.name).cloned().ok_or_else(|| unset(variable.name.clone()))?
                    }
                };
                Ok((variable.name.clone(), value))
            })
            .collect()
    }

    /// A text in which `${ENV:NAME}` is replaced.
    pub(crate) fn fill(&self, text: &str) -> Result<String, GradeError> {
        with_environment(text, |name| self.env.get(name).cloned())
            .map_err(|name| GradeError::other(format!("environment variable is not set: `{name}`")))
    }
}

/// Files that can't be written, replaced or removed; nor can the directories above them be moved away, for each is a mount.
fn lock(mut view: Sandbox, tree: &Path, files: &[PathBuf]) -> Sandbox {
    let files = files.iter().filter(|file| file.is_file()).take(LOCKED);
    let above: BTreeSet<&Path> = files
        .clone()
        .flat_map(|file| file.ancestors().skip(1).take_while(|folder| *folder != tree))
        .collect();
    for folder in above {
        view = view.writable(folder);
    }
    files.fold(view, Sandbox::read_only)
}
