//! The environment variables that this crate reads, in one place.

/// The `claude` program to use, or a folder with the `node_modules` that contains it.
pub const YB_CLAUDE: &str = "YB_CLAUDE";

/// Where programs are looked for.
pub const PATH: &str = "PATH";

/// The home directory, whose usual places are looked at.
pub const HOME: &str = if cfg!(windows) { "USERPROFILE" } else { "HOME" };
