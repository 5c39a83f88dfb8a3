//! One binary for all integration tests of the crate.
#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]
mod per_case;
mod reference;
mod simulation;
