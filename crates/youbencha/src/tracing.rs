//! OpenTelemetry traces of commands. Tracing never changes results.

mod config;
mod names;
mod run;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry::Context;
use yb_engine::adapter::{Adapter as _, Adapters, ClaudeCode, call_cost, subagent_calls};
use yb_engine::config::Settings;
use yb_engine::run::Plan;
use yb_otel::{AgentSpans, AgentSpansConfig, Pipeline, PipelineError, Redactor};

use crate::agents;
use crate::args::OtelArgs;
use crate::error::{CliError, ErrorKind};
use crate::exit_code::ExitCode;
use crate::printer::Printer;
use crate::signals::Signals;

pub(crate) use run::{GradingTrace, RunTrace};

/// The default time limit of the final export: a hanging receiver must not block the program.
const DEADLINE: Duration = Duration::from_secs(10);
const TIMEOUT: &str = "OTEL_EXPORTER_OTLP_TIMEOUT";
/// The time limit of the final export after an interrupt.
const INTERRUPT_DEADLINE: Duration = Duration::from_millis(300);

/// The tracing of one command; a no-op if it is off.
#[derive(Debug, Clone)]
pub(crate) struct Tracing {
    pipeline: Arc<Pipeline>,
    /// The parent span from the environment, if any.
    parent: Context,
    deadline: Duration,
}

impl Tracing {
    /// Returns tracing that is off.
    pub(crate) fn off() -> Self {
        Self { pipeline: Arc::new(Pipeline::disabled()), parent: Context::new(), deadline: DEADLINE }
    }

    /// Starts tracing as configured by arguments, standard variables and settings.
    pub(crate) fn start(
        args: &OtelArgs,
        settings: &Settings,
        env: &BTreeMap<String, String>,
        printer: &mut Printer,
    ) -> Result<Self, CliError> {
        let config = config::pipeline_config(args, settings, env);
        let pipeline = match Pipeline::start(&config) {
            Ok(pipeline) => pipeline,
            Err(error) if config::is_requested(args, settings) => return Err(config_error(&error)),
            // Variables for other programs must not stop a command that was not asked for a trace.
            Err(error) => {
                let error = config_error(&error);
                printer.note(format_args!("warning: tracing is off: {}", error.message()));
                return Ok(Self::off());
            }
        };
        let parent = env.get(names::TRACEPARENT).and_then(|line| yb_otel::parse_traceparent(line));
        let timeout = env.get(TIMEOUT).and_then(|text| text.parse().ok()).map(Duration::from_millis);
        Ok(Self {
            pipeline: Arc::new(pipeline),
            parent: parent.unwrap_or_default(),
            deadline: timeout.unwrap_or(DEADLINE),
        })
    }

    /// Starts tracing for a command that does not load settings itself.
    pub(crate) fn start_here(args: &OtelArgs, printer: &mut Printer) -> Result<Self, CliError> {
        let project = std::env::current_dir().map_err(CliError::failed_to("find the working directory"))?;
        // Diagnostics of the settings are reported by commands that use them.
        let (settings, _) = Settings::load(std::env::home_dir().as_deref(), &project);
        Self::start(args, &settings, &agents::environment(), printer)
    }

    /// Returns whether tracing is on.
    pub(crate) fn is_on(&self) -> bool {
        self.pipeline.is_enabled()
    }

    /// Starts the trace of a run; `None` if tracing is off.
    pub(crate) fn run(&self, plan: &Plan) -> Option<RunTrace> {
        self.is_on().then(|| RunTrace::start(&self.pipeline, &self.parent, plan))
    }

    /// Starts the trace of a grading; `None` if tracing is off.
    pub(crate) fn grading(&self, name: &str) -> Option<GradingTrace> {
        self.is_on().then(|| GradingTrace::start(&self.pipeline, &self.parent, name))
    }

    /// Starts the spans of a command with a single agent; `None` if tracing is off. The caller passes on every message and the end
    /// of the agent, and sets its `TRACEPARENT` from the context.
    pub(crate) fn agent(&self, config: AgentSpansConfig) -> Option<AgentSpans> {
        let config = with_pipeline_settings(config, &self.pipeline, self.pipeline.redact().clone());
        self.is_on().then(|| AgentSpans::start(self.pipeline.tracers(), &self.parent, config))
    }

    /// Exports remaining spans before the program exits, and reports losses.
    pub(crate) async fn finish(self, code: Option<ExitCode>, signals: &mut Signals, printer: &mut Printer) {
        if !self.is_on() {
            return;
        }
        let interrupted = code == Some(ExitCode::Interrupted);
        let deadline = if interrupted { INTERRUPT_DEADLINE.min(self.deadline) } else { self.deadline };
        let lost = tokio::select! {
            lost = self.pipeline.shutdown(deadline) => lost,
            () = signals.stop() => self.pipeline.shutdown(INTERRUPT_DEADLINE).await,
        };
        if lost.count > 0 {
            printer.note(format_args!("warning: trace is incomplete: {lost}"));
        }
    }
}

/// Records the model calls of subagents from the transcripts of the user's Claude Code.
pub(crate) async fn record_subagents(spans: &AgentSpans) {
    let Some(session) = spans.session_id() else { return };
    let named = std::env::var_os(yb_claude::env_vars::CLAUDE_CONFIG_DIR).map(PathBuf::from);
    let Some(config_dir) = named.or_else(|| Some(std::env::home_dir()?.join(".claude"))) else { return };
    let read = tokio::task::spawn_blocking(move || subagent_calls(&config_dir, &session));
    for call in read.await.unwrap_or_default() {
        spans.record_subagent_call(&call.agent, &call.response, call.at);
    }
}

/// Returns the value of `gen_ai.provider.name` for an agent; empty if its provider is unknown.
fn provider_of(agent: &str) -> &'static str {
    match Adapters::builtin().get(agent).map(|adapter| adapter.spec().provider) {
        None | Some("unknown") => "",
        // The conventions have names for Google's two APIs; the CLI's default is this one.
        Some("google") => "gcp.gemini",
        Some(provider) => provider,
    }
}

/// Applies the settings of the pipeline.
fn with_pipeline_settings(
    mut config: AgentSpansConfig,
    pipeline: &Pipeline,
    redact: Redactor,
) -> AgentSpansConfig {
    config.conventions = pipeline.conventions();
    config.content = pipeline.content();
    config.redact = redact;
    config.provider = Some(provider_of(&config.agent_name).to_owned());
    config.price = Some(call_cost);
    // Metrics need the model calls, which only Claude Code reports.
    config.metrics = pipeline.metrics().filter(|_| config.agent_name == ClaudeCode.spec().name);
    config
}

fn config_error(error: &PipelineError) -> CliError {
    let text = error.to_string();
    let (message, hint) = text.split_once("\nhint: ").unwrap_or((&text, ""));
    let edge = CliError::new(ErrorKind::Usage, message);
    if hint.is_empty() { edge } else { edge.hint(hint) }
}
