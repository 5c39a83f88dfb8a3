//! Signals as requests: Ctrl-C, and on Unix SIGTERM, SIGHUP and Ctrl-Z.

use std::io;

#[cfg(unix)]
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

/// A request of the user or the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SignalRequest {
    /// Ctrl-C: stop gracefully.
    Interrupt,
    /// SIGTERM or SIGHUP: stop now.
    Terminate,
    /// Ctrl-Z: suspend.
    Suspend,
}

/// A listener for signals.
pub(crate) struct Signals {
    #[cfg(unix)]
    each: [Stream; 3],
    #[cfg(unix)]
    suspend: Option<Stream>,
}

impl Signals {
    /// Starts listening; must be called within a runtime.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            #[cfg(unix)]
            each: [
                signal(SignalKind::interrupt())?,
                signal(SignalKind::terminate())?,
                signal(SignalKind::hangup())?,
            ],
            #[cfg(unix)]
            suspend: None,
        })
    }

    /// Also listens for Ctrl-Z; the caller must then suspend the process itself.
    pub(crate) fn listen_for_suspension() -> io::Result<Self> {
        let mut signals = Self::listen()?;
        #[cfg(unix)]
        {
            signals.suspend = Some(signal(SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw()))?);
        }
        Ok(signals)
    }

    /// Waits for the next request.
    pub(crate) async fn next(&mut self) -> SignalRequest {
        #[cfg(unix)]
        {
            let [interrupt, terminate, hangup] = &mut self.each;
            let suspend = async {
                match &mut self.suspend {
                    Some(suspend) => suspend.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = interrupt.recv() => SignalRequest::Interrupt,
                _ = terminate.recv() => SignalRequest::Terminate,
                _ = hangup.recv() => SignalRequest::Terminate,
                _ = suspend => SignalRequest::Suspend,
            }
        }
        #[cfg(not(unix))]
        {
            let _ = tokio::signal::ctrl_c().await;
            SignalRequest::Interrupt
        }
    }

    /// Waits for a request to stop.
    pub(crate) async fn stop(&mut self) {
        while self.next().await == SignalRequest::Suspend {}
    }
}

/// Suspends this process until it receives SIGCONT.
pub(crate) fn suspend_process() {
    #[cfg(unix)]
    {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP);
    }
}
