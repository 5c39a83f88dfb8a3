//! Checks whether Claude Code is installed and authenticated.

mod cache;
mod probe;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::env_vars as vars;
use crate::find::{CliSearch, FindError};
use crate::version::Version;

/// The default timeout of each of the two probe commands.
const TIMEOUT: Duration = Duration::from_secs(15);

/// The result of an [`AvailabilityCheck`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Availability {
    /// Installed and authenticated.
    Ready(AvailableCli),
    /// Installed, but not authenticated.
    NotAuthenticated {
        /// The path of the program.
        path: PathBuf,
        /// Its version.
        version: Version,
    },
    /// Not installed, or not runnable.
    Missing(MissingReason),
}

/// An installed and authenticated Claude Code.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AvailableCli {
    /// The path of the program.
    pub path: PathBuf,
    /// Its version.
    pub version: Version,
    /// The authentication method.
    pub auth: AuthMethod,
}

/// How Claude Code is authenticated. Holds no secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuthMethod {
    /// An environment variable is set; whether the API accepts its value is not checked.
    Variable(&'static str),
    /// `claude auth status` reports a login or an API key helper.
    Login {
        /// The method as reported by the CLI, such as `oauth_token`.
        method: String,
        /// The provider as reported by the CLI, such as `firstParty`.
        provider: String,
    },
    /// The CLI did not report it.
    Unknown {
        /// Why it is unknown.
        reason: String,
    },
}

/// Why Claude Code is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MissingReason {
    /// No program was found.
    NotFound(FindError),
    /// A program was found, but `--version` failed.
    NotRunnable {
        /// The path of the program.
        path: PathBuf,
        /// The failure.
        reason: String,
    },
}

impl Availability {
    /// Returns whether Claude Code is ready to use.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        matches!(self, Self::Ready(_))
    }

    /// Returns hints for making Claude Code ready, one per line.
    #[must_use]
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::Ready(_) => Vec::new(),
            Self::NotAuthenticated { .. } => vec![
                "log in: `claude auth login`".to_owned(),
                format!("or set `{}` to an API key", vars::ANTHROPIC_API_KEY),
            ],
            Self::Missing(MissingReason::NotFound(error)) => error.hints(),
            Self::Missing(MissingReason::NotRunnable { path, .. }) => {
                vec![format!("run `{} --version`, and reinstall it if that fails", path.display())]
            }
        }
    }
}

impl fmt::Display for Availability {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready(AvailableCli { path, version, auth }) => {
                write!(formatter, "Claude Code {version} is ready ({auth}): {}", path.display())
            }
            Self::NotAuthenticated { path, version } => {
                write!(
                    formatter,
                    "Claude Code {version} has no authentication (login or API key): {}",
                    path.display()
                )
            }
            Self::Missing(MissingReason::NotFound(error)) => error.fmt(formatter),
            Self::Missing(MissingReason::NotRunnable { path, reason }) => {
                write!(formatter, "failed to run `claude --version`: {reason}: {}", path.display())
            }
        }
    }
}

impl fmt::Display for AuthMethod {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => write!(formatter, "`{name}` is set"),
            Self::Login { method, provider } => write!(formatter, "{method}, {provider}"),
            Self::Unknown { reason } => write!(formatter, "authentication unknown, {reason}"),
        }
    }
}

/// Checks whether Claude Code is installed and authenticated, without a model request.
///
/// Only the given environment is read, not that of this process. The check runs `claude --version` and, unless an
/// environment variable authenticates, `claude auth status`. A positive result is cached for this process, keyed by
/// program and environment. A negative result is not cached, because a login changes it.
#[derive(Clone)]
#[must_use]
pub struct AvailabilityCheck {
    env: Vec<(OsString, OsString)>,
    explicit: Option<PathBuf>,
    search: Option<CliSearch>,
    shim: Option<PathBuf>,
    timeout: Duration,
}

