//! One binary for all integration tests of the crate.
#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]
#[cfg(unix)]
mod acp;
#[cfg(unix)]
mod cli_real;
mod command;
#[cfg(unix)]
mod conformance;
mod contract;
mod faults;
#[cfg(unix)]
mod floods;
#[cfg(unix)]
mod instructions;
mod log_contract;
mod log_schema;
mod meter;
mod real;
mod soak;
mod specs;
mod stories;
mod support;
