//! Error types of the crate, with hints for the author of a script.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Any error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The script file could not be read.
    #[error("failed to read script: `{}`", path.display())]
    ReadScript {
        /// The script file.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// The script is invalid.
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// The loopback port could not be bound.
    #[error("failed to listen on loopback port: {port}")]
    Bind {
        /// The requested port; 0 means any free port.
        port: u16,
        /// The I/O error.
        source: io::Error,
    },
    /// The server thread could not be started.
    #[error("failed to start the server thread")]
    Start(#[source] io::Error),
    /// A tape could not be read.
    #[error("failed to read tape: `{}`", path.display())]
    ReadTape {
        /// The tape file.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// A tape could not be written.
    #[error("failed to write tape: `{}`", path.display())]
    WriteTape {
        /// The tape file.
        path: PathBuf,
        /// The I/O error.
        source: io::Error,
    },
    /// The file is not a tape.
    #[error("not a recorded tape: `{}`: {reason}", path.display())]
    InvalidTape {
        /// The file.
        path: PathBuf,
        /// Why it can't be read as a tape.
        reason: String,
    },
    /// The tape was changed since it was recorded.
    #[error("tape was changed since it was recorded: `{}`: {change}", path.display())]
    ChangedTape {
        /// The file.
        path: PathBuf,
        /// The first change.
        change: String,
    },
    /// The tape was recorded by a newer version of this crate.
    #[error("unsupported tape version: `{}`: {version}", path.display())]
    UnsupportedTapeVersion {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// The upstream URL is invalid.
    #[error("invalid upstream URL: `{url}`: {reason}")]
    InvalidUpstream {
        /// The URL, without credentials.
        url: String,
        /// Why it was rejected.
        reason: &'static str,
    },
    /// The TLS client could not be set up.
    #[error("failed to set up TLS: {0}")]
    Tls(String),
    /// A fork or a fault refers to a turn that the tape does not have.
    #[error("no such turn in lane `{lane}`, which has {turns}: {turn}")]
    NoSuchTurn {
        /// The lane.
        lane: String,
        /// The requested turn.
        turn: usize,
        /// Number of turns in the lane.
        turns: usize,
    },
}

impl Error {
    /// Returns a hint for solving the problem, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Script(error) => error.hint(),
            Self::Bind { .. } => Some("omit the port, or use 0 for any free port"),
            Self::WriteTape { source, .. } if source.kind() == io::ErrorKind::AlreadyExists => {
                Some("existing tapes are never overwritten: choose another name, or remove the file first")
            }
            Self::ChangedTape { .. } => {
                Some("restore the file, or record the tape again; `yb tape verify` lists all changes")
            }
            Self::InvalidTape { .. } => Some("record the tape again, for example with `yb tape record`"),
            Self::UnsupportedTapeVersion { .. } => Some("update youbencha, or record the tape again"),
            Self::InvalidUpstream { .. } => Some("use the form `https://host` or `http://host:port`"),
            Self::NoSuchTurn { .. } => Some("`yb tape show` lists the lanes of a tape and their turns"),
            Self::ReadScript { .. }
            | Self::Start(_)
            | Self::ReadTape { .. }
            | Self::WriteTape { .. }
            | Self::Tls(_) => None,
        }
    }
}

/// A location in a script; lines and columns count from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptLocation {
    /// The file, or `script` for a script that was parsed from a string.
    pub file: String,
    /// The line; 0 means the whole file.
    pub line: u64,
    /// The column in characters; 0 means the whole file.
    pub column: u64,
}

impl fmt::Display for ScriptLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            f.write_str(&self.file)
        } else {
            write!(f, "{}:{}:{}", self.file, self.line, self.column)
        }
    }
}

/// An error in a script, with its location, the expected value and a hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptError(Box<ScriptErrorDetails>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct ScriptErrorDetails {
    location: ScriptLocation,
    problem: String,
    key: Option<String>,
    expected: Option<String>,
    found: Option<String>,
    hint: Option<String>,
}

impl ScriptError {
    pub(crate) fn new(location: ScriptLocation, problem: impl Into<String>) -> Self {
        let problem = problem.into();
        Self(Box::new(ScriptErrorDetails {
            location,
            problem,
            key: None,
            expected: None,
            found: None,
            hint: None,
        }))
    }

    pub(crate) fn in_key(mut self, key: impl Into<String>) -> Self {
        self.0.key = Some(key.into());
        self
    }

    pub(crate) fn expected(mut self, expected: impl Into<String>) -> Self {
        self.0.expected = Some(expected.into());
        self
    }

    pub(crate) fn found(mut self, found: impl Into<String>) -> Self {
        self.0.found = Some(found.into());
        self
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Returns the location of the error.
    #[must_use]
    pub fn location(&self) -> &ScriptLocation {
        &self.0.location
    }

    /// Returns the key path, such as `lanes.main[0].usage.input`; list items count from 0.
    #[must_use]
    pub fn key_path(&self) -> Option<&str> {
        self.0.key.as_deref()
    }

    /// Returns a description of the expected value.
    #[must_use]
    pub fn expectation(&self) -> Option<&str> {
        self.0.expected.as_deref()
    }

    /// Returns a hint for solving the problem, if there is one.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.location, self.0.problem)?;
        if let Some(key) = &self.0.key {
            write!(f, " in `{key}`")?;
        }
        if let Some(expected) = &self.0.expected {
            write!(f, ", expected {expected}")?;
        }
        if let Some(found) = &self.0.found {
            write!(f, ": {found}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ScriptError {}
