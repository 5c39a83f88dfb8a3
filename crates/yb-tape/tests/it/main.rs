//! The tape as its users meet it: scripts as text, answers over a real socket.

#![expect(clippy::unwrap_used, reason = "what a helper can't do fails its test")]

mod client;
mod faults;
mod hostile;
mod lanes;
mod lifecycle;
mod messages;
mod mutations;
mod readme;
mod real_claude;
mod recording;
mod replaying;
mod requests;
mod script_errors;
mod side;
mod unscripted;
mod wires;
