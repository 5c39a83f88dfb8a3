//! Turn an agent's hooks and frames into OpenTelemetry GenAI spans.

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
