//! The host's end of a shim's control socket.

use std::io::{self, IoSlice, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tokio::io::AsyncWriteExt;
use tokio::io::unix::AsyncFd;

use crate::sys;
use crate::wire::{ShimEvent, ShimRequest, frame_length};

/// A control socket whose first request is written as far as the socket buffer allows, so that a starting
/// shim finds it.
pub(super) struct PendingControl {
    socket: UnixStream,
    rest: Vec<u8>,
}

impl PendingControl {
    /// Creates both ends of the socket. The child's descriptors are sent with the first byte of the request.
    pub(super) fn new(request: &ShimRequest, descriptors: &[OwnedFd]) -> io::Result<(Self, UnixStream)> {
        let (socket, shim_socket) = UnixStream::pair()?;
        socket.set_nonblocking(true)?;
        let mut rest = request.encode();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let descriptors: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
        if !descriptors.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        }
        let sent = sendmsg(&socket, &[IoSlice::new(&rest)], &mut ancillary, SendFlags::empty())?;
        rest.drain(..sent);
        Ok((Self { socket, rest }, shim_socket))
    }

    /// Sends the rest of the request.
    pub(super) async fn send(self) -> io::Result<ControlSocket> {
        let mut socket = self.socket;
        if !self.rest.is_empty() {
            let mut stream = tokio::net::UnixStream::from_std(socket)?;
            stream.write_all(&self.rest).await?;
            socket = stream.into_std()?;
        }
        // Read interest only: with write interest, every read by the shim would wake the host.
        Ok(ControlSocket { socket: sys::readable(socket)?, received: Vec::new() })
    }
}

/// The control socket of a shim that has its spawn request.
#[derive(Debug)]
pub(super) struct ControlSocket {
    socket: AsyncFd<UnixStream>,
    received: Vec<u8>,
}

impl ControlSocket {
    /// Sends a request. It is a few bytes, which always fit into the socket buffer.
    pub(super) fn send(&self, request: &ShimRequest) {
        let _ = self.socket.get_ref().write(&request.encode());
    }

    /// Waits for the next frame. Cancel-safe: incomplete data stays in `received`.
    pub(super) async fn next(&mut self) -> io::Result<ShimEvent> {
        loop {
            if let Some(prefix) = self.received.first_chunk::<4>() {
                let length = frame_length(*prefix)?;
                if self.received.len() >= 4 + length {
                    let event = ShimEvent::decode(&self.received[4..4 + length]);
                    self.received.drain(..4 + length);
                    return event;
                }
            }
            let mut chunk = [0; 512];
            let mut ready = self.socket.readable().await?;
            match ready.try_io(|socket| socket.get_ref().read(&mut chunk)) {
                Ok(Ok(0)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(Ok(length)) => {
                    self.received.extend_from_slice(&chunk[..length]);
                    if length < chunk.len() {
                        ready.clear_ready();
                    }
                }
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Err(error),
                Err(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shim::receive_spawn_request;

    /// The largest spawn request that Linux accepts exceeds the socket buffer many times over.
    #[tokio::test]
    async fn spawn_request_larger_than_socket_buffer_arrives_with_descriptors() {
        let descriptors = io::pipe().unwrap();
        let mut launch = crate::wire::tests::spawn_request();
        launch.args = vec!["x".repeat(3 << 20).into()];
        let request = ShimRequest::Spawn(Box::new(launch));
        let (pending, mut shim_socket) = PendingControl::new(&request, &[descriptors.0.into()]).unwrap();
        assert!(!pending.rest.is_empty());
        let shim = tokio::task::spawn_blocking(move || {
            let (request, descriptors) = receive_spawn_request(&mut shim_socket).unwrap();
            shim_socket.write_all(&ShimEvent::Started.encode()).unwrap();
            (request, descriptors.len())
        });
        let mut control = pending.send().await.unwrap();
        assert_eq!(control.next().await.unwrap(), ShimEvent::Started);
        assert_eq!(shim.await.unwrap(), (request, 1));
        assert_eq!(control.next().await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
