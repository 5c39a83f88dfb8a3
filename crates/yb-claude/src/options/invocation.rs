//! Invocations: arguments, variables, stdin and files, as plain data.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write as _};
use std::path::PathBuf;

use super::{EnvChange, OptionIssue};
use crate::hermetic;
use crate::version::Version;

/// The maximum size of an inline argument. Linux allows 131,071 bytes per argument, Windows 32,767 characters in total.
pub const INLINE_LIMIT: usize = if cfg!(windows) { 8 * 1024 } else { 100 * 1024 };

/// The target of an invocation: a private directory and the CLI's version.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct InvocationTarget {
    /// The absolute path of a directory for this run only, which need not exist. Values that are too large or secret for
    /// an argument are written to files there.
    pub private_dir: PathBuf,
    /// The CLI's version; `None` is treated as a current version.
    pub version: Option<Version>,
}

impl InvocationTarget {
    /// Creates a target with unknown version.
    pub fn new(private_dir: impl Into<PathBuf>) -> Self {
        Self { private_dir: private_dir.into(), version: None }
    }

    /// Sets the CLI's version.
    #[must_use]
    pub fn with_version(mut self, version: Version) -> Self {
        self.version = Some(version);
        self
    }
}

/// A CLI invocation, ready to run.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct Invocation {
    /// The arguments, without the program.
    pub args: Vec<OsString>,
    /// The variables to set or remove, without duplicates.
    pub env: Vec<(OsString, EnvChange)>,
    /// The data for stdin.
    pub stdin: Vec<u8>,
    /// The working directory, if it differs from the host's.
    pub cwd: Option<PathBuf>,
    /// Secrets by name, which must be redacted from logs and recordings.
    pub secrets: Vec<(String, Vec<u8>)>,
    /// Files that arguments refer to; write them first with [`write_files`](Self::write_files).
    pub files: Vec<PrivateFile>,
    /// Warnings about options that have a different effect than requested.
    pub warnings: Vec<OptionIssue>,
}

/// A file that must exist before the command runs.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PrivateFile {
    /// The path.
    pub path: PathBuf,
    /// The content.
    pub bytes: Vec<u8>,
}

impl fmt::Debug for PrivateFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({} bytes)", self.path.display(), self.bytes.len())
    }
}

/// Shows only names and sizes of stdin, variables and files, which may hold secrets.
impl fmt::Debug for Invocation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Invocation")
            .field("args", &self.args)
            .field("env", &self.env)
            .field("stdin", &self.stdin.len())
            .field("cwd", &self.cwd)
            .field("files", &self.files)
            .field("warnings", &self.warnings)
            .finish_non_exhaustive()
    }
}

impl Invocation {
    /// Writes the files with mode 0600. Without files, nothing is created.
    ///
    /// # Errors
    /// If a directory or file can't be created. Existing files are never followed or overwritten.
    pub fn write_files(&self) -> io::Result<()> {
        self.files.iter().try_for_each(|file| {
            file.path.parent().map_or(Ok(()), hermetic::create_private_dir)?;
            let mut options = std::fs::OpenOptions::new();
            options.write(true).create_new(true);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            options.open(&file.path)?.write_all(&file.bytes)
        })
    }
}
