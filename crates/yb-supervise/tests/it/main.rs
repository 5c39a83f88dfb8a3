//! Integration tests of `yb-supervise` with real processes.
#![cfg(unix)]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "some tests need a process that is not supervised")]

mod support;

#[cfg(target_os = "linux")]
mod egress;
mod environment;
mod errors;
mod exit_status;
mod host_killed;
mod hostile;
#[cfg(target_os = "linux")]
mod keeper;
#[cfg(target_os = "linux")]
mod landlock;
#[cfg(target_os = "linux")]
mod limits;
mod output;
#[cfg(target_os = "linux")]
mod overlay;
mod pause;
mod quota;
mod reap;
mod redaction;
#[cfg(target_os = "linux")]
mod root;
#[cfg(target_os = "linux")]
mod sandbox;
mod shim_loss;
mod soak;
mod stdin;
mod stream;
#[cfg(target_os = "linux")]
mod syscalls;
