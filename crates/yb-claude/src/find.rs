//! Finds the native Claude Code program, and when it can't, says where it looked and what to do.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

use crate::env_vars;
use crate::npm::{Platform, Wrapper};

/// How to get the program.
const INSTALL: &str = "npm install -g @anthropic-ai/claude-code";

/// Below the home directory, in the order in which installers have used them.
const PLACES_AT_HOME: [&str; 5] =
    [".local/bin", ".claude/local", ".npm-global/bin", "node_modules/.bin", ".yarn/bin"];

/// Finds `claude`: an explicit path, else what the environment says, else the usual places.
///
/// # Errors
/// [`FindError`] when there is none; an explicit path that can't be used is never replaced by another.
pub fn find(explicit: Option<&Path>, env: &dyn Fn(&str) -> Option<OsString>) -> Result<Found, FindError> {
    let mut search = Search::from_env(env);
    search.explicit = explicit.map(Path::to_owned);
    search.find()
}

/// The program, and how it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// An executable regular file.
    pub path: PathBuf,
    /// What named it.
    pub source: Source,
}

/// What named a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// The caller.
    Explicit,
    /// The environment variable `YB_CLAUDE`.
    Variable,
    /// The npm prefix that the caller gave.
    NpmPrefix,
    /// A directory in PATH.
    Path,
    /// A directory in which installers put it.
    UsualPlace,
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Explicit => "the given path",
            Self::Variable => env_vars::YB_CLAUDE,
            Self::NpmPrefix => "the npm prefix",
            Self::Path => env_vars::PATH,
            Self::UsualPlace => "a usual place",
        })
    }
}

/// Where to look. All that it depends on is given: nothing is read from this process.
#[derive(Debug, Clone)]
pub struct Search {
    explicit: Option<PathBuf>,
    variable: Option<OsString>,
    npm_prefix: Option<PathBuf>,
    path: Option<OsString>,
    home: Option<PathBuf>,
    usual: Vec<PathBuf>,
    platform: Platform,
}

impl Search {
    /// A search with what these environment variables say.
    pub fn from_env(env: &dyn Fn(&str) -> Option<OsString>) -> Self {
        let set = |name| env(name).filter(|value| !value.is_empty());
        let usual = if cfg!(windows) { Vec::new() } else { vec![PathBuf::from("/usr/local/bin")] };
        Self {
            explicit: None,
            variable: set(env_vars::YB_CLAUDE),
            npm_prefix: None,
            path: set(env_vars::PATH),
            home: set(env_vars::HOME).map(PathBuf::from).filter(|home| home.is_absolute()),
            usual,
            platform: Platform::of_machine(Path::new("/")),
        }
    }

    /// Takes this program, or the one in the `node_modules` of this folder, and no other.
    #[must_use]
    pub fn explicit(mut self, path: impl Into<PathBuf>) -> Self {
        self.explicit = Some(path.into());
        self
    }

    /// Prefers the program that npm installed below this prefix, a folder with `node_modules`.
    #[must_use]
    pub fn npm_prefix(mut self, prefix: impl Into<PathBuf>) -> Self {
        self.npm_prefix = Some(prefix.into());
        self
    }

    /// Searches.
    ///
    /// # Errors
    /// [`FindError`] when no usable program is there.
    pub fn find(&self) -> Result<Found, FindError> {
        if let Some(path) = &self.explicit {
            return self.named(path, Source::Explicit);
        }
        if let Some(path) = &self.variable {
            return self.named(Path::new(path), Source::Variable);
        }
        let mut searched = Vec::new();
        for (path, source) in self.candidates() {
            match self.usable(&path) {
                Ok(path) => return Ok(Found { path, source }),
                Err(problem) => searched.push(Looked { path, source, problem }),
            }
        }
        Err(FindError::NotFound { searched })
    }

    /// What the user named must be right: something else would be a surprise.
    fn named(&self, path: &Path, source: Source) -> Result<Found, FindError> {
        let candidates = if path.is_dir() { self.platform.below_prefix(path) } else { vec![path.to_owned()] };
        let mut first_problem = None;
        for candidate in candidates {
            match self.usable(&candidate) {
                Ok(path) => return Ok(Found { path, source }),
                Err(problem) => first_problem = first_problem.or(Some(problem)),
            }
        }
        let problem = match first_problem {
            Some(problem) if !path.is_dir() => problem,
            _ => Problem::NothingInFolder,
        };
        Err(FindError::NotUsable(Looked { path: path.to_owned(), source, problem }))
    }

