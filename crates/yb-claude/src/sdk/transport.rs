//! The two pipes of a session and its end, as traits: a supervised process, or a script in a test.

use std::io;

use async_trait::async_trait;
use yb_supervise::StreamItem;

use super::{Error, Exit};
use crate::Invocation;

/// What carries a session. One transport opens any number of them, also at the same time.
#[async_trait]
pub trait Transport: Send + Sync {
    /// Starts what answers to this command. Its private files are written already.
    ///
    /// # Errors
    /// When it can't be started.
    async fn open(&self, invocation: &Invocation) -> Result<Connection, Error>;
}

/// A session that was opened.
pub struct Connection {
    /// What it reads.
    pub input: Box<dyn Input>,
    /// What it prints, and how it ends.
    pub output: Box<dyn Output>,
}

/// The CLI's stdin. Dropping it is the end of the input.
#[async_trait]
pub trait Input: Send {
    /// Writes whole lines. Whoever calls it never drops the future half-way.
    ///
    /// # Errors
    /// When nobody reads any more.
    async fn write(&mut self, lines: &[u8]) -> io::Result<()>;
}

/// The CLI's stdout and its end. Dropping it ends the CLI with everything that it started.
#[async_trait]
pub trait Output: Send {
    /// The next line; `None` when the output has ended. Cancel-safe.
    async fn next(&mut self) -> Option<StreamItem>;

    /// Asks it to end now, and makes it end a bounded time later.
    fn terminate(&mut self);

    /// Waits until it is gone. Cancel-safe, and the same answer when asked again.
    async fn wait(&mut self) -> Exit;
}
