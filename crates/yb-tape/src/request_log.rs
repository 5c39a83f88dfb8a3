//! Bounded log of received requests: drops the oldest first and counts them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::broadcast;

use crate::logged_request::{LoggedRequest, ResponseKind};

/// Capacity of a watcher; a slower one misses requests.
const WATCH_CAPACITY: usize = 256;

pub(crate) struct RequestLog {
    entries: Mutex<LogEntries>,
    watchers: broadcast::Sender<Arc<LoggedRequest>>,
    max_requests: usize,
    max_bytes: usize,
}

#[derive(Default)]
struct LogEntries {
    requests: VecDeque<(Arc<LoggedRequest>, usize)>,
    bytes: usize,
    dropped: u64,
    next_number: u64,
}

impl RequestLog {
    pub(crate) fn new(max_requests: usize, max_bytes: usize) -> Self {
        let watchers = broadcast::Sender::new(WATCH_CAPACITY);
        Self { entries: Mutex::default(), watchers, max_requests, max_bytes }
    }

    fn lock(&self) -> MutexGuard<'_, LogEntries> {
        // A panic can't leave the counters inconsistent.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of the next request.
    pub(crate) fn next_number(&self) -> u64 {
        let mut entries = self.lock();
        entries.next_number += 1;
        entries.next_number
    }

    /// Adds a request with a body of `bytes`.
    pub(crate) fn add(&self, request: LoggedRequest, bytes: usize) {
        let request = Arc::new(request);
        {
            let mut entries = self.lock();
            entries.bytes = entries.bytes.saturating_add(bytes);
            entries.requests.push_back((Arc::clone(&request), bytes));
            while entries.requests.len() > self.max_requests || entries.bytes > self.max_bytes {
                let Some((_, freed)) = entries.requests.pop_front() else { break };
                entries.bytes = entries.bytes.saturating_sub(freed);
                entries.dropped += 1;
            }
        }
        // An error only means that there are no watchers.
        let _ = self.watchers.send(request);
    }

    pub(crate) fn requests(&self) -> Vec<Arc<LoggedRequest>> {
        self.lock().requests.iter().map(|(request, _)| Arc::clone(request)).collect()
    }

    pub(crate) fn unscripted(&self) -> Vec<Arc<LoggedRequest>> {
        let mut requests = self.requests();
        requests.retain(|request| matches!(request.response, ResponseKind::Unscripted(_)));
        requests
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.lock().dropped
    }

    pub(crate) fn watch(&self) -> RequestWatcher {
        RequestWatcher { receiver: self.watchers.subscribe() }
    }
}

/// Receives requests as they arrive; created by [`MockServer::watch`](crate::MockServer::watch).
#[derive(Debug)]
pub struct RequestWatcher {
    receiver: broadcast::Receiver<Arc<LoggedRequest>>,
}

/// An event of a [`RequestWatcher`].
#[derive(Debug, Clone, PartialEq)]
pub enum WatchEvent {
    /// A request was received.
    Request(Arc<LoggedRequest>),
    /// The watcher was too slow and missed this many requests.
    Missed(u64),
}

impl RequestWatcher {
    /// Returns the next event, or `None` after the server has stopped.
    pub async fn next(&mut self) -> Option<WatchEvent> {
        match self.receiver.recv().await {
            Ok(request) => Some(WatchEvent::Request(request)),
            Err(broadcast::error::RecvError::Lagged(missed)) => Some(WatchEvent::Missed(missed)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}
