//! The requests that were seen, bounded: the oldest go first, and their number is kept.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::broadcast;

use crate::seen::{Answer, Seen};

/// How many requests a slow watcher may fall behind before it misses some.
const WATCH_CAPACITY: usize = 256;

pub(crate) struct Log {
    kept: Mutex<Kept>,
    watchers: broadcast::Sender<Arc<Seen>>,
    max_requests: usize,
    max_bytes: usize,
}

#[derive(Default)]
struct Kept {
    requests: VecDeque<(Arc<Seen>, usize)>,
    bytes: usize,
    dropped: u64,
    next_number: u64,
}

impl Log {
    pub(crate) fn new(max_requests: usize, max_bytes: usize) -> Self {
        let watchers = broadcast::Sender::new(WATCH_CAPACITY);
        Self { kept: Mutex::default(), watchers, max_requests, max_bytes }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        // The numbers stay true whatever panicked in between.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the next request.
    pub(crate) fn number(&self) -> u64 {
        let mut kept = self.lock();
        kept.next_number += 1;
        kept.next_number
    }

    /// Keeps a request whose body had so many bytes.
    pub(crate) fn add(&self, seen: Seen, bytes: usize) {
        let seen = Arc::new(seen);
        {
            let mut kept = self.lock();
            kept.bytes = kept.bytes.saturating_add(bytes);
            kept.requests.push_back((Arc::clone(&seen), bytes));
            while kept.requests.len() > self.max_requests || kept.bytes > self.max_bytes {
                let Some((_, freed)) = kept.requests.pop_front() else { break };
                kept.bytes = kept.bytes.saturating_sub(freed);
                kept.dropped += 1;
            }
        }
        // An error only says that nobody watches.
        let _ = self.watchers.send(seen);
    }

    pub(crate) fn requests(&self) -> Vec<Arc<Seen>> {
        self.lock().requests.iter().map(|(seen, _)| Arc::clone(seen)).collect()
    }

    pub(crate) fn unscripted(&self) -> Vec<Arc<Seen>> {
        let mut requests = self.requests();
        requests.retain(|seen| matches!(seen.answer, Answer::Unscripted(_)));
        requests
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.lock().dropped
    }

    pub(crate) fn watch(&self) -> Watch {
        Watch { receiver: self.watchers.subscribe() }
    }
}

/// Requests as they come in; made by [`Server::watch`](crate::Server::watch).
#[derive(Debug)]
pub struct Watch {
    receiver: broadcast::Receiver<Arc<Seen>>,
}

/// What a watcher gets.
#[derive(Debug, Clone, PartialEq)]
pub enum Watched {
    /// The next request.
    Request(Arc<Seen>),
    /// The watcher was too slow and missed so many.
    Missed(u64),
}

impl Watch {
    /// The next request, or nothing once the server is gone.
    pub async fn next(&mut self) -> Option<Watched> {
        match self.receiver.recv().await {
            Ok(seen) => Some(Watched::Request(seen)),
            Err(broadcast::error::RecvError::Lagged(missed)) => Some(Watched::Missed(missed)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}
