//! Traces of what a command does: whether anybody wants one, where it goes, and that it changes nothing else.

mod names;
mod run;
mod wanted;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry::Context;
use yb_engine::adapter::{Adapter as _, ClaudeCode};
use yb_engine::config::Settings;
use yb_engine::run::Plan;
use yb_otel::{AgentSpans, AgentSpansConfig, Pipeline, PipelineError, Redact};

use crate::agents;
use crate::args::OtelArgs;
use crate::error::{CliError, ErrorKind};
use crate::exit_code::ExitCode;
use crate::printer::Printer;
use crate::signals::Signals;

pub(crate) use run::RunTrace;

/// How long the last of a trace may take on its way, unless the variable says. Whoever receives it may hang; we don't.
const DEADLINE: Duration = Duration::from_secs(10);
const TIMEOUT: &str = "OTEL_EXPORTER_OTLP_TIMEOUT";
/// The same for somebody who wants us to end.
const IN_A_HURRY: Duration = Duration::from_millis(300);

/// The traces of one command. Without anybody who wants one, nothing is done.
#[derive(Debug, Clone)]
pub(crate) struct Tracing {
    pipeline: Arc<Pipeline>,
    /// What the trace is a part of, if whoever started us has one.
    parent: Context,
    deadline: Duration,
}

impl Tracing {
    /// Of a command that nobody wants to follow.
    pub(crate) fn off() -> Self {
        Self { pipeline: Arc::new(Pipeline::off()), parent: Context::new(), deadline: DEADLINE }
    }

    /// As the command line, the standard variables and the settings say.
    pub(crate) fn start(
        args: &OtelArgs,
        settings: &Settings,
        env: &BTreeMap<String, String>,
    ) -> Result<Self, CliError> {
        let config = wanted::config(args, settings, env);
        let pipeline = Pipeline::start(&config).map_err(|error| refused(&error))?;
        let parent = env.get(names::TRACEPARENT).and_then(|line| yb_otel::context_of(line));
        let timeout = env.get(TIMEOUT).and_then(|text| text.parse().ok()).map(Duration::from_millis);
        Ok(Self {
            pipeline: Arc::new(pipeline),
            parent: parent.unwrap_or_default(),
            deadline: timeout.unwrap_or(DEADLINE),
        })
    }

    /// Of a command that reads no settings of its own.
    pub(crate) fn start_here(args: &OtelArgs) -> Result<Self, CliError> {
        let project = std::env::current_dir().map_err(CliError::failed_to("find the working directory"))?;
        // What is wrong with the settings is for those who need them.
        let (settings, _) = Settings::load(std::env::home_dir().as_deref(), &project);
        Self::start(args, &settings, &agents::environment())
    }

    /// Whether anybody wants a trace.
    pub(crate) fn is_on(&self) -> bool {
        self.pipeline.is_on()
    }

    /// A run; nothing if nobody wants a trace.
    pub(crate) fn run(&self, plan: &Plan) -> Option<RunTrace> {
        self.is_on().then(|| RunTrace::start(&self.pipeline, &self.parent, plan))
    }

    /// The agent of a command that runs only one; nothing if nobody wants a trace. Every message of it is told to what this
    /// gives, with the time at which it came, and how it ended; its `TRACEPARENT` is that of the context.
    pub(crate) fn agent(&self, config: AgentSpansConfig) -> Option<AgentSpans> {
        let config = dressed(config, &self.pipeline, self.pipeline.redact().clone());
        self.is_on().then(|| AgentSpans::start(self.pipeline.tracers(), &self.parent, config))
    }

    /// Sends what is left before the program ends with this code, and says what did not arrive.
    pub(crate) async fn finish(self, code: Option<ExitCode>, signals: &mut Signals, printer: &mut Printer) {
        if !self.is_on() {
            return;
        }
        let hurry = code == Some(ExitCode::Interrupted);
        let deadline = if hurry { IN_A_HURRY.min(self.deadline) } else { self.deadline };
        let lost = tokio::select! {
            lost = self.pipeline.shutdown(deadline) => lost,
            () = signals.stop() => self.pipeline.shutdown(IN_A_HURRY).await,
        };
        if lost.count > 0 {
            printer.note(format_args!("warning: not all of the trace arrived: {lost}"));
        }
    }
}

/// The same as the pipeline wants it.
fn dressed(mut config: AgentSpansConfig, pipeline: &Pipeline, redact: Redact) -> AgentSpansConfig {
    config.vocabulary = pipeline.vocabulary();
    config.content = pipeline.content();
    config.redact = redact;
    // Durations and tokens are told of models that we know of.
    config.metrics = pipeline.metrics().filter(|_| config.agent_name == ClaudeCode.spec().name);
    config
}

fn refused(error: &PipelineError) -> CliError {
    let text = error.to_string();
    let (message, hint) = text.split_once("\nhint: ").unwrap_or((&text, ""));
    let refused = CliError::new(ErrorKind::Usage, message);
    if hint.is_empty() { refused } else { refused.hint(hint) }
}
