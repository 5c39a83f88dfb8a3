//! The keeper: a process that is forked from the host before it has threads, and forks all of its shims.
//!
//! A shim that is forked from a small process starts several times faster than the host's program. The keeper
//! forks *siblings*: a shim is a child of the host, as if the host had spawned it, and outlives the keeper. So a
//! keeper that is killed takes nothing with it; the host then spawns its shims again.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, pidfd_send_signal, setpgid, waitid};
use tokio::io::unix::AsyncFd;

use crate::cgroup;
use crate::shim::run_shim;
use crate::sys::{self, Fork, SiblingFork};

/// How long the keeper may take to fork a shim.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How often SIGCONT is sent to a keeper that has not responded yet: a child may have stopped it.
const CONTINUE_INTERVAL: Duration = Duration::from_millis(100);

static KEEPER: Mutex<Option<Keeper>> = Mutex::new(None);
/// Shims that were dropped before they exited, to be reaped later.
static UNREAPED: Mutex<Vec<OwnedFd>> = Mutex::new(Vec::new());

/// Starts a process that forks the shims of this one, which is faster than starting the program again for each child.
/// Call it in `main` after [`shim_main`](crate::shim_main), before any thread is started.
///
/// Does nothing where that is not possible: on other systems than Linux, or if there are several threads.
pub fn start_keeper() {
    let mut keeper = lock(&KEEPER);
    if crate::shim::own_shim().is_some() && keeper.is_none() {
        *keeper = Keeper::start().ok();
    }
}

/// Ends the process that [`start_keeper`] started. Shims go on; further ones are started as without a keeper.
pub fn stop_keeper() {
    *lock(&KEEPER) = None;
}

/// The host's side of the keeper.
#[derive(Debug)]
struct Keeper {
    socket: UnixStream,
    /// Not reaped while this exists, so that the pid is not reused.
    pid: Pid,
}

impl Keeper {
    fn start() -> io::Result<Self> {
        let (socket, keeper_socket) = UnixStream::pair()?;
        match sys::fork(None)? {
            Fork::Parent(pid) => Ok(Self { socket, pid }),
            Fork::Child => {
                drop(socket);
                // Shims have it from here.
                cgroup::find_mount();
                // Ends when the host closes the socket or dies.
                let _ = serve(keeper_socket);
                sys::exit_now(0)
            }
        }
    }

    /// Has a shim forked with these descriptors as stdin, stdout and stderr.
    fn fork_shim(&self, stdio: [BorrowedFd<'_>; 3]) -> io::Result<ForkedShim> {
        send(&self.socket, &[0; 4], &stdio)?;
        let deadline = Instant::now() + TIMEOUT;
        let interval = Timespec::try_from(CONTINUE_INTERVAL).unwrap_or_default();
        // A signal interrupts it as well.
        while !matches!(poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&interval)), Ok(1)) {
            let _ = kill_process(self.pid, Signal::CONT);
            if Instant::now() > deadline {
                // Its last answer may be in the socket by now.
                let _ = kill_process(self.pid, Signal::KILL);
                self.socket.set_nonblocking(true)?;
                break;
            }
        }
        let (pid, descriptor) = receive::<1>(&self.socket)?;
        match <[OwnedFd; 1]>::try_from(descriptor) {
            Ok([descriptor]) => {
                let pid = u32::try_from(pid).map_err(|_| io::ErrorKind::InvalidData)?;
                Ok(ForkedShim { pid, process: Some(sys::readable(descriptor)?) })
            }
            Err(_) => Err(io::Error::from_raw_os_error(-pid)),
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let _ = kill_process(self.pid, Signal::KILL);
        let _ = waitid(WaitId::Pid(self.pid), WaitIdOptions::EXITED);
    }
}

