//! Commands of evaluators: in the sandbox if there is one, with a private HOME and a minimal environment.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use yb_supervise::{Command, Launch, Network, OutputMode, Sandbox, SandboxKind, find_program};

use super::{GradeError, GraderEnv, PreflightError};
use yb_agents::{Environment, Host, Places, ProcessRole, base_view, limit, secrets_of};
use yb_case::{EnvVar, with_environment};

/// The limit for output in memory.
const MAX_CAPTURED_BYTES: usize = 10 << 20;
/// The limit for output in the log file.
const MAX_LOG_BYTES: u64 = 64 << 20;

/// The limit for locked files: each one takes a mount. Further files are writable.
const MAX_LOCKED: usize = 500;

/// Options of a command.
pub(crate) struct CommandOptions<'a> {
    /// The tree that it runs in and may change.
    pub(crate) tree: &'a Path,
    /// Files in the tree that are read-only in a sandbox.
    pub(crate) locked: &'a [PathBuf],
    /// The directory for its HOME and TMPDIR.
    pub(crate) private: &'a Path,
    /// Environment variables from the case.
    pub(crate) env: Vec<(String, String)>,
    /// The timeout; zero means no limit.
    pub(crate) timeout: Duration,
    /// The network that it can reach.
    pub(crate) network: Network,
    /// Secrets that are removed from its output.
    pub(crate) secrets: &'a [(String, Vec<u8>)],
    /// The file for its output.
    pub(crate) log: PathBuf,
}

impl GraderEnv {
    /// Builds a command. No shell is involved, and PATH is the host's without relative directories.
    pub(crate) fn command(
        &self,
        program: &OsStr,
        options: &CommandOptions<'_>,
    ) -> Result<Command, GradeError> {
        let (home, tmp) = (options.private.join("home"), options.private.join("tmp"));
        for directory in [&home, &tmp] {
            std::fs::create_dir_all(directory).map_err(GradeError::io(directory))?;
        }
        if let Some(folder) = options.log.parent() {
            std::fs::create_dir_all(folder).map_err(GradeError::io(folder))?;
        }
        let mut command = Command::new(program)
            .current_dir(options.tree)
            .launch(Launch::Contained)
            .output(OutputMode::Capture { limit: MAX_CAPTURED_BYTES })
            .log_file(&options.log)
            .log_ceiling(MAX_LOG_BYTES)
            .deadline(options.timeout)
            .cancel_on(self.cancel.clone())
            .pause_on(self.pause.clone())
            .env("PATH", self.search_path())
            .env("HOME", &home)
            .env("TMPDIR", &tmp);
        command = limit(command, &self.limits, [options.tree, options.private], None);
        if let Some(kind) = self.isolation.kind() {
            let env: Environment =
                options.env.iter().map(|(name, value)| (name.into(), value.into())).collect();
            let root = match &self.root {
                Some(root) => Some(
                    root.mount(&options.private.join("root-layer"), false)
                        .map_err(GradeError::io(options.private))?,
                ),
                None => None,
            };
            let places = Places {
                workspace: options.tree,
                private: options.private,
                hidden: &self.hidden,
                root: root.as_ref(),
            };
            let mut view = base_view(places, &env).map_err(GradeError::io(options.private))?;
            if let Some(root) = &self.root {
                // The tree is where the agent saw it, and also where it is outside.
                view = view.hidden(options.private.join("root-layer")).writable(options.tree);
                if root.has_workspace && root.workdir.parent().is_some() {
                    view = view.writable_as(options.tree, &root.workdir);
                }
                command = command.envs(&root.env).env("HOME", &home);
            }
            let view =
                if kind == SandboxKind::Bubblewrap { lock(view, options.tree, options.locked) } else { view };
            // Landlock of old kernels can't restrict the network. The other restrictions still apply.
            let network = kind.probe_network().map_or(Network::Shared, |()| options.network);
            // A program that a test starts must not write the memory of the runner.
            command = command.sandbox(view.kind(kind).network(network).read_only_proc());
        }
        command = command.envs(options.env.iter().map(|(name, value)| (name, value)));
        let from_case = secrets_of(&Host::new(options.env.iter().map(|(name, value)| (name, value))));
        for (name, value) in options.secrets.iter().chain(&from_case) {
            command = command.secret(name, value.clone());
        }
        if let Some(shim) = &self.shim {
            command = command.shim(shim);
        }
        Ok(match &self.start_recorder {
            Some(recorder) => recorder.attach(ProcessRole::Evaluator, command),
            None => command,
        })
    }

    /// Returns the host's PATH without relative directories, which would be looked up in the tree.
    fn search_path(&self) -> std::ffi::OsString {
        let own = self.root.as_ref().and_then(|root| root.env.get("PATH"));
        let path = own.or(self.env.get("PATH")).cloned().unwrap_or_default();
        let absolute = std::env::split_paths(&path).filter(|directory| directory.is_absolute());
        std::env::join_paths(absolute).unwrap_or_default()
    }

    /// Checks that a program of the host exists. One in the tree is the agent's to make, and a case may set another PATH.
    pub(crate) fn check_program(&self, program: &str, env: &[EnvVar]) -> Result<(), PreflightError> {
        let path = Path::new(program);
        let exists = if self.other_root {
            true
        } else if path.is_absolute() {
            path.is_file()
        } else {
            path.components().count() > 1
                || env.iter().any(|variable| variable.name == "PATH")
                || find_program(program, self.search_path()).is_some()
        };
        if exists { Ok(()) } else { Err(PreflightError::NoProgram { program: program.to_owned() }) }
    }

    /// Returns the variables that a case names, with their values.
    pub(crate) fn variables(&self, variables: &[EnvVar]) -> Result<Vec<(String, String)>, GradeError> {
        let unset = |name: String| GradeError::other(format!("environment variable is not set: `{name}`"));
        variables
            .iter()
            .map(|variable| {
                let value = match &variable.value {
                    Some(value) => self.substitute(value)?,
                    None => {
                        self.env.get(&variable.name).cloned().ok_or_else(|| unset(variable.name.clone()))?
                    }
                };
                Ok((variable.name.clone(), value))
            })
            .collect()
    }

    /// Replaces `${ENV:NAME}` in a text.
    pub(crate) fn substitute(&self, text: &str) -> Result<String, GradeError> {
        with_environment(text, |name| self.env.get(name).cloned())
            .map_err(|name| GradeError::other(format!("environment variable is not set: `{name}`")))
    }
}

/// Mounts files read-only, and the directories above them as mounts of their own, so that they can't be moved away.
fn lock(mut view: Sandbox, tree: &Path, files: &[PathBuf]) -> Sandbox {
    let files = files.iter().filter(|file| file.is_file()).take(MAX_LOCKED);
    let above: BTreeSet<&Path> = files
        .clone()
        .flat_map(|file| file.ancestors().skip(1).take_while(|folder| *folder != tree))
        .collect();
    for folder in above {
        view = view.writable(folder);
    }
    files.fold(view, Sandbox::read_only)
}
