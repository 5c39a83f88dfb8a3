//! Searches for the native Claude Code program.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

use crate::env_vars;
use crate::npm::{Platform, Wrapper};

/// The installation command, for hints.
const INSTALL: &str = "npm install -g @anthropic-ai/claude-code";

/// Installation directories below the home directory, in search order.
const HOME_DIRS: [&str; 5] =
    [".local/bin", ".claude/local", ".npm-global/bin", "node_modules/.bin", ".yarn/bin"];

/// Finds `claude`: the explicit path, else `YB_CLAUDE`, else `PATH` and common installation directories.
///
/// # Errors
/// [`FindError`] if no usable program was found. An unusable explicit path is an error; nothing else is searched then.
pub fn find_cli(
    explicit: Option<&Path>,
    env: &dyn Fn(&str) -> Option<OsString>,
) -> Result<FoundCli, FindError> {
    let mut search = CliSearch::from_env(env);
    search.explicit = explicit.map(Path::to_owned);
    search.find()
}

/// A program that was found by [`CliSearch`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundCli {
    /// The path of an executable regular file.
    pub path: PathBuf,
    /// Where the path came from.
    pub source: CliSource,
}

/// Where the path of a program came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CliSource {
    /// An explicit path from the caller.
    Explicit,
    /// The environment variable `YB_CLAUDE`.
    Variable,
    /// The npm prefix from the caller.
    NpmPrefix,
    /// A directory in `PATH`.
    Path,
    /// A common installation directory.
    InstallDir,
}

impl fmt::Display for CliSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Explicit => "the explicit path",
            Self::Variable => env_vars::YB_CLAUDE,
            Self::NpmPrefix => "the npm prefix",
            Self::Path => env_vars::PATH,
            Self::InstallDir => "an installation directory",
        })
    }
}

/// A search for the `claude` program. Uses only the given environment, not that of this process.
#[derive(Debug, Clone)]
pub struct CliSearch {
    explicit: Option<PathBuf>,
    variable: Option<OsString>,
    npm_prefix: Option<PathBuf>,
    path: Option<OsString>,
    home: Option<PathBuf>,
    install_dirs: Vec<PathBuf>,
    platform: Platform,
}

impl CliSearch {
    /// Creates a search from the given environment variables.
    pub fn from_env(env: &dyn Fn(&str) -> Option<OsString>) -> Self {
        let set = |name| env(name).filter(|value| !value.is_empty());
        let install_dirs = if cfg!(windows) { Vec::new() } else { vec![PathBuf::from("/usr/local/bin")] };
        Self {
            explicit: None,
            variable: set(env_vars::YB_CLAUDE),
            npm_prefix: None,
            path: set(env_vars::PATH),
            home: set(env_vars::HOME).map(PathBuf::from).filter(|home| home.is_absolute()),
            install_dirs,
            platform: Platform::of_machine(Path::new("/")),
        }
    }

    /// Sets the program, or a directory whose `node_modules` contains it. Nothing else is searched.
    #[must_use]
    pub fn with_explicit(mut self, path: impl Into<PathBuf>) -> Self {
        self.explicit = Some(path.into());
        self
    }

    /// Sets an npm prefix, a directory with `node_modules`, that is searched before `PATH`.
    #[must_use]
    pub fn with_npm_prefix(mut self, prefix: impl Into<PathBuf>) -> Self {
        self.npm_prefix = Some(prefix.into());
        self
    }

    /// Runs the search.
    ///
    /// # Errors
    /// [`FindError`] if no usable program was found.
    pub fn find(&self) -> Result<FoundCli, FindError> {
        if let Some(path) = &self.explicit {
            return self.check_named(path, CliSource::Explicit);
        }
        if let Some(path) = &self.variable {
            return self.check_named(Path::new(path), CliSource::Variable);
        }
        let mut searched = Vec::new();
        for (path, source) in self.candidates() {
            match self.resolve(&path) {
                Ok(path) => return Ok(FoundCli { path, source }),
                Err(problem) => searched.push(SearchedPath { path, source, problem }),
            }
        }
        Err(FindError::NotFound { searched })
    }

    /// Checks a path from the user, which is never replaced by another.
    fn check_named(&self, path: &Path, source: CliSource) -> Result<FoundCli, FindError> {
        let candidates = if path.is_dir() { self.platform.below_prefix(path) } else { vec![path.to_owned()] };
        let mut first_problem = None;
        for candidate in candidates {
            match self.resolve(&candidate) {
                Ok(path) => return Ok(FoundCli { path, source }),
                Err(problem) => first_problem = first_problem.or(Some(problem)),
            }
        }
        let problem = match first_problem {
            Some(problem) if !path.is_dir() => problem,
            _ => PathProblem::NoPackage,
        };
        Err(FindError::NotUsable(SearchedPath { path: path.to_owned(), source, problem }))
    }

