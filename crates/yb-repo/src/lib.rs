//! Repositories around a trial: where a starting tree comes from, the workspace that an agent gets, and what is
//! kept of it afterwards. Nothing in here believes what an agent left in a `.git`.
//!
//! ```text
//! Source ──Cache::resolve──▶ Resolved ──Cache::cut──▶ Cut ──Cut::workspace──▶ Workspace
//!                                                                                │ pre_execution, agent
//!                                  ObjectStore::start / ObjectStore::end ◀───────┘
//! ```

mod batch;
mod call;
mod capture;
mod cut;
pub mod diff;
mod error;
mod expected;
mod files;
mod git;
mod hosts;
mod import;
mod lock;
mod mirror;
mod rules;
mod session;
mod skeleton;
mod source;
mod tree;
mod walk;
mod workspace;

pub use capture::{CaptureLimits, CaptureWarning, EndTree, ObjectStore, StartTree};
pub use cut::{Cut, History};
pub use error::blocking;
pub use error::{GitError, RepoError, RepoErrorKind};
pub use files::path_of;
pub use git::{Git, GitVersion, MIN_GIT};
pub use lock::Lock;
pub use mirror::{Cache, Refresh, Resolved, Revision};
pub use rules::Include;
pub use session::Session;
pub use source::{RemoteUrl, Source, SourceError};
pub use tree::{TreeFile, clear, copy as copy_tree, put, read_inside};
pub use workspace::{Identity, Unsupported, Workspace, WorkspaceOptions};
pub use yb_net::policy::HostPolicy;
