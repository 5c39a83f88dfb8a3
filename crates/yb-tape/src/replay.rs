//! Replay server: responds with recorded exchanges, or reports a divergence. It never calls the real API, except after
//! a fork.

mod fault;
mod handler;
mod options;
mod order;
mod recorded_body;

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, MutexGuard, PoisonError};

use tokio::sync::watch;

pub use self::fault::{ParseReplayFaultError, ReplayFault, ReplayFaultKind};
use self::handler::{ForkUpstream, ReplayHandler, ReplayState};
pub use self::options::{Fork, ForkTarget, ReplayMode, ReplayOptions, ReplaySpeed};
use crate::error::Error;
use crate::loopback::{self, LoopbackServer};
use crate::matching::divergence::Divergence;
use crate::request_hold::HeldRequests;
use crate::request_texts::RequestTexts;
use crate::server::{MockServer, MockServerOptions};
use crate::tape::Tape;
use crate::traffic::ObservedFailure;
use crate::upstream::{Client, Upstream};
use crate::usage::ObservedUsage;

/// Counts and result of a replay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplayOutcome {
    /// Requests served from the tape.
    pub served: u64,
    /// Requests outside of conversations and not on the tape, such as a token count, that got a placeholder response.
    pub placeholders: u64,
    /// Tool results that differed and were tolerated; always 0 in [`ReplayMode::Strict`].
    pub tolerated: u64,
    /// Places in requests that were equal only after normalization, by kind: `time`, `duration`, `id`, `pid`, `port` or
    /// `temp`; always empty in [`ReplayMode::Exact`]. Directories of the run are not counted.
    pub normalized: BTreeMap<&'static str, u64>,
    /// Injected faults.
    pub faults: u64,
    /// 1 when requests arrived in another order than recorded and waiting for the recorded order timed out.
    pub out_of_order: u64,
    /// Requests forwarded after a fork.
    pub forwarded: u64,
    /// Recorded exchanges before the fork that were not requested.
    pub remaining: u64,
    /// Recorded tokens of the served exchanges; the replay does not incur their cost.
    pub recorded_usage: ObservedUsage,
    /// Tokens of the forwarded requests after a fork.
    pub live_usage: ObservedUsage,
    /// The first request that did not match the tape.
    pub divergence: Option<Divergence>,
    /// The last failure that was served to a model request, unless a later request succeeded.
    pub api_failure: Option<ObservedFailure>,
}

/// A server on loopback that replays a tape. It runs in its own thread and stops when dropped.
#[derive(Debug)]
pub struct ReplayServer {
    server: LoopbackServer,
    handler: Arc<ReplayHandler>,
    diverged: watch::Receiver<Option<Arc<Divergence>>>,
    /// Serves the script after a fork.
    _fork_server: Option<MockServer>,
}

impl ReplayServer {
    /// Starts listening on 127.0.0.1.
    ///
    /// # Errors
    /// When the tape was changed since it was recorded, the port is in use, or a fork or fault refers to a turn that the tape
    /// does not have.
    pub fn start(tape: &Tape, options: ReplayOptions) -> Result<Self, Error> {
        Self::start_on(loopback::bind(options.port)?, tape, options)
    }

    /// Starts on a listener that is already bound to loopback.
    ///
    /// # Errors
    /// As [`ReplayServer::start`].
    pub fn start_on(listener: TcpListener, tape: &Tape, mut options: ReplayOptions) -> Result<Self, Error> {
        tape.check_unchanged()?;
        for fault in &options.faults {
            fault.check(tape)?;
        }
        let mut fork_server = None;
        let fork = match options.fork.take() {
            None => None,
            Some(Fork { step, target }) => {
                let turns = fault::turns(tape, MAIN);
                if step > turns {
                    return Err(Error::NoSuchTurn { lane: MAIN.to_owned(), turn: step, turns });
                }
                let (upstream, model) = match target {
                    ForkTarget::Upstream { upstream, model } => (upstream, model),
                    ForkTarget::Script(script) => {
                        let server = MockServer::start(script, &MockServerOptions::default())?;
                        let upstream = Upstream::new(&server.base_url())?;
                        fork_server = Some(server);
                        (upstream, None)
                    }
                };
                Some((step, ForkUpstream { client: Client::new(upstream)?, model }))
            }
        };
        let (sender, diverged) = watch::channel(None);
        let handler = Arc::new(ReplayHandler::new(tape, options, fork, sender));
        let server = LoopbackServer::start(listener, Arc::clone(&handler))?;
        Ok(Self { server, handler, diverged, _fork_server: fork_server })
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

    /// Looks for texts in all model requests from now on.
    pub fn watch_texts(&self, texts: RequestTexts) {
        self.server.traffic().watch(texts);
    }

    /// Holds all model requests with tool results from now on, until the caller drops them.
    #[must_use]
    pub fn hold_requests(&self) -> HeldRequests {
        self.server.traffic().hold()
    }

    /// Returns the outcome so far.
    #[must_use]
    pub fn outcome(&self) -> ReplayOutcome {
        self.handler.outcome()
    }

    /// Waits for a divergence. Never completes if all requests are on the tape.
    pub async fn diverged(&self) -> Arc<Divergence> {
        let mut diverged = self.diverged.clone();
        loop {
            if let Some(divergence) = diverged.borrow_and_update().as_ref() {
                return Arc::clone(divergence);
            }
            if diverged.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Stops without blocking the calling thread and returns the outcome.
    pub async fn shutdown(self) -> ReplayOutcome {
        let (handler, traffic) = (Arc::clone(&self.handler), Arc::clone(self.server.traffic()));
        self.server.shutdown().await;
        ReplayOutcome { api_failure: traffic.failure(), ..handler.outcome() }
    }
}

/// The lane of the main conversation; forks count its turns.
pub(crate) const MAIN: &str = "main";

fn lock(state: &std::sync::Mutex<ReplayState>) -> MutexGuard<'_, ReplayState> {
    // A panic can't leave the counters inconsistent.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
