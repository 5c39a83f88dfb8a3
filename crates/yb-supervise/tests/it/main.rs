//! What `yb-supervise` promises, tried on real processes.
#![cfg(unix)]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "some tests need a process that is not supervised")]

mod support;

mod ends;
mod environment;
mod errors;
#[cfg(target_os = "linux")]
mod exits;
mod host_killed;
#[cfg(target_os = "linux")]
mod landlock;
#[cfg(target_os = "linux")]
mod limits;
mod lost;
mod nasty;
mod output;
mod pause;
mod quota;
mod reap;
mod redaction;
#[cfg(target_os = "linux")]
mod sandbox;
mod soak;
mod stdin;
mod stream;
