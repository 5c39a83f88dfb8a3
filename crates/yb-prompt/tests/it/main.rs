//! Integration tests of prompt files and queries.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failing helper fails its test"
)]

mod adapter;
mod header;
mod real_claude;
mod registries;
mod template;
mod validation;
