//! The thread that delivers: it gathers for a moment, sends, and leaves at the deadline whatever the receiver does.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use opentelemetry_sdk::Resource;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::config::{PipelineError, Settings};
use super::encode::Encoder;
use super::queue::{Item, Queue};
use super::send::Destinations;

/// A handle of the thread.
pub(super) struct Worker {
    /// By when everything has to be delivered; none as long as nobody wants to leave.
    leave: watch::Sender<Option<Instant>>,
    left: Mutex<Option<oneshot::Receiver<()>>>,
}

struct Deliverer {
    intake: mpsc::Receiver<Item>,
    leave: watch::Receiver<Option<Instant>>,
    destinations: Destinations,
    encoder: Encoder,
    queue: Arc<Queue>,
    batch: usize,
    delay: Duration,
}

impl Worker {
    pub(super) fn start(
        intake: mpsc::Receiver<Item>,
        destinations: Destinations,
        settings: &Settings,
        resource: &Resource,
        queue: Arc<Queue>,
    ) -> Result<Self, PipelineError> {
        let (leave, leaving) = watch::channel(None);
        let (done, left) = oneshot::channel();
        let deliverer = Deliverer {
            intake,
            leave: leaving,
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
                runtime.block_on(deliverer.run());
                // A name that is still being looked up must not hold anybody up.
                runtime.shutdown_background();
                drop(done);
            })
            .map_err(|error| PipelineError::Thread(error.to_string()))?;
        Ok(Self { leave, left: Mutex::new(Some(left)) })
    }

    /// Delivers what is there and ends the thread, within this time.
    pub(super) async fn stop(&self, deadline: Duration) {
        self.leave.send_replace(Some(Instant::now() + deadline));
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(left) = left {
            // It leaves by itself at the deadline; the rest is for a machine that is slow.
            let _ = tokio::time::timeout(deadline + Duration::from_secs(1), left).await;
        }
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Worker").finish_non_exhaustive()
    }
}

impl Deliverer {
    async fn run(mut self) {
        let mut pending = Vec::with_capacity(self.batch);
        let mut leave = self.leave.clone();
        loop {
            let ended = self.gather(&mut pending).await;
            if ended {
                let deadline = *leave.borrow();
                return self.leave(pending, deadline).await;
            }
            let (count, size) = (pending.len() as u64, pending.iter().map(Item::size).sum());
            let delivering =
                deliver(&mut self.destinations, &mut self.encoder, &self.queue, std::mem::take(&mut pending));
            tokio::pin!(delivering);
            // Whoever wants to leave does not wait for a receiver that hangs.
            let cut_short = tokio::select! {
                () = &mut delivering => false,
                deadline = leave.wait_for(Option::is_some) => {
                    let deadline = deadline.ok().and_then(|deadline| *deadline).unwrap_or_else(Instant::now);
                    tokio::time::timeout_at(deadline, &mut delivering).await.is_err()
                }
            };
            if cut_short {
                self.queue.lost(count, late);
            }
            self.queue.freed(size);
        }
    }

    /// Fills a batch, for at most the delay once something is there. Says whether it is time to leave.
    async fn gather(&mut self, pending: &mut Vec<Item>) -> bool {
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
                _ = self.leave.wait_for(Option::is_some) => return true,
                item = self.intake.recv() => match item {
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

    /// Everything that is there, then the end.
    async fn leave(mut self, mut pending: Vec<Item>, deadline: Option<Instant>) {
        let deadline = deadline.unwrap_or_else(|| Instant::now() + self.delay);
        self.intake.close();
        while let Ok(item) = self.intake.try_recv() {
            pending.push(item);
        }
        while !pending.is_empty() {
            let rest = pending.split_off(pending.len().min(self.batch));
            let count = pending.len() as u64;
            let delivering = deliver(&mut self.destinations, &mut self.encoder, &self.queue, pending);
            pending = rest;
            if tokio::time::timeout_at(deadline, delivering).await.is_err() {
                self.queue.lost(count + pending.len() as u64, late);
                return;
            }
        }
    }
}

fn late() -> String {
    "it was not delivered in time".to_owned()
}

async fn deliver(destinations: &mut Destinations, encoder: &mut Encoder, queue: &Queue, items: Vec<Item>) {
    for (count, request) in encoder.requests(items) {
        if let Err(reason) = destinations.send(&request).await {
            queue.lost(count, || reason);
        }
    }
}
