//! Finds and starts `claude` with a shim and an environment, for both the provider and the SDK.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use yb_supervise::Command;

use crate::{CliSearch, EnvChange, FindError};

/// How the CLI is found and spawned.
#[derive(Debug, Clone, Default)]
pub(crate) struct Launcher {
    /// The program, instead of searching for one.
    pub(crate) program: Option<PathBuf>,
    /// The shim program; by default the current executable.
    pub(crate) shim: Option<PathBuf>,
    /// The complete environment, instead of the host's own.
    pub(crate) env: Option<Vec<(OsString, OsString)>>,
}

impl Launcher {
    pub(crate) fn environment(&self) -> Vec<(OsString, OsString)> {
        self.env.clone().unwrap_or_else(|| std::env::vars_os().collect())
    }

    pub(crate) fn find(&self) -> Result<PathBuf, FindError> {
        let env = self.environment();
        let variable =
            |name: &str| env.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        let mut search = CliSearch::from_env(&variable);
        if let Some(program) = &self.program {
            search = search.with_explicit(program);
        }
        search.find().map(|found| found.path)
    }

    /// Passes on the environment, which holds login, proxies and certificates. Variables in `decided` are not overridden.
    pub(crate) fn in_environment(&self, command: Command, decided: &[(OsString, EnvChange)]) -> Command {
        let command = match &self.shim {
            Some(shim) => command.shim(shim),
            None => command,
        };
        match &self.env {
            None => command.inherit_env(),
            Some(env) => {
                let free = |name: &OsStr| decided.iter().all(|(known, _)| known != name);
                command.envs(env.iter().filter(|(name, _)| free(name)).map(|(name, value)| (name, value)))
            }
        }
    }
}
