//! One binary for all integration tests of the crate.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a helper that fails fails its test")]
mod add_ons;
mod case;
mod config;
mod factors;
mod hostile;
mod overlay;
mod rules;
mod suite;
mod suite_digest;
mod suite_errors;
mod suite_guard;
mod suite_hostile;
mod suite_merge;
mod surface;
