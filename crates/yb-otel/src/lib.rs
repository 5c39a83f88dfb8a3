//! OpenTelemetry GenAI spans for coding agents.
//!
//! [`AgentSpans`] creates spans from the messages that the CLI prints, [`create_otel_hooks`] from the hooks of an SDK
//! session. Both feed one span tree, so a tool call reported by both is one span. A [`Pipeline`] exports spans, metrics and
//! events as OTLP without blocking the caller.
//!
//! ```
//! use std::time::SystemTime;
//!
//! use opentelemetry::Context;
//! use yb_claude::Message;
//! use yb_otel::{AgentSpans, AgentSpansConfig, AgentOutcome, Pipeline, traceparent};
//!
//! # fn lines() -> Vec<&'static [u8]> { vec![br#"{"type":"result","subtype":"success"}"#] }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let pipeline = Pipeline::disabled();
//! let agent = AgentSpans::start(pipeline.tracers(), &Context::new(), AgentSpansConfig::new("claude-code"));
//! // Set as `TRACEPARENT`, this makes the CLI's own spans children of the agent's span.
//! let _parent = traceparent(&agent.context());
//! for line in lines() {
//!     agent.observe(&Message::parse(line)?, SystemTime::now());
//! }
//! agent.end(AgentOutcome::Ok);
//! # Ok(())
//! # }
//! ```

mod agent_spans;
mod content;
mod evaluation;
mod hooks;
mod messages;
mod metrics;
pub mod names;
mod pipeline;
mod propagate;
mod telemetry;
mod traced_messages;
mod tracers;
mod tree;

pub use agent_spans::{AgentOutcome, AgentSpans, AgentSpansConfig};
pub use content::Redactor;
pub use evaluation::{Evaluation, emit_evaluation};
pub use hooks::{
    OtelHooksConfig, OtelHooksError, SessionResult, SessionUsage, TelemetryContext, abort_session,
    complete_session, create_otel_hooks, fail_session, merge_hooks,
};
pub use metrics::{Metrics, Operation};
pub use names::{
    SemanticConventions, TRACER_SCOPE_NAME, agentmark_attributes, gen_ai_attributes, span_names,
};
pub use pipeline::{Console, DroppedTelemetry, Pipeline, PipelineConfig, PipelineError};
pub use propagate::{parse_traceparent, traceparent};
pub use telemetry::{TelemetryConfig, TelemetryEvent, TelemetryEvents, create_telemetry_hooks};
pub use traced_messages::TracedMessages;
pub use tracers::Tracers;
pub use tree::CallPrice;

/// Compiles the example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
