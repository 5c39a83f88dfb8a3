//! The first program in a sandbox with its own network namespace: creates the listeners of the egress proxy,
//! sends them to the host, and executes the requested program.

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

/// The first argument that makes a program act as the sandbox init.
pub(crate) const SANDBOX_INIT_ARGUMENT: &str = "__inside";
/// Maximum number of listeners per message.
const MAX_LISTENERS: usize = 8;

/// Returns the arguments of the sandbox init: addresses to listen on, then the program with its `argv[0]` and
/// arguments.
pub(crate) fn init_arguments(
    addresses: &[SocketAddr],
    program: &Path,
    arg0: &OsStr,
    args: &[OsString],
) -> Vec<OsString> {
    let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let mut all = vec![SANDBOX_INIT_ARGUMENT.into(), addresses.join(",").into(), program.into(), arg0.into()];
    all.extend(args.iter().cloned());
    all
}

/// Runs the sandbox init. Returns only on failure.
pub(super) fn run(channel: OwnedFd, mut args: impl Iterator<Item = OsString>) -> io::Error {
    let channel = UnixStream::from(channel);
    let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
    let mut pass_listeners = || {
        let addresses = args.next().ok_or_else(invalid)?;
        let addresses = addresses.to_str().ok_or_else(invalid)?.split(',');
        let listeners: Vec<TcpListener> = addresses
            .map(|address| TcpListener::bind(address.parse::<SocketAddr>().map_err(|_| invalid())?))
            .collect::<io::Result<_>>()?;
        send_listeners(&channel, &listeners)?;
        let (program, arg0) = (args.next().ok_or_else(invalid)?, args.next().ok_or_else(invalid)?);
        Ok((program, arg0))
    };
    let (program, arg0) = match pass_listeners() {
        Ok(found) => found,
        Err(error) => return error,
    };
    let args: Vec<OsString> = std::iter::once(arg0).chain(args).collect();
    let env: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    let env = env.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()));
    // Closes the descriptors that the program must not inherit.
    sys::close_all_but_stdio_on_exec();
    match sys::Exec::new(Path::new(OsStr::from_bytes(program.as_bytes())), args.iter().map(|arg| &**arg), env)
    {
        Ok(exec) => exec.exec(),
        Err(error) => error,
    }
}

fn send_listeners(channel: &UnixStream, listeners: &[TcpListener]) -> io::Result<()> {
    let descriptors: Vec<BorrowedFd<'_>> = listeners.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_LISTENERS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    sendmsg(channel, &[IoSlice::new(&[1])], &mut ancillary, SendFlags::empty())?;
    Ok(())
}

/// Receives the listeners from the channel, which must be readable.
pub(crate) fn receive_listeners(channel: BorrowedFd<'_>) -> io::Result<Vec<TcpListener>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_LISTENERS))];
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
