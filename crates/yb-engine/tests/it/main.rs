//! One binary for all integration tests of the crate.
#![expect(clippy::unwrap_used, clippy::panic, reason = "what a helper can't do fails its test")]
#[cfg(unix)]
mod adapter_acp;
#[cfg(unix)]
mod adapter_cli_real;
mod adapter_command;
mod adapter_contract;
mod adapter_faults;
mod adapter_real;
mod adapter_soak;
mod adapter_stories;
mod adapter_support;
#[cfg(unix)]
mod adapter_told;
mod case;
mod case_config;
mod case_hostile;
mod case_rules;
mod case_surface;
mod compare;
#[cfg(unix)]
mod conformance;
mod log_contract;
mod log_schema;
mod meter;
mod repo;
mod repo_capture;
mod repo_cut;
mod repo_diff;
mod repo_session;
mod repo_source;
mod stats_reference;
mod stats_simulation;
mod suite;
mod suite_digest;
mod suite_errors;
mod suite_guard;
mod suite_hostile;
mod suite_merge;
mod trial;
mod trial_trace;
