//! Warnings about files that a captured tree does not have.

use std::fmt;

use super::walk::lossy_path;

/// Further warnings are only counted.
const MAX_WARNINGS: usize = 200;

/// A file of a workspace that its captured tree does not have, or not with the same content. In paths, bytes that are not UTF-8
/// are shown as replacement characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CaptureWarning {
    /// The workspace is no longer a directory; the tree is empty.
    WorkspaceGone,
    /// A file or directory can't be read and is skipped.
    Unreadable {
        /// The path.
        path: String,
        /// The I/O error.
        reason: String,
    },
    /// A socket, fifo or device is skipped.
    SpecialFile {
        /// The path.
        path: String,
        /// The type of file.
        kind: &'static str,
    },
    /// A file is too large and replaced by a placeholder.
    HugeFile {
        /// The path.
        path: String,
        /// Its size in bytes.
        size: u64,
        /// The limit.
        limit: u64,
    },
    /// The holes of sparse files exceed the limit; a sparse file is replaced by a placeholder.
    SparseFile {
        /// The path.
        path: String,
        /// Its size in bytes, with holes.
        size: u64,
        /// The limit for the holes of all files.
        limit: u64,
    },
    /// A nested repository: its files are captured, its `.git` is not.
    NestedRepository {
        /// The directory.
        path: String,
    },
    /// A file whose name git does not allow in a tree is skipped.
    ReservedName {
        /// The path.
        path: String,
    },
    /// There are more files than the limit; the rest is skipped.
    TooManyFiles {
        /// The limit.
        limit: u64,
    },
    /// There are more files and directories than the limit; the rest is skipped.
    TooManyEntries {
        /// The first one that is skipped.
        path: String,
        /// The limit.
        limit: u64,
    },
    /// The files are larger in total than the limit; the rest is skipped.
    TooLarge {
        /// The first one that is skipped.
        path: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// A path is longer than the limit and skipped.
    PathTooLong {
        /// The beginning of the path.
        path: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// All paths together are longer than the limit; the rest is skipped.
    PathsTooLong {
        /// The first path that is skipped.
        path: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// There are more warnings.
    More {
        /// The number of further warnings.
        count: u64,
    },
}

impl CaptureWarning {
    pub(crate) fn unreadable(path: &[u8], error: &std::io::Error) -> Self {
        Self::Unreadable { path: lossy_path(path), reason: error.to_string() }
    }

    /// The path of the file, if the warning is about one.
    pub(crate) fn path(&self) -> Option<&str> {
        match self {
            Self::Unreadable { path, .. }
            | Self::SpecialFile { path, .. }
            | Self::HugeFile { path, .. }
            | Self::SparseFile { path, .. }
            | Self::NestedRepository { path }
            | Self::ReservedName { path }
            | Self::TooManyEntries { path, .. }
            | Self::TooLarge { path, .. }
            | Self::PathTooLong { path, .. }
            | Self::PathsTooLong { path, .. } => Some(path),
            Self::WorkspaceGone | Self::TooManyFiles { .. } | Self::More { .. } => None,
        }
    }

    /// Whether the tree is incomplete because of a limit.
    pub fn is_exceeded_limit(&self) -> bool {
        matches!(
            self,
            Self::TooManyFiles { .. }
                | Self::TooManyEntries { .. }
                | Self::TooLarge { .. }
                | Self::PathTooLong { .. }
                | Self::PathsTooLong { .. }
        )
    }
}

impl fmt::Display for CaptureWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WorkspaceGone => f.write_str("the workspace was removed; its tree is empty"),
            Self::Unreadable { path, reason } => {
                write!(f, "skipped an unreadable file: `{path}`: {reason}")
            }
            Self::SpecialFile { path, kind } => write!(f, "skipped a {kind}: `{path}`"),
            Self::HugeFile { path, size, limit } => {
                write!(f, "replaced a file of {size} bytes by a placeholder (limit {limit}): `{path}`")
            }
            Self::SparseFile { path, size, limit } => write!(
                f,
                "replaced a sparse file of {size} bytes by a placeholder (limit {limit} for all holes): `{path}`"
            ),
            Self::NestedRepository { path } => {
                write!(f, "captured a nested repository as plain files: `{path}`")
            }
            Self::ReservedName { path } => write!(f, "skipped a name that git reserves: `{path}`"),
            Self::TooManyFiles { limit } => write!(f, "more than {limit} files; skipped the rest"),
            Self::TooManyEntries { path, limit } => {
                write!(f, "more than {limit} files and directories; skipped the rest: `{path}`")
            }
            Self::TooLarge { path, limit } => {
                write!(f, "the files have more than {limit} bytes; skipped the rest: `{path}`")
            }
            Self::PathTooLong { path, limit } => {
                write!(f, "skipped a path of more than {limit} bytes: `{path}`")
            }
            Self::PathsTooLong { path, limit } => {
                write!(f, "all paths together have more than {limit} bytes; skipped the rest: `{path}`")
            }
            Self::More { count } => write!(f, "and {count} more"),
        }
    }
}

/// A bounded list of warnings: an agent may cause any number of them.
#[derive(Debug, Default)]
pub(crate) struct Warnings {
    kept: Vec<CaptureWarning>,
    more: u64,
    /// The first limit that was exceeded.
    exceeded: Option<CaptureWarning>,
}

impl Warnings {
    pub(crate) fn push(&mut self, warning: CaptureWarning) {
        if self.exceeded.is_none() && warning.is_exceeded_limit() {
            self.exceeded = Some(warning.clone());
        }
        if self.kept.len() < MAX_WARNINGS {
            self.kept.push(warning);
        } else {
            self.more += 1;
        }
    }

    pub(crate) fn exceeded(&self) -> Option<CaptureWarning> {
        self.exceeded.clone()
    }

    pub(crate) fn into_vec(mut self) -> Vec<CaptureWarning> {
        if self.more > 0 {
            self.kept.push(CaptureWarning::More { count: self.more });
        }
        self.kept
    }
}
