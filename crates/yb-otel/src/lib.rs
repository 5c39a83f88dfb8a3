//! Turn an agent's hooks and frames into OpenTelemetry GenAI spans.
//!
//! [`AgentSpans`] makes them from the messages that the CLI prints, [`create_otel_hooks`] from the hooks of an SDK session;
//! both fill one tree, in which a call of a tool is one span whoever tells of it first. A [`Pipeline`] delivers what
//! comes of it, and never holds anybody up.
//!
//! ```
//! use std::time::SystemTime;
//!
//! use opentelemetry::Context;
//! use yb_claude::Message;
//! use yb_otel::{AgentSpans, AgentSpansConfig, End, Pipeline, traceparent};
//!
//! # fn lines() -> Vec<&'static [u8]> { vec![br#"{"type":"result","subtype":"success"}"#] }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let pipeline = Pipeline::off();
//! let agent = AgentSpans::start(pipeline.tracers(), &Context::new(), AgentSpansConfig::new("claude-code"));
//! // The CLI hangs its own spans under ours when it is started with `TRACEPARENT` set to this.
//! let _parent = traceparent(&agent.context());
//! for line in lines() {
//!     agent.frame(&Message::parse(line)?, SystemTime::now());
//! }
//! agent.end(End::Ok);
//! # Ok(())
//! # }
//! ```

mod agent_spans;
mod content;
mod evaluation;
mod frames;
mod hooks;
mod metrics;
pub mod names;
mod pipeline;
mod propagate;
mod telemetry;
mod tracers;
mod tree;
mod watch;

pub use agent_spans::{AgentSpans, AgentSpansConfig, End};
pub use content::Redact;
pub use evaluation::{Evaluation, evaluation_result};
pub use hooks::{
    OtelHooksConfig, OtelHooksError, SessionResult, SessionUsage, TelemetryContext, abort_session,
    complete_session, create_otel_hooks, fail_session, merge_hooks,
};
pub use metrics::{Metrics, Operation};
pub use names::{TRACER_SCOPE_NAME, Vocabulary, agentmark_attributes, gen_ai_attributes, span_names};
pub use pipeline::{Dropped, Pipeline, PipelineConfig, PipelineError};
pub use propagate::{context_of, traceparent};
pub use telemetry::{TelemetryConfig, TelemetryEvent, TelemetryEvents, create_telemetry_hooks};
pub use tracers::Tracers;
pub use watch::Watched;

/// The README's example is compiled like any other.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
