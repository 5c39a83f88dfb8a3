//! Integration tests of the pipeline and of the spans of an agent.
#![expect(clippy::unwrap_used, reason = "a failing helper fails its test")]

mod agent_spans;
mod grpc;
mod hooks;
mod pipeline;
mod real;
mod support;
mod traces_only;
