//! Tests of the command line: complete commands and outputs.
#![expect(clippy::disallowed_methods, reason = "the program under test is started as a shell would start it")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failing helper fails its test")]

mod add_ons;
mod answers;
mod ask;
mod baseline;
#[cfg(unix)]
mod browse;
mod budget;
mod bundle;
#[cfg(target_os = "linux")]
mod cheats;
mod check;
mod ci_docs;
mod cli;
mod compare;
mod config;
mod custom_evaluator;
mod demo;
mod disk;
#[cfg(target_os = "linux")]
mod docs_console;
mod docs_links;
mod docs_requirements;
#[cfg(target_os = "linux")]
mod escapes;
mod eval;
mod evaluators;
mod events;
mod export;
mod factors;
mod five_agents;
mod gates;
mod images;
mod index;
mod init;
mod inspect;
mod judge;
mod live;
#[cfg(unix)]
mod local_sources;
#[cfg(target_os = "linux")]
mod observer;
#[cfg(unix)]
mod older_files;
#[cfg(target_os = "linux")]
mod overlay;
#[cfg(target_os = "linux")]
mod packaging;
#[cfg(target_os = "linux")]
mod phoenix;
mod plugin_eval;
mod preflight;
mod prompt;
mod real_claude;
#[cfg(target_os = "linux")]
mod records;
mod redaction;
mod replay;
mod report;
#[cfg(target_os = "linux")]
mod report_browser;
mod resume;
mod run;
mod sdk_requests;
mod setup;
mod show;
mod signals;
mod simulated_runner;
mod small_suite;
mod suggest;
mod suite_run;
mod suites;
mod tape;
mod tape_serve;
#[cfg(target_os = "linux")]
mod terminal;
mod tools;
mod toy_agent;
mod tracing;
#[cfg(target_os = "linux")]
mod tracing_phoenix;
mod validate;
mod view;
mod view_real;
#[cfg(unix)]
mod watch;
#[cfg(unix)]
mod why;

/// The program under test.
const YB: &str = env!("CARGO_BIN_EXE_yb");
