//! What options become: arguments, variables, input and files, all of it data and nothing done yet.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::{EnvChange, Finding};
use crate::version::Version;

/// The largest argument. Linux takes 131,071 bytes in one, Windows 32,767 characters in all of them together.
pub const INLINE_LIMIT: usize = if cfg!(windows) { 8 * 1024 } else { 100 * 1024 };

/// Where an invocation will run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Target {
    /// An absolute path of a directory for this run alone, which need not exist: what is too large or too secret
    /// for an argument becomes a file there.
    pub private_dir: PathBuf,
    /// The CLI's version; when it is not known, it is taken for a new one.
    pub version: Option<Version>,
}

impl Target {
    /// A target of unknown version.
    pub fn new(private_dir: impl Into<PathBuf>) -> Self {
        Self { private_dir: private_dir.into(), version: None }
    }

    /// The same with this version of the CLI.
    #[must_use]
    pub fn with_version(mut self, version: Version) -> Self {
        self.version = Some(version);
        self
    }
}

/// One command, ready to be run.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct Invocation {
    /// The arguments, without the program.
    pub args: Vec<OsString>,
    /// The variables to set and to remove, each once.
    pub env: Vec<(OsString, EnvChange)>,
    /// What the CLI reads.
    pub stdin: Vec<u8>,
    /// The working directory, if it is not the host's.
    pub cwd: Option<PathBuf>,
    /// Values that must not appear in anything that is written down, by name.
    pub secrets: Vec<(String, Vec<u8>)>,
    /// Files that arguments name: write them first, with [`write_files`](Self::write_files).
    pub files: Vec<PrivateFile>,
    /// What will go otherwise than asked.
    pub warnings: Vec<Finding>,
}

/// A file that has to be there before the command runs.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PrivateFile {
    /// Where.
    pub path: PathBuf,
    /// What stands in it.
    pub bytes: Vec<u8>,
}

impl fmt::Debug for PrivateFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({} bytes)", self.path.display(), self.bytes.len())
    }
}

/// Input, variables and files may hold secrets; only their names and sizes are shown.
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
    /// Writes its files, readable for nobody else; without any, nothing is created.
    ///
    /// # Errors
    /// When a directory or file can't be created. A file that is there already is never followed or overwritten.
    pub fn write_files(&self) -> io::Result<()> {
        self.files.iter().try_for_each(|file| {
            file.path.parent().map_or(Ok(()), create_private_dir)?;
            let mut options = std::fs::OpenOptions::new();
            options.write(true).create_new(true);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            options.open(&file.path)?.write_all(&file.bytes)
        })
    }
}

fn create_private_dir(path: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}
