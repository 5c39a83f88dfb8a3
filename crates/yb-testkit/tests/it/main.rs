//! Tests of the test support itself.

#![expect(clippy::disallowed_methods, reason = "test support is tested without the supervisor")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![cfg(unix)]

mod bins;
mod context;
mod fake_agent_files;
mod fake_agent_io;
mod fake_agent_processes;
mod fake_agent_script;
mod fake_agent_signals;
mod git;
mod layers;
mod leaks;
mod real_claude;
mod support;
