//! Whether Claude Code can be used: there and logged in, there but not logged in, or not there.

mod cache;
mod probe;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::env_vars as vars;
use crate::find::{FindError, Search};
use crate::version::Version;

/// How long each of the two questions may take.
const DEADLINE: Duration = Duration::from_secs(15);

/// Whether Claude Code can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Availability {
    /// It is there and has what it needs to reach a model.
    Ready(Ready),
    /// It is there, and would refuse every prompt.
    NotAuthenticated {
        /// The program.
        path: PathBuf,
        /// Its version.
        version: Version,
    },
    /// It is not there, or does not run.
    Missing(Missing),
}

/// A Claude Code that can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ready {
    /// The program.
    pub path: PathBuf,
    /// Its version.
    pub version: Version,
    /// How it is authenticated.
    pub auth: Auth,
}

/// How Claude Code is authenticated. No secret is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Auth {
    /// By a variable of its environment; whether the API takes it is not known.
    Variable(&'static str),
    /// By what it says itself: a login, or a helper in its settings.
    Login {
        /// Its word for the method, such as `oauth_token`.
        method: String,
        /// Its word for the provider, such as `firstParty`.
        provider: String,
    },
    /// It could not say; only a prompt would tell.
    Unknown {
        /// Why.
        reason: String,
    },
}

/// Why there is no Claude Code.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Missing {
    /// No program was found.
    NotFound(FindError),
    /// A program was found, but it does not say its version.
    NotRunnable {
        /// The program.
        path: PathBuf,
        /// How it went.
        reason: String,
    },
}

impl Availability {
    /// Whether a prompt can be tried.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        matches!(self, Self::Ready(_))
    }

    /// What to do when it is not ready, one way out in each line.
    #[must_use]
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::Ready(_) => Vec::new(),
            Self::NotAuthenticated { .. } => vec![
                "log in: `claude auth login`".to_owned(),
                format!("or set `{}` to an API key", vars::ANTHROPIC_API_KEY),
            ],
            Self::Missing(Missing::NotFound(error)) => error.hints(),
            Self::Missing(Missing::NotRunnable { path, .. }) => {
                vec![format!("try `{} --version`, and install it again if that fails", path.display())]
            }
        }
    }
}

impl fmt::Display for Availability {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready(Ready { path, version, auth }) => {
                write!(formatter, "Claude Code {version} is ready ({auth}): {}", path.display())
            }
            Self::NotAuthenticated { path, version } => {
                write!(
                    formatter,
                    "Claude Code {version} lacks authentication, a login or an API key: {}",
                    path.display()
                )
            }
            Self::Missing(Missing::NotFound(error)) => error.fmt(formatter),
            Self::Missing(Missing::NotRunnable { path, reason }) => {
                write!(formatter, "`claude` does not run, {reason}: {}", path.display())
            }
        }
    }
}

impl fmt::Display for Auth {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => write!(formatter, "`{name}` is set"),
            Self::Login { method, provider } => write!(formatter, "{method}, {provider}"),
            Self::Unknown { reason } => write!(formatter, "authentication unknown, {reason}"),
        }
    }
}

/// Finds out whether Claude Code can be used, without asking a model.
///
/// The environment is the one that the agent will have, and is given: of this process nothing is read. `claude --version` is run, then, unless a variable tells already, `claude auth status`. That it is ready
/// is remembered for the process, by program and environment; that it is not is asked anew each time, because a
/// login changes it.
#[derive(Clone)]
#[must_use]
pub struct AvailabilityCheck {
    env: Vec<(OsString, OsString)>,
    explicit: Option<PathBuf>,
    search: Option<Search>,
    shim: Option<PathBuf>,
    deadline: Duration,
}

/// The environment may hold secrets; only its size is shown.
impl fmt::Debug for AvailabilityCheck {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("AvailabilityCheck")
            .field("env", &self.env.len())
            .field("explicit", &self.explicit)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

impl AvailabilityCheck {
    /// A check for an agent with this environment, in which it is searched for as well.
    pub fn new<N: Into<OsString>, V: Into<OsString>>(env: impl IntoIterator<Item = (N, V)>) -> Self {
        let env = env.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        Self { env, explicit: None, search: None, shim: None, deadline: DEADLINE }
    }

    /// Takes this program and no other.
    pub fn program(mut self, path: impl Into<PathBuf>) -> Self {
        self.explicit = Some(path.into());
        self
    }

    /// Searches like this.
    pub fn search(mut self, search: Search) -> Self {
        self.search = Some(search);
        self
    }

    /// The program that contains the children; by default the running one, if it can.
    pub fn shim(mut self, program: impl AsRef<Path>) -> Self {
        self.shim = Some(program.as_ref().to_owned());
        self
    }

    /// How long each question may take; 15 s by default.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Looks. That nothing is there is an answer, not an error.
    pub async fn check(&self) -> Availability {
        let mut search = match &self.search {
            Some(search) => search.clone(),
            None => Search::from_env(&|name| self.variable(name).map(OsStr::to_owned)),
        };
        if let Some(path) = &self.explicit {
            search = search.explicit(path);
        }
        let path = match search.find() {
            Ok(found) => found.path,
            Err(error) => return Availability::Missing(Missing::NotFound(error)),
        };
        let key = cache::key(&path, &self.env);
        if let Some(ready) = cache::get(&key) {
            return Availability::Ready(ready);
        }
        let availability = self.ask(path).await;
        if let Availability::Ready(ready) = &availability {
            cache::put(key, ready.clone());
        }
        availability
    }

    async fn ask(&self, path: PathBuf) -> Availability {
        let version = match probe::version(self, &path).await {
            Ok(version) => version,
            Err(reason) => return Availability::Missing(Missing::NotRunnable { path, reason }),
        };
        let auth = match self.variable_that_authenticates() {
            Some(name) => Some(Auth::Variable(name)),
            None if version < Version::AUTH_STATUS => {
                let reason = format!("versions before {} can't tell", Version::AUTH_STATUS);
                Some(Auth::Unknown { reason })
            }
            None => probe::auth(self, &path).await,
        };
        match auth {
            Some(auth) => Availability::Ready(Ready { path, version, auth }),
            None => Availability::NotAuthenticated { path, version },
        }
    }

    fn variable_that_authenticates(&self) -> Option<&'static str> {
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

/// What Claude Code takes for a yes.
fn is_on(value: &OsStr) -> bool {
    ["1", "true", "yes", "on"].iter().any(|word| value.eq_ignore_ascii_case(word))
}
