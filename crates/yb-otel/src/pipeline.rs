//! From spans, metrics and events to a receiver or a file: one thread, one bounded queue, and no way to hold up a run.

mod config;
mod encode;
mod file;
#[cfg(feature = "grpc")]
mod grpc;
mod http;
mod queue;
mod send;
mod worker;

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::global::BoxedTracer;
use opentelemetry::logs::LoggerProvider as _;
use opentelemetry::metrics::{Meter, MeterProvider as _};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::logs::{SdkLogger, SdkLoggerProvider};
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider};
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider, SpanLimits};

pub use config::{PipelineConfig, PipelineError};
pub use queue::Dropped;

use crate::content::Redact;
use crate::metrics::Metrics;
use crate::names::{SCOPE, Vocabulary};
use crate::tracers::Tracers;
use config::Settings;
use queue::Queue;
use worker::Worker;

/// Where telemetry goes, with everything that makes some. A pipeline without a destination makes none and costs nothing.
///
/// Nothing that is told to it waits: what does not fit into the queue, or can't be delivered, is dropped and counted.
#[derive(Debug)]
pub struct Pipeline {
    tracers: Tracers,
    meters: SdkMeterProvider,
    loggers: SdkLoggerProvider,
    metrics: Option<Metrics>,
    vocabulary: Vocabulary,
    content: bool,
    redact: Redact,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    /// Kept: when the last provider of it is gone, its tracers go silent.
    _tracers: SdkTracerProvider,
    queue: Arc<Queue>,
    worker: Worker,
}

impl Pipeline {
    /// Makes it, and its thread. Nothing is connected yet.
    ///
    /// # Errors
    /// When a variable has a value that nobody understands, or the file can't be written.
    pub fn start(config: &PipelineConfig) -> Result<Self, PipelineError> {
        let settings = config.settings()?;
        if settings.is_off() {
            return Ok(Self::off());
        }
        let resource = resource(&settings);
        let destinations = send::Destinations::open(&settings)?;
        let (queue, intake) = queue::queue(settings.queue);
        let queue = Arc::new(queue);
        let worker = Worker::start(intake, destinations, &settings, &resource, Arc::clone(&queue))?;
        let tracers = SdkTracerProvider::builder()
            .with_sampler(Sampler::ParentBased(Box::new(Sampler::AlwaysOn)))
            .with_span_limits(SpanLimits::default())
            .with_span_processor(queue::Spans(Arc::clone(&queue)))
            .with_resource(resource.clone())
            .build();
        let reader = PeriodicReader::builder(queue::Measured(Arc::clone(&queue)))
            .with_interval(settings.metric_interval)
            .build();
        let meters = SdkMeterProvider::builder().with_reader(reader).with_resource(resource.clone()).build();
        let loggers = SdkLoggerProvider::builder()
            .with_log_processor(queue::Events(Arc::clone(&queue)))
            .with_resource(resource)
            .build();
        Ok(Self {
            tracers: Tracers::new(tracers.clone()),
            metrics: Some(Metrics::new(&meters.meter_with_scope(scope()))),
            meters,
            loggers,
            vocabulary: settings.vocabulary,
            content: settings.content,
            redact: settings.redact,
            running: Some(Running { _tracers: tracers, queue, worker }),
        })
    }

    /// One that goes nowhere.
    #[must_use]
    pub fn off() -> Self {
        Self {
            tracers: Tracers::none(),
            meters: SdkMeterProvider::builder().build(),
            loggers: SdkLoggerProvider::builder().build(),
            metrics: None,
            vocabulary: Vocabulary::default(),
            content: false,
            redact: Redact::default(),
            running: None,
        }
    }

    /// Whether it goes anywhere.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.running.is_some()
    }

    /// What makes tracers, for [`AgentSpans`](crate::AgentSpans) and for hooks.
    #[must_use]
    pub fn tracers(&self) -> &Tracers {
        &self.tracers
    }

    /// A tracer for spans of the host's own.
    #[must_use]
    pub fn tracer(&self) -> BoxedTracer {
        self.tracers.tracer(scope())
    }

    /// A meter for measurements of the host's own.
    #[must_use]
    pub fn meter(&self) -> Meter {
        self.meters.meter_with_scope(scope())
    }

    /// The instruments of the conventions; none when nothing is measured.
    #[must_use]
    pub fn metrics(&self) -> Option<Metrics> {
        self.metrics.clone()
    }

    /// A logger for events, see [`evaluation_result`](crate::evaluation_result).
    #[must_use]
    pub fn logger(&self) -> SdkLogger {
        self.loggers.logger_with_scope(scope())
    }

    /// The words that spans are to be written in.
    #[must_use]
    pub fn vocabulary(&self) -> Vocabulary {
        self.vocabulary
    }

    /// Whether what was said is to be written.
    #[must_use]
    pub fn content(&self) -> bool {
        self.content
    }

    /// What is taken out of everything that leaves.
    #[must_use]
    pub fn redact(&self) -> &Redact {
        &self.redact
    }

    /// What got lost so far, and the last reason.
    #[must_use]
    pub fn dropped(&self) -> Dropped {
        self.running.as_ref().map(|running| running.queue.dropped()).unwrap_or_default()
    }

    /// Delivers what there is, for at most this long; what is not delivered by then is dropped and counted. Spans that
    /// end later are dropped as well.
    pub async fn shutdown(&self, deadline: Duration) -> Dropped {
        let Some(running) = &self.running else { return Dropped::default() };
        // The reader only hands what it has to the queue, which takes it or does not.
        let _ = self.meters.shutdown();
        running.worker.stop(deadline).await;
        running.queue.dropped()
    }
}

fn scope() -> InstrumentationScope {
    InstrumentationScope::builder(SCOPE).with_version(env!("CARGO_PKG_VERSION")).build()
}

/// Who tells all this. Nothing is found out about the machine: its name and its users are nobody's business.
fn resource(settings: &Settings) -> Resource {
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
