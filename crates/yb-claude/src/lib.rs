//! Speak to the `claude` CLI.
//!
//! What exists now: [`find`] and [`Search`], which find the native Claude Code program on a machine.
//!
//! ```no_run
//! let found = yb_claude::find(None, &|name| std::env::var_os(name))?;
//! assert!(found.path.is_file());
//! # Ok::<(), yb_claude::FindError>(())
//! ```

pub mod env_vars;
mod find;
pub mod hermetic;
mod npm;

pub use find::{FindError, Found, Looked, Problem, Search, Source, find};
