//! One binary for all integration tests of the crate.
#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]
mod base_tree;
mod capture;
mod consolidate;
#[cfg(unix)]
mod copied;
mod diff;
mod local_mirror;
mod overlay;
mod pruned;
mod session;
mod source;
mod workspace;
