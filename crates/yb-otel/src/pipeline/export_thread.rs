//! The export thread: it collects a batch, exports it, and stops at its deadline even if the receiver hangs.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use opentelemetry_sdk::Resource;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::config::{PipelineError, PipelineSettings};
use super::destinations::Destinations;
use super::encode::Encoder;
use super::queue::{Queue, TelemetryItem};

/// A handle to the export thread.
pub(super) struct ExportThread {
    /// The deadline of the shutdown, or `None` before it.
    shutdown: watch::Sender<Option<Instant>>,
    stopped: Mutex<Option<oneshot::Receiver<()>>>,
}

struct ExportLoop {
    receiver: mpsc::Receiver<TelemetryItem>,
    shutdown: watch::Receiver<Option<Instant>>,
    destinations: Destinations,
    encoder: Encoder,
    queue: Arc<Queue>,
    batch: usize,
    delay: Duration,
}

impl ExportThread {
    pub(super) fn start(
        receiver: mpsc::Receiver<TelemetryItem>,
        destinations: Destinations,
        settings: &PipelineSettings,
        resource: &Resource,
        queue: Arc<Queue>,
    ) -> Result<Self, PipelineError> {
        let (shutdown, shutdown_receiver) = watch::channel(None);
        let (done, stopped) = oneshot::channel();
        let export_loop = ExportLoop {
            receiver,
            shutdown: shutdown_receiver,
            destinations,
            encoder: Encoder::new(resource, settings.redact.clone()),
            queue,
            batch: settings.batch.max(1),
            delay: settings.delay,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| PipelineError::Thread(error.to_string()))?;
        std::thread::Builder::new()
            .name("otel-export".to_owned())
            .spawn(move || {
                runtime.block_on(export_loop.run());
                // Don't wait for blocking tasks, such as a name lookup.
                runtime.shutdown_background();
                drop(done);
            })
            .map_err(|error| PipelineError::Thread(error.to_string()))?;
        Ok(Self { shutdown, stopped: Mutex::new(Some(stopped)) })
    }

    /// Exports the queue and stops the thread, within this time.
    pub(super) async fn stop(&self, deadline: Duration) {
        self.shutdown.send_replace(Some(Instant::now() + deadline));
        let stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(stopped) = stopped {
            // The thread stops at the deadline by itself. The extra second is for a slow machine.
            let _ = tokio::time::timeout(deadline + Duration::from_secs(1), stopped).await;
        }
    }
}

impl fmt::Debug for ExportThread {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ExportThread").finish_non_exhaustive()
    }
}

impl ExportLoop {
    async fn run(mut self) {
        let mut pending = Vec::with_capacity(self.batch);
        let mut shutdown = self.shutdown.clone();
        loop {
            let ended = self.collect_batch(&mut pending).await;
            if ended {
                let deadline = *shutdown.borrow();
                return self.shutdown(pending, deadline).await;
            }
            let (count, size) = (pending.len() as u64, pending.iter().map(TelemetryItem::size).sum());
            let exporting =
                export(&mut self.destinations, &mut self.encoder, &self.queue, std::mem::take(&mut pending));
            tokio::pin!(exporting);
            // A shutdown must not wait for a hanging receiver.
            let timed_out = tokio::select! {
                () = &mut exporting => false,
                deadline = shutdown.wait_for(Option::is_some) => {
                    let deadline = deadline.ok().and_then(|deadline| *deadline).unwrap_or_else(Instant::now);
                    tokio::time::timeout_at(deadline, &mut exporting).await.is_err()
                }
            };
            if timed_out {
                self.queue.count_dropped(count, deadline_missed);
            }
            self.queue.release(size);
        }
    }

    /// Fills a batch, for at most the delay after its first item. Returns whether to shut down.
    async fn collect_batch(&mut self, pending: &mut Vec<TelemetryItem>) -> bool {
        let mut until = None;
        while pending.len() < self.batch {
            let wait = async {
                match until {
                    Some(until) => tokio::time::sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                _ = self.shutdown.wait_for(Option::is_some) => return true,
                item = self.receiver.recv() => match item {
                    Some(item) => {
                        pending.push(item);
                        until.get_or_insert_with(|| Instant::now() + self.delay);
                    }
                    None => return true,
                },
                () = wait => return false,
            }
        }
        false
    }

    /// Exports everything in the queue, until the deadline.
    async fn shutdown(mut self, mut pending: Vec<TelemetryItem>, deadline: Option<Instant>) {
        let deadline = deadline.unwrap_or_else(|| Instant::now() + self.delay);
        self.receiver.close();
        while let Ok(item) = self.receiver.try_recv() {
            pending.push(item);
        }
        while !pending.is_empty() {
            let rest = pending.split_off(pending.len().min(self.batch));
            let count = pending.len() as u64;
            let exporting = export(&mut self.destinations, &mut self.encoder, &self.queue, pending);
            pending = rest;
            if tokio::time::timeout_at(deadline, exporting).await.is_err() {
                self.queue.count_dropped(count + pending.len() as u64, deadline_missed);
                return;
            }
        }
    }
}

fn deadline_missed() -> String {
    "not exported before the deadline".to_owned()
}

async fn export(
    destinations: &mut Destinations,
    encoder: &mut Encoder,
    queue: &Queue,
    items: Vec<TelemetryItem>,
) {
    for (count, request) in encoder.requests(items) {
        if let Err(reason) = destinations.send(&request).await {
            queue.count_dropped(count, || reason);
        }
    }
}