/// Has a shim forked by the keeper; `None` without a keeper.
///
/// # Errors
/// Returns why it failed. There is no keeper from then on, and the shim may exist all the same.
pub(crate) fn fork_shim(stdio: [BorrowedFd<'_>; 3]) -> io::Result<Option<ForkedShim>> {
    let mut keeper = lock(&KEEPER);
    let Some(running) = keeper.as_ref() else { return Ok(None) };
    let forked = running.fork_shim(stdio).map(Some);
    if forked.is_err() {
        *keeper = None;
    }
    drop(keeper);
    lock(&UNREAPED).retain(|process| !is_reaped(process.as_fd()));
    forked
}

/// A shim that the keeper forked: a child of this process.
#[derive(Debug)]
pub(crate) struct ForkedShim {
    pid: u32,
    /// Readable when it has exited; `None` after it was reaped.
    process: Option<AsyncFd<OwnedFd>>,
}

impl ForkedShim {
    /// Returns the pid until the shim is reaped.
    pub(crate) fn id(&self) -> Option<u32> {
        self.process.as_ref().map(|_| self.pid)
    }

    /// Waits until the shim has exited, and reaps it. Cancel-safe.
    pub(crate) async fn wait(&mut self) -> io::Result<()> {
        while let Some(process) = &self.process {
            if is_reaped(process.get_ref().as_fd()) {
                self.process = None;
            } else {
                process.readable().await?.clear_ready();
            }
        }
        Ok(())
    }

    pub(crate) fn kill(&self) -> io::Result<()> {
        let Some(process) = &self.process else { return Ok(()) };
        Ok(pidfd_send_signal(process.get_ref(), Signal::KILL)?)
    }
}

impl Drop for ForkedShim {
    /// The driver was dropped before the end. The shim exits after its control socket is closed.
    fn drop(&mut self) {
        if let Some(process) = self.process.take().map(AsyncFd::into_inner)
            && !is_reaped(process.as_fd())
        {
            lock(&UNREAPED).push(process);
        }
    }
}

/// Reaps a child if it has exited; returns whether it is gone.
fn is_reaped(process: BorrowedFd<'_>) -> bool {
    !matches!(waitid(WaitId::PidFd(process), WaitIdOptions::EXITED | WaitIdOptions::NOHANG), Ok(None))
}

/// Forks shims until the host closes the socket.
fn serve(socket: UnixStream) -> io::Result<()> {
    setpgid(None, None)?;
    std::env::set_current_dir("/")?;
    let _ = rustix::thread::set_name(c"yb-keeper");
    let null = File::options().read(true).write(true).open("/dev/null")?;
    use_as_stdio([&null, &null, &null].map(AsFd::as_fd))?;
    drop(null);
    let socket = UnixStream::from(sys::close_all_but_stdio_and(socket.into())?);
    loop {
        let (_, stdio) = receive::<3>(&socket)?;
        let stdio: [OwnedFd; 3] = stdio.try_into().map_err(|_| io::ErrorKind::InvalidData)?;
        match sys::fork_sibling() {
            Ok(SiblingFork::Sibling) => {
                drop(socket);
                setpgid(None, None)?;
                use_as_stdio([&stdio[0], &stdio[1], &stdio[2]].map(AsFd::as_fd))?;
                drop(stdio);
                let _ = rustix::thread::set_name(c"yb-shim");
                sys::exit_now(run_shim())
            }
            Ok(SiblingFork::Elder(pid, process)) => send(&socket, &pid.to_ne_bytes(), &[process.as_fd()])?,
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or(libc::ENOSYS);
                send(&socket, &(-errno).to_ne_bytes(), &[])?;
            }
        }
    }
}

fn use_as_stdio([stdin, stdout, stderr]: [BorrowedFd<'_>; 3]) -> io::Result<()> {
    rustix::stdio::dup2_stdin(stdin)?;
    rustix::stdio::dup2_stdout(stdout)?;
    Ok(rustix::stdio::dup2_stderr(stderr)?)
}

fn send(socket: &UnixStream, number: &[u8; 4], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    sendmsg(socket, &[IoSlice::new(number)], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives a number and at most `N` descriptors.
fn receive<const N: usize>(socket: &UnixStream) -> io::Result<(i32, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut number = [0; 4];
    let received = loop {
        let mut buffer = [IoSliceMut::new(&mut number)];
        match recvmsg(socket, &mut buffer, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            received => break received?.bytes,
        }
    };
    if received < number.len() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut descriptors = Vec::with_capacity(N);
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            descriptors.extend(received);
        }
    }
    Ok((i32::from_ne_bytes(number), descriptors))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
