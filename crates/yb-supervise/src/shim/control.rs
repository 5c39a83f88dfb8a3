//! The shim's end of the control socket: first the spawn request with its descriptors, then further requests
//! until it closes.

use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use crate::wire::{ShimRequest, frame_length};

/// The result of reading from the control socket.
pub(super) enum ControlInput {
    Nothing,
    Request(ShimRequest),
    /// The host closed the socket or died.
    Closed,
}

/// Reassembles frames.
#[derive(Default)]
pub(super) struct FrameBuffer(Vec<u8>);

impl FrameBuffer {
    /// Returns the next complete request.
    pub(super) fn next(&mut self) -> Option<ControlInput> {
        let prefix = *self.0.first_chunk::<4>()?;
        let Ok(length) = frame_length(prefix) else { return Some(ControlInput::Closed) };
        let request = ShimRequest::decode(self.0.get(4..4 + length)?);
        self.0.drain(..4 + length);
        Some(request.map_or(ControlInput::Closed, ControlInput::Request))
    }

    /// Reads once. Several requests may be buffered if the shim was stopped for a while.
    pub(super) fn read(&mut self, mut control: &UnixStream) -> ControlInput {
        let mut chunk = [0; 4096];
        match control.read(&mut chunk) {
            Ok(0) => return ControlInput::Closed,
            Ok(length) => self.0.extend_from_slice(&chunk[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return ControlInput::Closed,
        }
        self.next().unwrap_or(ControlInput::Nothing)
    }
}

/// Receives the first frame, and the descriptors sent with its first byte: stdin and the listener channel.
pub(crate) fn receive_spawn_request(control: &mut UnixStream) -> io::Result<(ShimRequest, Vec<OwnedFd>)> {
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
    let mut descriptors = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            descriptors.extend(received);
        }
    }
    for descriptor in &descriptors {
        rustix::io::fcntl_setfd(descriptor, rustix::io::FdFlags::CLOEXEC)?;
    }
    prefix[0] = first[0];
    control.read_exact(&mut prefix[1..])?;
    let mut body = vec![0; frame_length(prefix)?];
    control.read_exact(&mut body)?;
    Ok((ShimRequest::decode(&body)?, descriptors))
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
    fn requests_are_decoded_from_merged_and_split_reads() {
        let (mut host, shim) = UnixStream::pair().unwrap();
        let mut frames = FrameBuffer::default();
        host.write_all(&[ShimRequest::Terminate.encode(), ShimRequest::Kill.encode()].concat()).unwrap();
        assert!(matches!(frames.read(&shim), ControlInput::Request(ShimRequest::Terminate)));
        assert!(matches!(frames.next(), Some(ControlInput::Request(ShimRequest::Kill))));
        assert!(frames.next().is_none());
        let frame = ShimRequest::Kill.encode();
        host.write_all(&frame[..5]).unwrap();
        assert!(matches!(frames.read(&shim), ControlInput::Nothing));
        host.write_all(&frame[5..]).unwrap();
        assert!(matches!(frames.read(&shim), ControlInput::Request(ShimRequest::Kill)));
        drop(host);
        assert!(matches!(frames.read(&shim), ControlInput::Closed));
    }
}
