//! Export of spans, metrics and events to an OTLP receiver or a file: a bounded queue and one thread.

mod compression;
mod config;
mod console;
mod destinations;
mod encode;
mod export_thread;
mod file;
mod grpc;
mod http;
mod queue;

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::global::BoxedTracer;
use opentelemetry::logs::LoggerProvider as _;
use opentelemetry::metrics::{Meter, MeterProvider as _};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::logs::{SdkLogger, SdkLoggerProvider};
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider};
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanLimits};

pub use config::{PipelineConfig, PipelineError};
pub use console::Console;
pub use queue::DroppedTelemetry;

use crate::content::Redactor;
use crate::metrics::Metrics;
use crate::names::{SCOPE, SemanticConventions};
use crate::tracers::Tracers;
use config::PipelineSettings;
use export_thread::ExportThread;
use queue::Queue;

/// A telemetry pipeline: providers of spans, metrics and events, and their export. A pipeline without a destination is
/// disabled and costs nothing.
///
/// Recording never blocks. Telemetry that does not fit into the queue, or can't be delivered, is dropped and counted.
#[derive(Debug)]
pub struct Pipeline {
    tracers: Tracers,
    meters: SdkMeterProvider,
    loggers: SdkLoggerProvider,
    metrics: Option<Metrics>,
    conventions: SemanticConventions,
    content: bool,
    redact: Redactor,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    /// Tracers stop recording when their last provider is dropped.
    _tracers: SdkTracerProvider,
    queue: Arc<Queue>,
    worker: ExportThread,
}

impl Pipeline {
    /// Starts the pipeline and its export thread. Connections are made by the first export.
    ///
    /// # Errors
    /// Fails if a variable has an unsupported value, or if the file can't be opened.
    pub fn start(config: &PipelineConfig) -> Result<Self, PipelineError> {
        let settings = config.settings()?;
        if settings.is_disabled() {
            return Ok(Self::disabled());
        }
        let resource = resource(&settings);
        let destinations = destinations::Destinations::open(&settings, config.console())?;
        let (queue, receiver) = queue::queue(settings.queue);
        let queue = Arc::new(queue);
        let worker = ExportThread::start(receiver, destinations, &settings, &resource, Arc::clone(&queue))?;
        let tracers = SdkTracerProvider::builder()
            .with_sampler(settings.sampler.clone())
            .with_span_limits(SpanLimits::default())
            .with_span_processor(queue::QueueSpanProcessor(Arc::clone(&queue)))
            .with_resource(resource.clone())
            .build();
        let reader = PeriodicReader::builder(queue::QueueMetricExporter(Arc::clone(&queue)))
            .with_interval(settings.metric_interval)
            .build();
        let meters = SdkMeterProvider::builder().with_reader(reader).with_resource(resource.clone()).build();
        let loggers = SdkLoggerProvider::builder()
            .with_log_processor(queue::QueueLogProcessor(Arc::clone(&queue)))
            .with_resource(resource)
            .build();
        Ok(Self {
            tracers: Tracers::new(tracers.clone()),
            metrics: Some(Metrics::new(&meters.meter_with_scope(scope()))),
            meters,
            loggers,
            conventions: settings.conventions,
            content: settings.content,
            redact: settings.redact,
            running: Some(Running { _tracers: tracers, queue, worker }),
        })
    }

    /// Returns a disabled pipeline.
    #[must_use]
    pub fn disabled() -> Self {
        Self {
            tracers: Tracers::none(),
            meters: SdkMeterProvider::builder().build(),
            loggers: SdkLoggerProvider::builder().build(),
            metrics: None,
            conventions: SemanticConventions::default(),
            content: false,
            redact: Redactor::default(),
            running: None,
        }
    }

    /// Returns whether the pipeline has a destination.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.running.is_some()
    }

    /// Returns the tracer provider, for [`AgentSpans`](crate::AgentSpans) and for hooks.
    #[must_use]
    pub fn tracers(&self) -> &Tracers {
        &self.tracers
    }

    /// Returns a tracer for the host's own spans.
    #[must_use]
    pub fn tracer(&self) -> BoxedTracer {
        self.tracers.tracer(scope())
    }

    /// Returns a meter for the host's own metrics.
    #[must_use]
    pub fn meter(&self) -> Meter {
        self.meters.meter_with_scope(scope())
    }

    /// Returns the metric instruments of the conventions, or `None` if the pipeline is disabled.
    #[must_use]
    pub fn metrics(&self) -> Option<Metrics> {
        self.metrics.clone()
    }

    /// Returns a logger for events, see [`emit_evaluation`](crate::emit_evaluation).
    #[must_use]
    pub fn logger(&self) -> SdkLogger {
        self.loggers.logger_with_scope(scope())
    }

    /// Returns the configured semantic conventions.
    #[must_use]
    pub fn conventions(&self) -> SemanticConventions {
        self.conventions
    }

    /// Returns whether content is recorded.
    #[must_use]
    pub fn content(&self) -> bool {
        self.content
    }

    /// Returns the redactor of everything that is exported.
    #[must_use]
    pub fn redact(&self) -> &Redactor {
        &self.redact
    }

    /// Returns the telemetry dropped so far.
    #[must_use]
    pub fn dropped(&self) -> DroppedTelemetry {
        self.running.as_ref().map(|running| running.queue.dropped()).unwrap_or_default()
    }

    /// Exports everything in the queue, within this time. Anything not exported by then, and spans that end later, are dropped
    /// and counted.
    pub async fn shutdown(&self, deadline: Duration) -> DroppedTelemetry {
        let Some(running) = &self.running else { return DroppedTelemetry::default() };
        // The reader only pushes to the queue, which does not block.
        let _ = self.meters.shutdown();
        running.worker.stop(deadline).await;
        running.queue.dropped()
    }
}

fn scope() -> InstrumentationScope {
    InstrumentationScope::builder(SCOPE).with_version(env!("CARGO_PKG_VERSION")).build()
}

/// Returns the resource. No detectors run, because host and user names are private.
fn resource(settings: &PipelineSettings) -> Resource {
    let attributes = settings.resource.iter().map(|(key, value)| KeyValue::new(key.clone(), value.clone()));
    Resource::builder_empty()
        .with_attribute(KeyValue::new("service.name", settings.service_name.clone()))
        .with_attributes([
            KeyValue::new("telemetry.sdk.name", "opentelemetry"),
            KeyValue::new("telemetry.sdk.language", "rust"),
        ])
        .with_attributes(attributes.collect::<Vec<_>>())
        .build()
}
