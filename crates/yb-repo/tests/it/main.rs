//! One binary for all integration tests of the crate.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a helper that fails fails its test")]
mod capture;
mod diff;
mod pruned;
mod session;
mod source;
mod workspace;
