//! The bounded queue between the SDK and the export thread. Pushing never blocks.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use opentelemetry::{Context, InstrumentationScope, Value};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::logs::{LogProcessor, SdkLogRecord};
use opentelemetry_sdk::metrics::Temporality;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::trace::{Span, SpanData, SpanProcessor};
use tokio::sync::mpsc;

/// The maximum size of queued items. The number of items alone would not bound memory, because content can be large.
const MAX_QUEUE_BYTES: usize = 16 * 1024 * 1024;

/// An item to export.
#[derive(Debug)]
pub(super) enum TelemetryItem {
    Span(Box<SpanData>),
    Event(Box<(SdkLogRecord, InstrumentationScope)>),
    Metrics(Box<ExportMetricsServiceRequest>),
}

impl TelemetryItem {
    /// Returns the approximate size in memory.
    pub(super) fn size(&self) -> usize {
        let attributes = match self {
            Self::Span(span) => &span.attributes,
            Self::Event(_) | Self::Metrics(_) => return 4096,
        };
        let text = |value: &Value| if let Value::String(text) = value { text.as_str().len() } else { 16 };
        512 + attributes.iter().map(|attribute| 64 + text(&attribute.value)).sum::<usize>()
    }
}

/// Telemetry that was not exported.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct DroppedTelemetry {
    /// The number of spans, events and metric collections.
    pub count: u64,
    /// The reason for the last of them.
    pub reason: Option<String>,
}

impl fmt::Display for DroppedTelemetry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} dropped", self.count)?;
        match &self.reason {
            Some(reason) => write!(formatter, ": {reason}"),
            None => Ok(()),
        }
    }
}

/// The sending side of the queue.
#[derive(Debug)]
pub(super) struct Queue {
    items: mpsc::Sender<TelemetryItem>,
    queued_bytes: AtomicUsize,
    dropped: AtomicU64,
    reason: Mutex<Option<String>>,
}

/// Creates a queue of this capacity. Returns both sides.
pub(super) fn queue(capacity: usize) -> (Queue, mpsc::Receiver<TelemetryItem>) {
    let (items, receiver) = mpsc::channel(capacity.max(1));
    let queue = Queue {
        items,
        queued_bytes: AtomicUsize::new(0),
        dropped: AtomicU64::new(0),
        reason: Mutex::new(None),
    };
    (queue, receiver)
}

impl Queue {
    fn push(&self, item: TelemetryItem) {
        let size = item.size();
        // Added before the push, because the export thread may subtract it at once.
        let fits = self.queued_bytes.fetch_add(size, Ordering::Relaxed) + size <= MAX_QUEUE_BYTES;
        let reason = match fits.then(|| self.items.try_send(item)) {
            Some(Ok(())) => return,
            Some(Err(mpsc::error::TrySendError::Closed(_))) => "the pipeline is shut down",
            Some(Err(mpsc::error::TrySendError::Full(_))) | None => "the queue is full",
        };
        self.queued_bytes.fetch_sub(size, Ordering::Relaxed);
        self.count_dropped(1, || reason.to_owned());
    }

    /// Subtracts the size of items that stopped the queue.
    pub(super) fn release(&self, size: usize) {
        self.queued_bytes.fetch_sub(size, Ordering::Relaxed);
    }

    /// Counts dropped items.
    pub(super) fn count_dropped(&self, count: u64, reason: impl FnOnce() -> String) {
        if count > 0 {
            self.dropped.fetch_add(count, Ordering::Relaxed);
            *self.reason.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason());
        }
    }

    pub(super) fn dropped(&self) -> DroppedTelemetry {
        let reason = self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone();
        DroppedTelemetry { count: self.dropped.load(Ordering::Relaxed), reason }
    }
}

/// Pushes ended spans to the queue.
#[derive(Debug)]
pub(super) struct QueueSpanProcessor(pub(super) Arc<Queue>);

impl SpanProcessor for QueueSpanProcessor {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if span.span_context.is_sampled() {
            self.0.push(TelemetryItem::Span(Box::new(span)));
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// Pushes log records to the queue.
#[derive(Debug)]
pub(super) struct QueueLogProcessor(pub(super) Arc<Queue>);

impl LogProcessor for QueueLogProcessor {
    fn emit(&self, record: &mut SdkLogRecord, scope: &InstrumentationScope) {
        self.0.push(TelemetryItem::Event(Box::new((record.clone(), scope.clone()))));
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// Pushes collected metrics to the queue.
#[derive(Debug)]
pub(super) struct QueueMetricExporter(pub(super) Arc<Queue>);

impl PushMetricExporter for QueueMetricExporter {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        if metrics.scope_metrics().next().is_some() {
            self.0.push(TelemetryItem::Metrics(Box::new(metrics.into())));
        }
        Ok(())
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }

    fn temporality(&self) -> Temporality {
        Temporality::Cumulative
    }
}
