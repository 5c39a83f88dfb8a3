//! The shim's end of the control socket: the launch with the child's stdin, then orders until it ends.

use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use crate::wire::{Order, frame_length};

/// What came over the control socket.
pub(super) enum Heard {
    Nothing,
    Order(Order),
    /// The host closed the socket or died.
    End,
}

/// Reassembles frames from whatever pieces arrive.
#[derive(Default)]
pub(super) struct Frames(Vec<u8>);

impl Frames {
    /// The next order that has arrived whole.
    pub(super) fn next(&mut self) -> Option<Heard> {
        let prefix = *self.0.first_chunk::<4>()?;
        let Ok(length) = frame_length(prefix) else { return Some(Heard::End) };
        let order = Order::decode(self.0.get(4..4 + length)?);
        self.0.drain(..4 + length);
        Some(order.map_or(Heard::End, Heard::Order))
    }

    /// Reads what is there; several orders may come at once to a shim that was stopped for a while.
    pub(super) fn read(&mut self, mut control: &UnixStream) -> Heard {
        let mut piece = [0; 4096];
        match control.read(&mut piece) {
            Ok(0) => return Heard::End,
            Ok(length) => self.0.extend_from_slice(&piece[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Heard::End,
        }
        self.next().unwrap_or(Heard::Nothing)
    }
}

/// The first frame, and with its first byte what the child is given: its stdin, its channel.
pub(crate) fn receive_launch(control: &mut UnixStream) -> io::Result<(Order, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut prefix = [0; 4];
    let mut first = [0; 1];
    let received = loop {
        match recvmsg(&*control, &mut [io::IoSliceMut::new(&mut first)], &mut ancillary, RECEIVE_FLAGS) {
            Err(rustix::io::Errno::INTR) => {}
            received => break received?.bytes,
        }
    };
    if received == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut given = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            given.extend(descriptors);
        }
    }
    for descriptor in &given {
        rustix::io::fcntl_setfd(descriptor, rustix::io::FdFlags::CLOEXEC)?;
    }
    prefix[0] = first[0];
    control.read_exact(&mut prefix[1..])?;
    let mut body = vec![0; frame_length(prefix)?];
    control.read_exact(&mut body)?;
    Ok((Order::decode(&body)?, given))
}

#[cfg(target_os = "linux")]
const RECEIVE_FLAGS: RecvFlags = RecvFlags::CMSG_CLOEXEC;
#[cfg(not(target_os = "linux"))]
const RECEIVE_FLAGS: RecvFlags = RecvFlags::empty();

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn orders_that_come_together_or_in_pieces_are_all_heard() {
        let (mut host, shim) = UnixStream::pair().unwrap();
        let mut frames = Frames::default();
        host.write_all(&[Order::Terminate.encode(), Order::Kill.encode()].concat()).unwrap();
        assert!(matches!(frames.read(&shim), Heard::Order(Order::Terminate)));
        assert!(matches!(frames.next(), Some(Heard::Order(Order::Kill))));
        assert!(frames.next().is_none());
        let frame = Order::Kill.encode();
        host.write_all(&frame[..5]).unwrap();
        assert!(matches!(frames.read(&shim), Heard::Nothing));
        host.write_all(&frame[5..]).unwrap();
        assert!(matches!(frames.read(&shim), Heard::Order(Order::Kill)));
        drop(host);
        assert!(matches!(frames.read(&shim), Heard::End));
    }
}
