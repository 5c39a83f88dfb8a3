//! What the user or the system wants of the program: Ctrl-C, and on Unix SIGTERM, SIGHUP and Ctrl-Z.

use std::io;

#[cfg(unix)]
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

/// What is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Ctrl-C: come to an end.
    Interrupt,
    /// SIGTERM or SIGHUP: end now.
    Terminate,
    /// Ctrl-Z: stand still.
    Suspend,
}

/// Catches signals from when it is made.
pub(crate) struct Signals {
    #[cfg(unix)]
    each: [Stream; 3],
    #[cfg(unix)]
    suspend: Option<Stream>,
}

impl Signals {
    /// Must be called within a runtime.
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

    /// As [`listen`](Self::listen), and Ctrl-Z too; who asks for that must stop the program itself.
    pub(crate) fn listen_for_suspension() -> io::Result<Self> {
        let mut signals = Self::listen()?;
        #[cfg(unix)]
        {
            signals.suspend = Some(signal(SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw()))?);
        }
        Ok(signals)
    }

    /// Returns when something is wanted.
    pub(crate) async fn next(&mut self) -> Wish {
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
                _ = interrupt.recv() => Wish::Interrupt,
                _ = terminate.recv() => Wish::Terminate,
                _ = hangup.recv() => Wish::Terminate,
                _ = suspend => Wish::Suspend,
            }
        }
        #[cfg(not(unix))]
        {
            let _ = tokio::signal::ctrl_c().await;
            Wish::Interrupt
        }
    }

    /// Returns when the user or the system wants the program to stop.
    pub(crate) async fn stop(&mut self) {
        while self.next().await == Wish::Suspend {}
    }
}

/// Stops this process until somebody continues it.
pub(crate) fn stand_still() {
    #[cfg(unix)]
    {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP);
    }
}
