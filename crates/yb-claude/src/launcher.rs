//! Which `claude` is started, below which shim and with whose environment: the same for the provider and the SDK.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use yb_supervise::Command;

use crate::{EnvChange, FindError, Search};

/// How the CLI is found and started.
#[derive(Debug, Clone, Default)]
pub(crate) struct Launcher {
    /// This program, and no other.
    pub(crate) program: Option<PathBuf>,
    /// The program that contains the agent; by default the running one.
    pub(crate) shim: Option<PathBuf>,
    /// Exactly these variables, instead of the host's own.
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
        let mut search = Search::from_env(&variable);
        if let Some(program) = &self.program {
            search = search.explicit(program);
        }
        search.find().map(|found| found.path)
    }

    /// The CLI finds login, proxies and certificates in the user's environment; what an option decided stays decided.
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
