//! The way from whoever tells something to the thread that delivers it: bounded, and never waited for.

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

/// How much may wait: texts are long, and places alone would not bound it.
const MOST_BYTES: usize = 64 * 1024 * 1024;

/// Something to deliver.
#[derive(Debug)]
pub(super) enum Item {
    Span(Box<SpanData>),
    Event(Box<(SdkLogRecord, InstrumentationScope)>),
    Metrics(Box<ExportMetricsServiceRequest>),
}

impl Item {
    /// About how much memory it holds.
    pub(super) fn size(&self) -> usize {
        let attributes = match self {
            Self::Span(span) => &span.attributes,
            Self::Event(_) | Self::Metrics(_) => return 4096,
        };
        let text = |value: &Value| if let Value::String(text) = value { text.as_str().len() } else { 16 };
        512 + attributes.iter().map(|attribute| 64 + text(&attribute.value)).sum::<usize>()
    }
}

/// What got lost.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Dropped {
    /// How many spans, events and collections of metrics.
    pub count: u64,
    /// Why the last of them was.
    pub reason: Option<String>,
}

impl fmt::Display for Dropped {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} dropped", self.count)?;
        match &self.reason {
            Some(reason) => write!(formatter, ": {reason}"),
            None => Ok(()),
        }
    }
}

/// The side of the queue that takes.
#[derive(Debug)]
pub(super) struct Queue {
    items: mpsc::Sender<Item>,
    waiting: AtomicUsize,
    dropped: AtomicU64,
    reason: Mutex<Option<String>>,
}

/// A queue of this many places, and its other end.
pub(super) fn queue(places: usize) -> (Queue, mpsc::Receiver<Item>) {
    let (items, intake) = mpsc::channel(places.max(1));
    let queue =
        Queue { items, waiting: AtomicUsize::new(0), dropped: AtomicU64::new(0), reason: Mutex::new(None) };
    (queue, intake)
}

impl Queue {
    fn push(&self, item: Item) {
        let size = item.size();
        // Counted in before it is there, or it could be counted out first.
        let fits = self.waiting.fetch_add(size, Ordering::Relaxed) + size <= MOST_BYTES;
        let reason = match fits.then(|| self.items.try_send(item)) {
            Some(Ok(())) => return,
            Some(Err(mpsc::error::TrySendError::Closed(_))) => "it came after the end",
            Some(Err(mpsc::error::TrySendError::Full(_))) | None => "the queue was full",
        };
        self.waiting.fetch_sub(size, Ordering::Relaxed);
        self.lost(1, || reason.to_owned());
    }

    /// This much waits no more: it was delivered, or not.
    pub(super) fn freed(&self, size: usize) {
        self.waiting.fetch_sub(size, Ordering::Relaxed);
    }

    /// Counts what was not delivered.
    pub(super) fn lost(&self, count: u64, reason: impl FnOnce() -> String) {
        if count > 0 {
            self.dropped.fetch_add(count, Ordering::Relaxed);
            *self.reason.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason());
        }
    }

    pub(super) fn dropped(&self) -> Dropped {
        let reason = self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Dropped { count: self.dropped.load(Ordering::Relaxed), reason }
    }
}

/// Takes spans.
#[derive(Debug)]
pub(super) struct Spans(pub(super) Arc<Queue>);

impl SpanProcessor for Spans {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if span.span_context.is_sampled() {
            self.0.push(Item::Span(Box::new(span)));
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// Takes events.
#[derive(Debug)]
pub(super) struct Events(pub(super) Arc<Queue>);

impl LogProcessor for Events {
    fn emit(&self, record: &mut SdkLogRecord, scope: &InstrumentationScope) {
        self.0.push(Item::Event(Box::new((record.clone(), scope.clone()))));
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// Takes metrics.
#[derive(Debug)]
pub(super) struct Measured(pub(super) Arc<Queue>);

impl PushMetricExporter for Measured {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        if metrics.scope_metrics().next().is_some() {
            self.0.push(Item::Metrics(Box::new(metrics.into())));
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
