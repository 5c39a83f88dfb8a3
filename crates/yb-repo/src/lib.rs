//! Git repositories of trials: fetching the start tree, creating the agent's workspace, and capturing the end tree. The contents of
//! an agent's `.git` are never trusted.
//!
//! ```text
//! Source ──Cache::resolve──▶ ResolvedCommit ──Cache::pruned_repo──▶ PrunedRepo ──PrunedRepo::workspace──▶ Workspace
//!                                                                                │ pre_execution, agent
//!                  ObjectStore::capture_start / ObjectStore::capture_end ◀───────┘
//! ```

mod base_tree;
mod batch;
mod capture;
mod checkout;
mod consolidate;
pub mod diff;
mod dirty;
mod error;
mod expected;
mod files;
mod git;
mod git_command;
mod git_dir;
mod hosts;
mod import;
#[cfg(unix)]
mod index_file;
mod local_mirror;
mod lock;
mod materialize;
mod mirror;
mod pruned;
mod remove;
mod rules;
mod session;
mod source;
mod tree;
mod walk;
mod warning;
mod workspace;

pub use base_tree::{FileStamps, has_reliable_change_times};
pub use capture::{CaptureLimits, EndTree, ObjectStore, StartTree};
pub use checkout::{LaidFiles, SharedCheckout, UPPER_DIR, WORK_DIR};
pub use error::{GitError, RepoError, RepoErrorKind, blocking};
pub use files::path_from_bytes;
pub use git::{Git, GitVersion, MIN_GIT};
pub use lock::FileLock;
pub use materialize::{changed_files, materialize};
pub use mirror::{Cache, Refresh, ResolvedCommit, Revision};
pub use pruned::{History, PrunedRepo};
pub use remove::{Removal, remove_or_set_aside, remove_tree};
pub use rules::{PathGlobs, PathSeparator, compile_glob};
pub use source::{RemoteUrl, Source, SourceError};
pub use tree::{TreeFile, copy_tree, overlay_tree, read_inside, write_entry};
pub use warning::CaptureWarning;
pub use workspace::{Identity, UnsupportedFeature, Workspace, WorkspaceOptions};
pub use yb_net::policy::HostPolicy;