/// Shows only the size of the environment, which may hold secrets.
impl fmt::Debug for AvailabilityCheck {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("AvailabilityCheck")
            .field("env", &self.env.len())
            .field("explicit", &self.explicit)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

impl AvailabilityCheck {
    /// Creates a check for the given environment, which also determines where the program is searched.
    pub fn new<N: Into<OsString>, V: Into<OsString>>(env: impl IntoIterator<Item = (N, V)>) -> Self {
        let env = env.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        Self { env, explicit: None, search: None, shim: None, timeout: TIMEOUT }
    }

    /// Sets the program to check, instead of searching for one.
    pub fn with_program(mut self, path: impl Into<PathBuf>) -> Self {
        self.explicit = Some(path.into());
        self
    }

    /// Sets how the program is searched.
    pub fn with_search(mut self, search: CliSearch) -> Self {
        self.search = Some(search);
        self
    }

    /// Sets the shim program; by default the current executable, if it calls [`shim_main`](crate::shim_main).
    pub fn with_shim(mut self, program: impl AsRef<Path>) -> Self {
        self.shim = Some(program.as_ref().to_owned());
        self
    }

    /// Sets the timeout of each probe command; 15 s by default.
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Runs the check. A missing program is a result, not an error.
    pub async fn check(&self) -> Availability {
        let mut search = match &self.search {
            Some(search) => search.clone(),
            None => CliSearch::from_env(&|name| self.variable(name).map(OsStr::to_owned)),
        };
        if let Some(path) = &self.explicit {
            search = search.with_explicit(path);
        }
        let path = match search.find() {
            Ok(found) => found.path,
            Err(error) => return Availability::Missing(MissingReason::NotFound(error)),
        };
        let key = cache::key(&path, &self.env);
        if let Some(ready) = cache::get(&key) {
            return Availability::Ready(ready);
        }
        let availability = self.probe(path).await;
        if let Availability::Ready(ready) = &availability {
            cache::put(key, ready.clone());
        }
        availability
    }

    async fn probe(&self, path: PathBuf) -> Availability {
        let version = match probe::version(self, &path).await {
            Ok(version) => version,
            Err(reason) => return Availability::Missing(MissingReason::NotRunnable { path, reason }),
        };
        let auth = match self.authenticating_variable() {
            Some(name) => Some(AuthMethod::Variable(name)),
            None if version < Version::AUTH_STATUS => {
                let reason = format!("not reported by versions before {}", Version::AUTH_STATUS);
                Some(AuthMethod::Unknown { reason })
            }
            None => probe::auth(self, &path).await,
        };
        match auth {
            Some(auth) => Availability::Ready(AvailableCli { path, version, auth }),
            None => Availability::NotAuthenticated { path, version },
        }
    }

    fn authenticating_variable(&self) -> Option<&'static str> {
        let secrets = [vars::ANTHROPIC_API_KEY, vars::ANTHROPIC_AUTH_TOKEN, vars::CLAUDE_CODE_OAUTH_TOKEN];
        let switches =
            [vars::CLAUDE_CODE_USE_BEDROCK, vars::CLAUDE_CODE_USE_VERTEX, vars::CLAUDE_CODE_USE_FOUNDRY];
        let set = |name: &&str| self.variable(name).is_some_and(|value| !value.is_empty());
        let on = |name: &&str| self.variable(name).is_some_and(is_on);
        secrets.into_iter().find(set).or_else(|| switches.into_iter().find(on))
    }

    fn variable(&self, name: &str) -> Option<&OsStr> {
        let named = |(known, _): &&(OsString, OsString)| known == name;
        self.env.iter().rev().find(named).map(|(_, value)| value.as_os_str())
    }
}

/// Whether Claude Code treats the value as true.
fn is_on(value: &OsStr) -> bool {
    ["1", "true", "yes", "on"].iter().any(|word| value.eq_ignore_ascii_case(word))
}
