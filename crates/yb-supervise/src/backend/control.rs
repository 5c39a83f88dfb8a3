//! The host's end of a shim's control socket.

use std::io::{self, IoSlice, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tokio::io::AsyncWriteExt;
use tokio::io::unix::AsyncFd;

use crate::sys;
use crate::wire::{News, Order, frame_length};

/// A socket with its first order, as far as it has room for it: a shim that starts finds it there.
pub(super) struct Unsent {
    socket: UnixStream,
    rest: Vec<u8>,
}

impl Unsent {
    /// The host's end, and the shim's. What the child is given travels beside the order's first byte.
    pub(super) fn new(order: &Order, given: &[OwnedFd]) -> io::Result<(Self, UnixStream)> {
        let (socket, theirs) = UnixStream::pair()?;
        socket.set_nonblocking(true)?;
        let mut rest = order.encode();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let descriptors: Vec<_> = given.iter().map(AsFd::as_fd).collect();
        if !descriptors.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        }
        let sent = sendmsg(&socket, &[IoSlice::new(&rest)], &mut ancillary, SendFlags::empty())?;
        rest.drain(..sent);
        Ok((Self { socket, rest }, theirs))
    }

    /// Sends the rest, as the shim takes it.
    pub(super) async fn send(self) -> io::Result<Control> {
        let mut socket = self.socket;
        if !self.rest.is_empty() {
            let mut stream = tokio::net::UnixStream::from_std(socket)?;
            stream.write_all(&self.rest).await?;
            socket = stream.into_std()?;
        }
        // Only for reading: who waits for room as well is woken by every piece that the shim takes.
        Ok(Control { socket: sys::readable(socket)?, received: Vec::new() })
    }
}

/// The way to a shim that has its first order.
#[derive(Debug)]
pub(super) struct Control {
    socket: AsyncFd<UnixStream>,
    received: Vec<u8>,
}

impl Control {
    /// A few bytes always fit.
    pub(super) fn order(&self, order: &Order) {
        let _ = self.socket.get_ref().write(&order.encode());
    }

    /// The next whole frame. Cancel-safe: what has arrived stays in `received`.
    pub(super) async fn next(&mut self) -> io::Result<News> {
        loop {
            if let Some(prefix) = self.received.first_chunk::<4>() {
                let length = frame_length(*prefix)?;
                if self.received.len() >= 4 + length {
                    let news = News::decode(&self.received[4..4 + length]);
                    self.received.drain(..4 + length);
                    return news;
                }
            }
            let mut piece = [0; 512];
            let mut ready = self.socket.readable().await?;
            match ready.try_io(|socket| socket.get_ref().read(&mut piece)) {
                Ok(Ok(0)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(Ok(length)) => {
                    self.received.extend_from_slice(&piece[..length]);
                    if length < piece.len() {
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
    use crate::shim::receive_launch;

    /// The longest launch that Linux accepts is far more than a socket holds.
    #[tokio::test]
    async fn an_order_that_a_socket_has_no_room_for_arrives_whole_with_what_it_gives() {
        let given = io::pipe().unwrap();
        let mut launch = crate::wire::tests::launch();
        launch.args = vec!["x".repeat(3 << 20).into()];
        let order = Order::Launch(Box::new(launch));
        let (unsent, mut theirs) = Unsent::new(&order, &[given.0.into()]).unwrap();
        assert!(!unsent.rest.is_empty());
        let shim = tokio::task::spawn_blocking(move || {
            let (order, given) = receive_launch(&mut theirs).unwrap();
            theirs.write_all(&News::Started.encode()).unwrap();
            (order, given.len())
        });
        let mut control = unsent.send().await.unwrap();
        assert_eq!(control.next().await.unwrap(), News::Started);
        assert_eq!(shim.await.unwrap(), (order, 1));
        assert_eq!(control.next().await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
