//! Why a pinned program is not there, each with the way out.

use std::io;
use std::path::PathBuf;

use yb_case::programs::known_clis;

use super::spec::CliSpec;

/// Why a program can't be installed or found.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// Not one of those that can be installed.
    #[error("no program of this name can be installed: `{name}`")]
    UnknownCli {
        /// As it was given.
        name: String,
    },
    /// A range, a tag or nothing.
    #[error("not an exact version: `{version}`")]
    NotExact {
        /// The program.
        name: &'static str,
        /// As it was given.
        version: String,
    },
    /// This version was never installed.
    #[error("`{spec}` is not installed in `{}`", prefix.display())]
    NotInstalled {
        /// Which one.
        spec: CliSpec,
        /// Where it would be.
        prefix: PathBuf,
    },
    /// There is no npm.
    #[error("`npm` was not found, and `{spec}` is installed with it")]
    NoNpm {
        /// What was to be installed.
        spec: CliSpec,
    },
    /// npm said no.
    #[error("npm could not install `{spec}`: {reason}")]
    Npm {
        /// What was to be installed.
        spec: CliSpec,
        /// How npm ended, and its last words.
        reason: String,
    },
    /// Another process installs the same, for longer than anybody waits.
    #[error("another process has been installing `{spec}` for {minutes} minutes")]
    Busy {
        /// What was to be installed.
        spec: CliSpec,
        /// How long we waited.
        minutes: u64,
    },
    /// Nobody says where tools belong.
    #[error("no directory for tools: neither `HOME` nor `YB_TOOLS_DIR` is set")]
    NoDirectory,
    /// The directory can't be used.
    #[error("failed to {what} `{}`: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// With which path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl ToolError {
    pub(super) fn io(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { what, path, source }
    }

    /// What to do about it, one way out in each line.
    #[must_use]
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::UnknownCli { name } => {
                let names: Vec<&str> = known_clis().iter().map(|cli| cli.name).collect();
                let near = yb_yaml::diagnostic::nearest(name, names.iter().copied())
                    .or_else(|| names.iter().copied().find(|known| known.starts_with(name.as_str())));
                let near = near.map(|near| format!("did you mean `{near}`?"));
                near.into_iter().chain([format!("known are `{}`", names.join("`, `"))]).collect()
            }
            Self::NotExact { name, .. } => vec![format!("write all of it, such as `{name}@1.2.3`")],
            Self::NotInstalled { spec, .. } => {
                vec![format!("install it: `yb install-agents --cli {spec}`")]
            }
            Self::NoNpm { .. } => vec!["install Node.js, which brings npm: https://nodejs.org".to_owned()],
            Self::Npm { spec, .. } => {
                vec![format!("try it by hand: `npm view {}@{}`", spec.cli.package, spec.version)]
            }
            Self::Busy { .. } => vec!["end the other one, or wait for it".to_owned()],
            Self::NoDirectory => vec!["set `YB_TOOLS_DIR` to a directory".to_owned()],
            Self::Io { .. } => vec!["check the directory's owner, its rights and the free space".to_owned()],
        }
    }
}
