//! A tape that answers: the recorded exchange for each request, or a divergence; never a guess, never the real API.

mod fault;
mod options;
mod order;
mod player;
mod spool;

use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, MutexGuard, PoisonError};

use tokio::sync::watch;

pub use self::fault::{ReplayFault, ReplayFaultKind};
pub use self::options::{Fork, Live, Mode, ReplayOptions, Speed};
use self::player::{Live as LivePlayer, Player, State};
use crate::error::Error;
use crate::host::{self, Host};
use crate::matching::divergence::Divergence;
use crate::server::{Server, ServerOptions};
use crate::tape::Tape;
use crate::upstream::{Client, Upstream};
use crate::usage::Observed;

/// What a replay did so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplayOutcome {
    /// Requests that the tape answered.
    pub served: u64,
    /// Requests that are no conversation and not on the tape, such as a token count, which got a polite answer.
    pub improvised: u64,
    /// Tool results that differed and were let pass; always 0 in [`Mode::Strict`].
    pub tolerated: u64,
    /// Answers that a fault took the place of, or broke.
    pub faults: u64,
    /// 1 when requests came in another order than recorded, and the wait for the recorded one was given up.
    pub out_of_order: u64,
    /// Requests that went to the live model after a fork.
    pub forwarded: u64,
    /// Exchanges of the tape that nobody asked for, as far as they come before a fork.
    pub left: u64,
    /// The recorded tokens of what was served: they cost nothing this time.
    pub recorded: Observed,
    /// The tokens of the live model after a fork: these were spent.
    pub spent: Observed,
    /// Where the replay left its tape.
    pub divergence: Option<Divergence>,
}

/// A tape under way as a server on loopback, in a thread of its own; gone when it is dropped.
#[derive(Debug)]
pub struct Replayer {
    host: Host,
    player: Arc<Player>,
    diverged: watch::Receiver<Option<Arc<Divergence>>>,
    /// The script that goes on after a fork.
    _script: Option<Server>,
}

impl Replayer {
    /// Starts to answer on 127.0.0.1.
    ///
    /// # Errors
    /// When the port is taken, or a fork or a fault names a step that the tape does not have.
    pub fn start(tape: &Tape, options: ReplayOptions) -> Result<Self, Error> {
        Self::start_on(host::bind(options.port)?, tape, options)
    }

    /// The same on a listener that is bound to loopback already.
    ///
    /// # Errors
    /// As [`Replayer::start`].
    pub fn start_on(listener: TcpListener, tape: &Tape, mut options: ReplayOptions) -> Result<Self, Error> {
        for fault in &options.faults {
            fault.check(tape)?;
        }
        let mut script_server = None;
        let fork = match options.fork.take() {
            None => None,
            Some(Fork { step, live }) => {
                let turns = fault::turns(tape, MAIN);
                if step > turns {
                    return Err(Error::NoStep { lane: MAIN.to_owned(), step, turns });
                }
                let (upstream, model) = match live {
                    Live::Upstream { upstream, model } => (upstream, model),
                    Live::Script(script) => {
                        let server = Server::start(script, &ServerOptions::default())?;
                        let upstream = Upstream::new(&server.base_url())?;
                        script_server = Some(server);
                        (upstream, None)
                    }
                };
                Some((step, LivePlayer { client: Client::new(upstream)?, model }))
            }
        };
        let (tell, diverged) = watch::channel(None);
        let player = Arc::new(Player::new(tape, options, fork, tell));
        let host = Host::start(listener, Arc::clone(&player))?;
        Ok(Self { host, player, diverged, _script: script_server })
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

    /// What was done so far.
    #[must_use]
    pub fn outcome(&self) -> ReplayOutcome {
        self.player.outcome()
    }

    /// Waits until a request is not on the tape, for ever if need be: then the agent can be ended.
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

    /// Stops without blocking the caller's thread, and says what was done.
    pub async fn shutdown(self) -> ReplayOutcome {
        let player = Arc::clone(&self.player);
        self.host.shutdown().await;
        player.outcome()
    }
}

/// The lane whose turns are the steps of a tape.
pub(crate) const MAIN: &str = "main";

fn lock(state: &std::sync::Mutex<State>) -> MutexGuard<'_, State> {
    // Counts stay true whatever panicked in between.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