    fn candidates(&self) -> Vec<(PathBuf, CliSource)> {
        let program = self.platform.program();
        let in_prefix = self.npm_prefix.iter().flat_map(|prefix| self.platform.below_prefix(prefix));
        // Relative entries are skipped: they resolve to the current directory, possibly the repository under evaluation.
        let in_path = std::env::split_paths(self.path.as_deref().unwrap_or(OsStr::new("")))
            .filter(|dir| dir.is_absolute())
            .map(|dir| dir.join(program));
        let at_home = self.home.iter().flat_map(|home| HOME_DIRS.map(|dir| home.join(dir)));
        let usual = at_home.chain(self.install_dirs.iter().cloned()).map(|dir| dir.join(program));
        let mut candidates: Vec<(PathBuf, CliSource)> = Vec::new();
        for (path, source) in in_prefix
            .map(|path| (path, CliSource::NpmPrefix))
            .chain(in_path.map(|path| (path, CliSource::Path)))
            .chain(usual.map(|path| (path, CliSource::InstallDir)))
        {
            if candidates.iter().all(|(known, _)| *known != path) {
                candidates.push((path, source));
            }
        }
        candidates
    }

    /// Resolves a candidate to the program to run: itself, or the native program behind an npm wrapper.
    fn resolve(&self, path: &Path) -> Result<PathBuf, PathProblem> {
        check_executable(path)?;
        let Some(wrapper) = Wrapper::behind(path) else { return Ok(path.to_owned()) };
        let native =
            self.platform.beside_wrapper(&wrapper).into_iter().find(|path| check_executable(path).is_ok());
        match native {
            Some(native) => Ok(native),
            None if wrapper.is_stub() => Err(PathProblem::Stub),
            None => Ok(path.to_owned()),
        }
    }
}

fn check_executable(path: &Path) -> Result<(), PathProblem> {
    let metadata = std::fs::metadata(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => PathProblem::Missing,
        kind => PathProblem::Unreadable(kind),
    })?;
    if !metadata.is_file() {
        return Err(PathProblem::NotAFile);
    }
    #[cfg(unix)]
    if std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o111 == 0 {
        return Err(PathProblem::NotExecutable);
    }
    Ok(())
}

/// A path that was searched without success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchedPath {
    /// The file or directory.
    pub path: PathBuf,
    /// Where the path came from.
    pub source: CliSource,
    /// Why it is not usable.
    pub problem: PathProblem,
}

impl fmt::Display for SearchedPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.problem {
            PathProblem::Missing => write!(formatter, "{}", self.path.display()),
            problem => write!(formatter, "{} ({problem})", self.path.display()),
        }
    }
}

/// Why a path is not a usable program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathProblem {
    /// The file does not exist.
    #[error("no such file")]
    Missing,
    /// Not a regular file.
    #[error("not a regular file")]
    NotAFile,
    /// The file is not executable.
    #[error("not executable")]
    NotExecutable,
    /// A placeholder of the npm package; the native program is missing.
    #[error("an npm placeholder without the native program")]
    Stub,
    /// A directory without the npm package for this platform.
    #[error("no Claude Code npm package for this platform in this directory")]
    NoPackage,
    /// The file metadata is not readable.
    #[error("{0}")]
    Unreadable(std::io::ErrorKind),
}

/// No usable `claude` was found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FindError {
    /// The path from the caller or from `YB_CLAUDE` is not usable.
    #[error("unusable `claude` from {} ({}): {}", .0.source, .0.problem, .0.path.display())]
    NotUsable(SearchedPath),
    /// The search found no usable program.
    #[error("`claude` was not found; searched: {}", listed(searched))]
    NotFound {
        /// All searched paths, in order.
        searched: Vec<SearchedPath>,
    },
}

fn listed(searched: &[SearchedPath]) -> String {
    if searched.is_empty() {
        return "nothing, because neither `PATH` nor a home directory is set".to_owned();
    }
    searched.iter().map(SearchedPath::to_string).collect::<Vec<_>>().join(", ")
}

impl FindError {
    /// Returns hints for fixing the error, one per line.
    #[must_use]
    pub fn hints(&self) -> Vec<String> {
        let install = format!("install it: `{INSTALL}`");
        let variable = format!("or set `{}` to its path", env_vars::YB_CLAUDE);
        match self {
            Self::NotUsable(SearchedPath { problem: PathProblem::Stub, .. }) => {
                vec!["reinstall it with optional dependencies".to_owned(), install]
            }
            Self::NotUsable(SearchedPath { source: CliSource::Variable, .. }) => {
                vec![format!("unset `{}` or set it to the program", env_vars::YB_CLAUDE)]
            }
            Self::NotUsable(_) => {
                vec!["use the path of the program, or of a directory with its `node_modules`".to_owned()]
            }
            Self::NotFound { .. } => vec![install, variable],
        }
    }
}

#[cfg(test)]
mod tests;
