//! The child's stdin: empty, fixed bytes, or written interactively.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::{AsyncWrite, AsyncWriteExt};

/// The stdin of a child. The host's stdin is never inherited.
#[derive(Debug, Clone, Default)]
pub enum Stdin {
    /// Empty: immediate EOF.
    #[default]
    None,
    /// These bytes, then EOF.
    Bytes(Bytes),
    /// Written through [`Child::stdin`](crate::Child::stdin), until that is dropped.
    Interactive,
}

#[cfg(unix)]
type Inner = tokio::net::unix::pipe::Sender;
#[cfg(not(unix))]
type Inner = tokio::fs::File;

/// The writer of a child's stdin. Dropping it closes the pipe.
#[derive(Debug)]
pub struct StdinWriter(Inner);

impl StdinWriter {
    #[cfg(unix)]
    pub(crate) fn new(pipe: io::PipeWriter) -> io::Result<Self> {
        Ok(Self(Inner::from_owned_fd(pipe.into())?))
    }

    #[cfg(not(unix))]
    pub(crate) fn new(pipe: io::PipeWriter) -> io::Result<Self> {
        let handle: std::os::windows::io::OwnedHandle = pipe.into();
        Ok(Self(Inner::from_std(handle.into())))
    }

    /// Writes everything and closes. A child that stops reading early is not an error.
    pub(crate) async fn feed(mut self, bytes: Bytes) {
        let _ = self.write_all(&bytes).await;
        let _ = self.flush().await;
    }
}

impl AsyncWrite for StdinWriter {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
