//! The collaborators themselves, for real.

#![expect(clippy::disallowed_methods, reason = "the collaborators are tested without the supervisor")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]
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