    fn candidates(&self) -> Vec<(PathBuf, Source)> {
        let program = self.platform.program();
        let in_prefix = self.npm_prefix.iter().flat_map(|prefix| self.platform.below_prefix(prefix));
        // A relative entry means a folder of wherever we are, which may be the repository under evaluation.
        let in_path = std::env::split_paths(self.path.as_deref().unwrap_or(OsStr::new("")))
            .filter(|dir| dir.is_absolute())
            .map(|dir| dir.join(program));
        let at_home = self.home.iter().flat_map(|home| PLACES_AT_HOME.map(|place| home.join(place)));
        let usual = at_home.chain(self.usual.iter().cloned()).map(|dir| dir.join(program));
        let mut candidates: Vec<(PathBuf, Source)> = Vec::new();
        for (path, source) in in_prefix
            .map(|path| (path, Source::NpmPrefix))
            .chain(in_path.map(|path| (path, Source::Path)))
            .chain(usual.map(|path| (path, Source::UsualPlace)))
        {
            if candidates.iter().all(|(known, _)| *known != path) {
                candidates.push((path, source));
            }
        }
        candidates
    }

    /// The program to run for a candidate: itself, or the native one that belongs to it.
    fn usable(&self, path: &Path) -> Result<PathBuf, Problem> {
        is_program(path)?;
        let Some(wrapper) = Wrapper::behind(path) else { return Ok(path.to_owned()) };
        let native = self.platform.beside_wrapper(&wrapper).into_iter().find(|path| is_program(path).is_ok());
        match native {
            Some(native) => Ok(native),
            None if wrapper.is_stub() => Err(Problem::Stub),
            None => Ok(path.to_owned()),
        }
    }
}

fn is_program(path: &Path) -> Result<(), Problem> {
    let metadata = std::fs::metadata(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => Problem::Missing,
        kind => Problem::Unreadable(kind),
    })?;
    if !metadata.is_file() {
        return Err(Problem::NotAFile);
    }
    #[cfg(unix)]
    if std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o111 == 0 {
        return Err(Problem::NotExecutable);
    }
    Ok(())
}

/// A place that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Looked {
    /// The file, or the folder that was named.
    pub path: PathBuf,
    /// What named it.
    pub source: Source,
    /// Why it is not the program.
    pub problem: Problem,
}

impl fmt::Display for Looked {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.problem {
            Problem::Missing => write!(formatter, "{}", self.path.display()),
            problem => write!(formatter, "{} ({problem})", self.path.display()),
        }
    }
}

/// Why a file is not the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// Nothing is there.
    #[error("no such file")]
    Missing,
    /// A directory, a pipe or a device.
    #[error("not a regular file")]
    NotAFile,
    /// A file that may not be executed.
    #[error("not executable")]
    NotExecutable,
    /// The placeholder of an npm package whose native program is missing.
    #[error("a placeholder that npm installed without the native program")]
    Stub,
    /// A folder without the package of this platform.
    #[error("a folder in which npm installed no Claude Code for this platform")]
    NothingInFolder,
    /// It can't be looked at.
    #[error("{0}")]
    Unreadable(std::io::ErrorKind),
}

/// No usable `claude` was found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FindError {
    /// A path that was given, by the caller or by `YB_CLAUDE`, can't be used.
    #[error("can't use `claude` from {}, {}: {}", .0.source, .0.problem, .0.path.display())]
    NotUsable(Looked),
    /// Nothing was given, and nothing was found.
    #[error("`claude` was not found; searched: {}", listed(searched))]
    NotFound {
        /// Every place that was looked at, in order.
        searched: Vec<Looked>,
    },
}

fn listed(searched: &[Looked]) -> String {
    if searched.is_empty() {
        return "nothing, for neither PATH nor a home directory is set".to_owned();
    }
    searched.iter().map(Looked::to_string).collect::<Vec<_>>().join(", ")
}

impl FindError {
    /// What to do about it, one way out in each line.
    #[must_use]
    pub fn hints(&self) -> Vec<String> {
        let install = format!("install it: `{INSTALL}`");
        let name = format!("or set `{}` to its path", env_vars::YB_CLAUDE);
        match self {
            Self::NotUsable(Looked { problem: Problem::Stub, .. }) => {
                vec!["install it again, with optional dependencies".to_owned(), install]
            }
            Self::NotUsable(Looked { source: Source::Variable, .. }) => {
                vec![format!("unset `{}` or set it to the program", env_vars::YB_CLAUDE)]
            }
            Self::NotUsable(_) => {
                vec!["name the program itself, or a folder with its `node_modules`".to_owned()]
            }
            Self::NotFound { .. } => vec![install, name],
        }
    }
}

#[cfg(test)]
mod tests;
