//! Mock server: serves a script as a model API on loopback.

mod handler;
pub(crate) mod placeholder;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::error::Error;
use crate::logged_request::LoggedRequest;
use crate::loopback::{self, LoopbackServer};
use crate::request_hold::HeldRequests;
use crate::request_log::{RequestLog, RequestWatcher};
use crate::request_texts::RequestTexts;
use crate::script::Script;
use crate::traffic::ObservedFailure;
use handler::ScriptHandler;

/// Options of a [`MockServer`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MockServerOptions {
    /// The loopback port; 0, the default, means any free port.
    pub port: u16,
    /// Maximum number of logged requests; 1,000 by default.
    pub max_requests: usize,
    /// Maximum total size of the logged request bodies in bytes; 64 MiB by default.
    pub max_bytes: usize,
}

impl Default for MockServerOptions {
    fn default() -> Self {
        Self { port: 0, max_requests: 1_000, max_bytes: 64 * 1024 * 1024 }
    }
}

impl MockServerOptions {
    /// Sets the loopback port; 0 means any free port.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// Sets the maximum number of logged requests.
    #[must_use]
    pub fn max_requests(mut self, max_requests: usize) -> Self {
        self.max_requests = max_requests;
        self
    }

    /// Sets the maximum total size of the logged request bodies in bytes.
    #[must_use]
    pub fn max_bytes(mut self, max_bytes: usize) -> Self {
        self.max_bytes = max_bytes;
        self
    }
}

/// A mock model API that serves a script.
///
/// It runs in its own thread, so it also responds while the caller blocks, and needs no async runtime. Dropping it (or [`MockServer::shutdown`]) closes every connection and frees the port before it
/// returns.
pub struct MockServer {
    server: LoopbackServer,
    log: Arc<RequestLog>,
}

impl MockServer {
    /// Starts listening on 127.0.0.1.
    ///
    /// # Errors
    /// When the port is in use or the server thread can't be started.
    pub fn start(script: Script, options: &MockServerOptions) -> Result<Self, Error> {
        let listener = loopback::bind(options.port)?;
        let log = Arc::new(RequestLog::new(options.max_requests, options.max_bytes));
        let handler = Arc::new(ScriptHandler::new(script, Arc::clone(&log)));
        Ok(Self { server: LoopbackServer::start(listener, handler)?, log })
    }

    /// Returns the address of the server.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Returns the base URL to configure in the agent.
    #[must_use]
    pub fn base_url(&self) -> String {
        self.server.base_url()
    }

    /// Returns the logged requests, oldest first.
    #[must_use]
    pub fn requests(&self) -> Vec<Arc<LoggedRequest>> {
        self.log.requests()
    }

    /// Returns the logged requests without a scripted reply.
    #[must_use]
    pub fn unscripted(&self) -> Vec<Arc<LoggedRequest>> {
        self.log.unscripted()
    }

    /// Returns the number of requests that were removed from the log because of its limits.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.log.dropped()
    }

    /// Returns the last failure that was served to a model request, unless a later request succeeded.
    #[must_use]
    pub fn api_failure(&self) -> Option<ObservedFailure> {
        self.server.traffic().failure()
    }

    /// Looks for texts in all model requests from now on.
    pub fn watch_texts(&self, texts: RequestTexts) {
        self.server.traffic().watch(texts);
    }

    /// Holds all model requests with tool results from now on, until the caller drops them.
    #[must_use]
    pub fn hold_requests(&self) -> HeldRequests {
        self.server.traffic().hold()
    }

    /// Watches requests from now on.
    #[must_use]
    pub fn watch(&self) -> RequestWatcher {
        self.log.watch()
    }

    /// Stops without blocking the calling thread; closes connections immediately.
    pub async fn shutdown(self) {
        self.server.shutdown().await;
    }
}

impl fmt::Debug for MockServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MockServer").field("address", &self.address()).finish_non_exhaustive()
    }
}
