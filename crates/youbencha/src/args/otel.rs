//! Tracing arguments of the commands that run agents.

use std::path::PathBuf;

// Tracing arguments. No doc comment: it would replace the description of the command.
#[derive(Debug, Default, Clone, clap::Args)]
#[command(next_help_heading = "Traces")]
pub(crate) struct OtelArgs {
    /// Export traces with OTLP [default: `OTEL_EXPORTER_OTLP_ENDPOINT`, `otel.endpoint` or `http://127.0.0.1:4318`]
    ///
    /// Standard variables such as `OTEL_EXPORTER_OTLP_HEADERS` and `OTEL_RESOURCE_ATTRIBUTES` apply; an endpoint variable enables traces
    /// without this option. Tracing never changes results.
    #[arg(long, value_name = "URL", num_args = 0..=1, require_equals = true)]
    pub(crate) otel: Option<Option<String>>,

    /// Append traces to this file as lines of OTLP JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) otel_file: Option<PathBuf>,

    /// Include prompts, answers and tool calls in traces; secrets are redacted
    #[arg(long)]
    pub(crate) otel_content: bool,
}
