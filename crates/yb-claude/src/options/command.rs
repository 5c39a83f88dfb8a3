//! From an invocation to a supervised child.

use std::path::Path;

use yb_supervise::{Command, Stdin};

use super::{EnvChange, Invocation};

impl Invocation {
    /// The command that runs it with this program. Deadline, output and log are the caller's to add; so is
    /// [`write_files`](Self::write_files) before it runs.
    ///
    /// The child gets the variables of this invocation and the few that every supervised child gets. A caller who
    /// passes on more calls `inherit_env`: what this invocation removes stays removed.
    pub fn command(&self, program: &Path) -> Command {
        let mut command =
            Command::new(program).args(&self.args).stdin(Stdin::Bytes(self.stdin.clone().into()));
        for (name, change) in &self.env {
            command = match change {
                EnvChange::Set(value) => command.env(name, value),
                EnvChange::Remove => command.env_remove(name),
            };
        }
        for (name, value) in &self.secrets {
            command = command.secret(name, value.clone());
        }
        match &self.cwd {
            Some(cwd) => command.current_dir(cwd),
            None => command,
        }
    }
}
