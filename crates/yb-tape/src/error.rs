//! What can go wrong before and while a tape plays, in words that a script's author can act on.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Any failure of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The script's file could not be read.
    #[error("failed to read script: `{}`", path.display())]
    Read {
        /// The file that was asked for.
        path: PathBuf,
        /// Why the system refused.
        source: io::Error,
    },
    /// The script's text is not a valid script.
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// The loopback port could not be opened.
    #[error("failed to listen on loopback port: {port}")]
    Bind {
        /// The port that was asked for; 0 means any free one.
        port: u16,
        /// Why the system refused.
        source: io::Error,
    },
    /// The server's own thread could not be started.
    #[error("failed to start the tape's thread")]
    Start(#[source] io::Error),
    /// A tape could not be read.
    #[error("failed to read tape: `{}`", path.display())]
    ReadTape {
        /// The file that was asked for.
        path: PathBuf,
        /// Why the system refused.
        source: io::Error,
    },
    /// A tape could not be written.
    #[error("failed to write tape: `{}`", path.display())]
    WriteTape {
        /// The file that was to be written.
        path: PathBuf,
        /// Why the system refused.
        source: io::Error,
    },
    /// A file is not a tape.
    #[error("not a recorded tape: `{}`: {reason}", path.display())]
    NoTape {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A tape was made by a newer version of this program.
    #[error("tape has a newer format: `{}`: version {version}", path.display())]
    NewerTape {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// The upstream's address is none.
    #[error("not the address of a model's API: `{url}`: {reason}")]
    Upstream {
        /// What was given.
        url: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The upstream can't be spoken to safely.
    #[error("failed to set up TLS: {0}")]
    Tls(String),
    /// A fork or a fault names a step that the tape does not have.
    #[error("the tape has no such step: {step} (lane `{lane}` has {turns})")]
    NoStep {
        /// The lane that was named.
        lane: String,
        /// The step that was asked for.
        step: usize,
        /// How many there are.
        turns: usize,
    },
}

impl Error {
    /// The way out, when one is known.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Script(error) => error.hint(),
            Self::Bind { .. } => Some("leave the port out, or give 0, to get any free port"),
            Self::WriteTape { source, .. } if source.kind() == io::ErrorKind::AlreadyExists => {
                Some("a tape is never written over: choose another name, or remove it first")
            }
            Self::NoTape { .. } => {
                Some("a tape comes from a recording, such as `yb tape record`; record it again")
            }
            Self::NewerTape { .. } => Some("use a newer version of this program, or record again"),
            Self::Upstream { .. } => Some("write it as `https://host` or `http://host:port`"),
            Self::NoStep { .. } => Some("the tape's lanes tell how many turns each has"),
            Self::Read { .. }
            | Self::Start(_)
            | Self::ReadTape { .. }
            | Self::WriteTape { .. }
            | Self::Tls(_) => None,
        }
    }
}

/// Where in a script something stands; lines and columns count from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file, or `script` when the text did not come from a file.
    pub file: String,
    /// The line, 0 when the whole file is meant.
    pub line: u64,
    /// The column in characters, 0 when the whole file is meant.
    pub column: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            f.write_str(&self.file)
        } else {
            write!(f, "{}:{}:{}", self.file, self.line, self.column)
        }
    }
}

/// A mistake in a script: where it is, what was expected there, and how to mend it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptError(Box<Parts>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Parts {
    place: Place,
    problem: String,
    key: Option<String>,
    expected: Option<String>,
    found: Option<String>,
    hint: Option<String>,
}

impl ScriptError {
    pub(crate) fn new(place: Place, problem: impl Into<String>) -> Self {
        let problem = problem.into();
        Self(Box::new(Parts { place, problem, key: None, expected: None, found: None, hint: None }))
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

    /// Where the mistake is.
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.0.place
    }

    /// The key in which it is, as a path such as `lanes.main[0].usage.input`; list items count from 0.
    #[must_use]
    pub fn key_path(&self) -> Option<&str> {
        self.0.key.as_deref()
    }

    /// What would have been right.
    #[must_use]
    pub fn expectation(&self) -> Option<&str> {
        self.0.expected.as_deref()
    }

    /// The way out, when one is known.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.place, self.0.problem)?;
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
