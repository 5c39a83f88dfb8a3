//! Git repositories of trials: fetching the start tree, creating the agent's workspace, and capturing the end tree. The contents of
//! an agent's `.git` are never trusted.
//!
//! ```text
//! Source ──Cache::resolve──▶ ResolvedCommit ──Cache::pruned_repo──▶ PrunedRepo ──PrunedRepo::workspace──▶ Workspace
//!                                                                                │ pre_execution, agent
//!                  ObjectStore::capture_start / ObjectStore::capture_end ◀───────┘
//! ```

mod batch;
mod capture;
pub mod diff;
mod error;
mod expected;
mod files;
mod git;
mod git_command;
mod git_dir;
mod hosts;
mod import;
mod lock;
mod mirror;
mod pruned;
mod remove;
mod rules;
mod session;
mod source;
mod tree;
mod walk;
mod workspace;

pub use capture::{CaptureLimits, CaptureWarning, EndTree, ObjectStore, StartTree};
pub use error::{GitError, RepoError, RepoErrorKind, blocking};
pub use files::path_from_bytes;
pub use git::{Git, GitVersion, MIN_GIT};
pub use lock::FileLock;
pub use mirror::{Cache, Refresh, ResolvedCommit, Revision};
pub use pruned::{History, PrunedRepo};
pub use remove::{Removal, remove_or_set_aside, remove_tree};
pub use rules::PathGlobs;
pub use source::{RemoteUrl, Source, SourceError};
pub use tree::{TreeFile, copy_tree, read_inside, write_entry};
pub use workspace::{Identity, UnsupportedFeature, Workspace, WorkspaceOptions};
pub use yb_net::policy::HostPolicy;
