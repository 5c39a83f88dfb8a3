//! Tests of the public API: scripts as text, responses over a real socket.

#![expect(clippy::unwrap_used, reason = "a failing helper fails its test")]

mod client;
mod faults;
mod hostile_scripts;
mod lanes;
mod lifecycle;
mod messages;
mod mutations;
mod protocols;
mod readme;
mod real_claude;
mod recording;
mod replaying;
mod requests;
mod script_errors;
mod seals;
mod side_requests;
mod unscripted;
