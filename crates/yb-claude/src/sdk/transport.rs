//! The transport of a session: stdin, stdout and exit of the CLI, as traits.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use async_trait::async_trait;
use yb_supervise::StreamItem;

use super::{Error, Exit};
use crate::Invocation;

/// A transport for sessions. One transport can open any number of concurrent sessions.
#[async_trait]
pub trait Transport: Send + Sync {
    /// Opens a session for the invocation, whose private files exist already.
    ///
    /// # Errors
    /// If the session can't be started.
    async fn open(&self, invocation: &Invocation) -> Result<Connection, Error>;

    /// Called before [`open`](Self::open) with the directory of the session's private files, for example to change their
    /// owner.
    ///
    /// # Errors
    /// If the session can't be started.
    fn prepare(&self, directory: &Path) -> Result<(), Error> {
        let _ = directory;
        Ok(())
    }

    /// Returns a variable of the environment that the CLI inherits; by default that of this process.
    fn variable(&self, name: &str) -> Option<OsString> {
        std::env::var_os(name)
    }
}

/// An open session.
pub struct Connection {
    /// The CLI's stdin.
    pub input: Box<dyn TransportInput>,
    /// The CLI's stdout and exit.
    pub output: Box<dyn TransportOutput>,
}

/// The CLI's stdin. Dropping it closes stdin.
#[async_trait]
pub trait TransportInput: Send {
    /// Writes complete lines. The SDK never drops the future before completion.
    ///
    /// # Errors
    /// If stdin is closed.
    async fn write(&mut self, lines: &[u8]) -> io::Result<()>;
}

/// The CLI's stdout and exit. Dropping it terminates the CLI and its descendants.
#[async_trait]
pub trait TransportOutput: Send {
    /// Returns the next line; `None` at the end of the output. Cancel-safe.
    async fn next(&mut self) -> Option<StreamItem>;

    /// Terminates the CLI within a bounded time.
    fn terminate(&mut self);

    /// Waits until the CLI has exited. Cancel-safe and repeatable.
    async fn wait(&mut self) -> Exit;
}
