//! The integration tests of the crate, in one binary.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failing helper fails its test"
)]

mod availability;
mod availability_real;
mod conformance;
mod example;
mod frames;
mod frames_framer;
mod frames_messages;
mod frames_rules;
mod options;
mod options_legacy;
mod options_properties;
mod options_real;
mod options_rules;
mod provider;
mod provider_real;
mod sdk_hooks;
mod sdk_parity;
mod sdk_process;
mod sdk_real;
mod sdk_real_client;
mod sdk_recorded;
mod sdk_scripted;
mod sdk_sessions;
mod sdk_support;
mod sdk_tracing;
