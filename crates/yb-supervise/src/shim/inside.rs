//! The first program within a sandbox that has a network of its own: it makes the listeners that lead out of it, hands
//! them to the host, and becomes the program that was meant.

use std::ffi::{OsStr, OsString};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

use crate::sys;

/// The first argument that makes a program this one.
pub(crate) const INSIDE_ARGUMENT: &str = "__inside";
/// How many listeners fit into one message.
const MOST: usize = 8;

/// What follows the program's own name: this role, where to listen, and the program with its name and arguments.
pub(crate) fn arguments(
    addresses: &[SocketAddr],
    program: &Path,
    arg0: &OsStr,
    args: &[OsString],
) -> Vec<OsString> {
    let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let mut all = vec![INSIDE_ARGUMENT.into(), addresses.join(",").into(), program.into(), arg0.into()];
    all.extend(args.iter().cloned());
    all
}

/// Does the work; returns only if that failed.
pub(super) fn run(channel: OwnedFd, mut args: impl Iterator<Item = OsString>) -> io::Error {
    let channel = UnixStream::from(channel);
    let wrong = || io::Error::from(io::ErrorKind::InvalidInput);
    let mut hand_over = || {
        let addresses = args.next().ok_or_else(wrong)?;
        let addresses = addresses.to_str().ok_or_else(wrong)?.split(',');
        let listeners: Vec<TcpListener> = addresses
            .map(|address| TcpListener::bind(address.parse::<SocketAddr>().map_err(|_| wrong())?))
            .collect::<io::Result<_>>()?;
        send(&channel, &listeners)?;
        let (program, arg0) = (args.next().ok_or_else(wrong)?, args.next().ok_or_else(wrong)?);
        Ok((program, arg0))
    };
    let (program, arg0) = match hand_over() {
        Ok(found) => found,
        Err(error) => return error,
    };
    let args: Vec<OsString> = std::iter::once(arg0).chain(args).collect();
    let env: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    let env = env.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()));
    // What the program may not have goes with the exec.
    sys::pass_on_stdio_only();
    match sys::Exec::new(Path::new(OsStr::from_bytes(program.as_bytes())), args.iter().map(|arg| &**arg), env)
    {
        Ok(exec) => exec.exec(),
        Err(error) => error,
    }
}

fn send(channel: &UnixStream, listeners: &[TcpListener]) -> io::Result<()> {
    let descriptors: Vec<BorrowedFd<'_>> = listeners.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    sendmsg(channel, &[IoSlice::new(&[1])], &mut ancillary, SendFlags::empty())?;
    Ok(())
}

/// The listeners, at the other end of the channel; it must have something to read.
pub(crate) fn receive(channel: BorrowedFd<'_>) -> io::Result<Vec<TcpListener>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let received =
        recvmsg(channel, &mut [io::IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    if received.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut listeners = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            listeners.extend(descriptors.map(TcpListener::from));
        }
    }
    Ok(listeners)
}
