//! Arguments of the commands that can be traced.

use std::path::PathBuf;

/// Of every command that runs agents.
#[derive(Debug, Default, Clone, clap::Args)]
#[command(next_help_heading = "Traces")]
pub(crate) struct OtelArgs {
    /// Send a trace over OTLP [default: what `OTEL_EXPORTER_OTLP_ENDPOINT` or the settings say, or
    /// `http://127.0.0.1:4318`]
    ///
    /// The standard variables hold, such as `OTEL_EXPORTER_OTLP_HEADERS` and `OTEL_RESOURCE_ATTRIBUTES`; an endpoint among them
    /// turns traces on without this. Whoever receives them, or does not, changes nothing about the results.
    #[arg(long, value_name = "URL", num_args = 0..=1, require_equals = true)]
    pub(crate) otel: Option<Option<String>>,

    /// Add the trace to this file, as lines of OTLP JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) otel_file: Option<PathBuf>,

    /// Put prompts, answers and tool calls into the trace; secrets are taken out
    #[arg(long)]
    pub(crate) otel_content: bool,
}
