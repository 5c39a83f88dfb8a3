//! Images without a daemon: a root directory, and how processes are started in it.
//!
//! An [`Image`] is a directory that nothing changes, with the configuration of the image that it was unpacked from. All its
//! files belong to the current user; owners are not kept, because a process in it has a single user.

mod build;
mod context;
mod dockerfile;
mod error;
mod reference;
mod registry;
mod store;
mod unpack;
mod user;

use std::path::{Path, PathBuf};

pub use build::BuildOptions;
pub use error::ImageError;
pub use store::ImageStore;
pub use user::{ImageUser, find_user};

/// Settings of apt for a root with a single user.
pub const APT_SETTINGS: &str = "APT::Sandbox::User \"root\";\n";

/// A root directory with its configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Image {
    /// The directory.
    pub rootfs: PathBuf,
    /// How processes are started in it.
    pub config: ImageConfig,
}

/// How processes are started in an image.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ImageConfig {
    /// Environment variables.
    pub env: Vec<(String, String)>,
    /// The working directory; empty if there is none.
    pub workdir: String,
    /// The user: a name or an id, perhaps with a group; empty for root.
    pub user: String,
}

impl Image {
    /// Returns a directory as an image without configuration.
    #[must_use]
    pub fn of_directory(rootfs: &Path) -> Self {
        Self { rootfs: rootfs.to_owned(), config: ImageConfig::default() }
    }
}
