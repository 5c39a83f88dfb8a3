//! The scripted model API as a running server: on loopback, in a thread of its own, gone when it is dropped.

mod route;
pub(crate) mod side;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::error::Error;
use crate::host::{self, Host};
use crate::log::{Log, Watch};
use crate::script::Script;
use crate::seen::Seen;
use route::Player;

/// How a server is set up.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerOptions {
    /// The loopback port; 0, the default, takes any free one.
    pub port: u16,
    /// How many requests are kept for assertions; 1,000 by default.
    pub max_requests: usize,
    /// How many bytes the bodies of the kept requests may have together; 64 MiB by default.
    pub max_bytes: usize,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self { port: 0, max_requests: 1_000, max_bytes: 64 * 1024 * 1024 }
    }
}

impl ServerOptions {
    /// The same with this loopback port.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// The same, keeping at most this many requests, whose bodies have at most so many bytes together.
    #[must_use]
    pub fn keep(mut self, max_requests: usize, max_bytes: usize) -> Self {
        self.max_requests = max_requests;
        self.max_bytes = max_bytes;
        self
    }
}

/// A model API that answers from a script.
///
/// It runs in its own thread, so it answers also while the caller blocks, and needs no async runtime of the
/// caller's. Dropping it (or [`Server::shutdown`]) closes every connection and frees the port before it
/// returns.
pub struct Server {
    host: Host,
    log: Arc<Log>,
}

impl Server {
    /// Starts to answer on 127.0.0.1.
    pub fn start(script: Script, options: &ServerOptions) -> Result<Self, Error> {
        let listener = host::bind(options.port)?;
        let log = Arc::new(Log::new(options.max_requests, options.max_bytes));
        let player = Arc::new(Player::new(script, Arc::clone(&log)));
        Ok(Self { host: Host::start(listener, player)?, log })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.host.address()
    }

    /// What an agent takes as its API's base URL.
    #[must_use]
    pub fn base_url(&self) -> String {
        self.host.base_url()
    }

    /// The requests seen so far, oldest first, as far as they are kept.
    #[must_use]
    pub fn requests(&self) -> Vec<Arc<Seen>> {
        self.log.requests()
    }

    /// Those of the kept requests for which the script has no reply.
    #[must_use]
    pub fn unscripted(&self) -> Vec<Arc<Seen>> {
        self.log.unscripted()
    }

    /// How many requests were seen but are no longer kept.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.log.dropped()
    }

    /// Watches requests from now on.
    #[must_use]
    pub fn watch(&self) -> Watch {
        self.log.watch()
    }

    /// Stops without blocking the caller's thread; connections are closed at once.
    pub async fn shutdown(self) {
        self.host.shutdown().await;
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("address", &self.address()).finish_non_exhaustive()
    }
}
