//! Converts an invocation to a supervised command.

use std::path::Path;

use yb_supervise::{Command, Stdin};

use super::{EnvChange, Invocation};

impl Invocation {
    /// Creates the command that runs the invocation with the given program. The caller sets deadline, output and log, and
    /// calls [`write_files`](Self::write_files) before running it.
    ///
    /// The child gets the variables of this invocation and the default variables of every supervised child. Call
    /// `inherit_env` to pass on all others; variables that this invocation removes stay removed.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program)
            .args(&self.args)
            .stdin(Stdin::Bytes(self.stdin.clone().into()))
            .json_lines();
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
