//! The shim: a small process between host and leader that outlives the tree.
//!
//! It is the host's own program, started as `PROGRAM __shim` with a control socket as stdin and the child's
//! output pipes as stdout and stderr. It adopts every orphan of the tree (Linux: child subreaper), so that no
//! descendant escapes. When the control socket closes, for any reason, it kills the whole tree.

#[cfg(target_os = "linux")]
mod call_supervisor;
mod control;
mod fork;
#[cfg(target_os = "linux")]
mod meter;
#[cfg(target_os = "linux")]
mod sandbox_init;
mod signals;

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, WaitId, WaitIdOptions, WaitOptions, waitid};

#[cfg(target_os = "linux")]
use crate::cgroup::Cgroup;
use crate::process_table::{self, ProcessTree};
use crate::record::ProcessIdentity;
use crate::report::{ContainmentMethod, ExitStatus, Usage};
use crate::sys;
use crate::wire::{ShimEvent, ShimRequest, SpawnRequest, SpawnStage};
use crate::{SETTLE_TIME, env};
pub(crate) use control::receive_spawn_request;
use control::{ControlInput, FrameBuffer};
use fork::{ForkedChild, InheritedFds, fork_child, release_output};
#[cfg(target_os = "linux")]
use meter::UsageMeter;
#[cfg(target_os = "linux")]
use sandbox_init::SANDBOX_INIT_ARGUMENT;
#[cfg(target_os = "linux")]
pub(crate) use sandbox_init::{init_arguments, receive_listeners};

/// The first argument that makes a program act as a shim.
pub(crate) const SHIM_ARGUMENT: &str = "__shim";

/// Descriptor numbers in the sandbox wrapper and the sandbox init; higher than any that this process uses.
pub(crate) const STATUS_FD: i32 = 100;
pub(crate) const CHANNEL_FD: i32 = 101;
pub(crate) const PROGRAM_FD: i32 = 102;
/// The first descriptor of the sandbox's own files, and their maximum size, which the wrapper must be able to
/// write.
pub(crate) const FILES_FD: i32 = 110;
pub(crate) const MAX_FILE_SIZE: u64 = 256 << 10;

static OWN_SHIM: OnceLock<PathBuf> = OnceLock::new();

/// Makes the running program able to act as its own shim. Call this first in `main`, before any thread is
/// started.
///
/// Returns immediately in a normal start. In a process that [`Command`](crate::Command) started as a shim, it
/// runs the shim and never returns.
#[expect(clippy::exit, reason = "a shim never returns to `main`")]
pub fn shim_main() {
    let mut args = std::env::args_os().skip(1);
    let is_shim = args.next().is_some_and(|arg| arg == SHIM_ARGUMENT) && args.next().is_none();
    // Without a control socket a user typed the argument; let the program's own argument parser reject it.
    if is_shim && rustix::net::sockopt::socket_type(io::stdin()).is_ok() {
        std::process::exit(run_shim());
    }
    #[cfg(target_os = "linux")]
    if std::env::args_os().nth(1).is_some_and(|arg| arg == SANDBOX_INIT_ARGUMENT)
        && let Some(channel) = sys::take_socket(CHANNEL_FD)
    {
        let error = sandbox_init::run(channel, std::env::args_os().skip(2));
        let _ = writeln!(io::stderr(), "failed to start the program in the sandbox: {error}");
        std::process::exit(127);
    }
    // This link stays valid when the executable is replaced or removed at run time.
    let program =
        if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() };
    if let Ok(program) = program {
        let _ = OWN_SHIM.set(program);
    }
}

/// Returns the program to use as a shim, if [`shim_main`] was called.
pub(crate) fn own_shim() -> Option<&'static PathBuf> {
    OWN_SHIM.get()
}

/// Runs the shim whose control socket is stdin; returns its exit code.
pub(crate) fn run_shim() -> i32 {
    i32::from(Shim::serve().is_err())
}

/// The state of a running shim.
struct Shim {
    control: UnixStream,
    child_ended: UnixStream,
    leader: Pid,
    /// Whether the leader is a sandbox wrapper that waits for the program.
    sandboxed: bool,
    /// The exit status of the leader, once reaped.
    status: Option<ExitStatus>,
    tree: ProcessTree,
    method: ContainmentMethod,
    #[cfg(target_os = "linux")]
    cgroup: Option<Cgroup>,
    /// The status pipe of the sandbox wrapper.
    #[cfg(target_os = "linux")]
    progress: Option<io::PipeReader>,
    #[cfg(target_os = "linux")]
    meter: UsageMeter,
    leaked: bool,
    paused: Option<PauseMethod>,
}

/// How the tree was suspended.
enum PauseMethod {
    #[cfg(target_os = "linux")]
    Freezer,
    /// By signals, to these processes, which must be resumed.
    Signals(Vec<ProcessIdentity>),
}

impl Shim {
    fn serve() -> io::Result<()> {
        let child_ended = sys::prepare_shim_signals()?;
        let mut control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        let (request, fds) = receive_spawn_request(&mut control)?;
        let ShimRequest::Spawn(request) = request else { return Err(io::ErrorKind::InvalidData.into()) };
        let mut fds = fds.into_iter();
        let mut next = |wanted: bool| if wanted { fds.next() } else { None };
        let fds = InheritedFds { stdin: next(request.stdin), channel: next(request.channel), status: None };
        match Self::start_child(&control, child_ended, &request, fds) {
            Ok((mut shim, forked)) => {
                // Before the child runs, because it may kill the shim immediately; then the host already
                // knows the child.
                shim.send(&ShimEvent::Forked {
                    pid: shim.leader.as_raw_pid() as u32,
                    start: shim.tree.leader.map_or(0, |leader| leader.start),
                    shim_start: shim.tree.below.map_or(0, |shim| shim.start),
                    method: shim.method,
                    cgroup: shim.cgroup_path(),
                });
                // The host persists the record first. If it died instead, so does the child.
                let mut frames = FrameBuffer::default();
                if !shim.wait_for_release(&mut frames) {
                    drop(forked);
                    shim.kill_all();
                    shim.remove_cgroup();
                    return Ok(());
                }
                if let Err((stage, error)) = forked.release(request.rules.as_ref()) {
                    shim.remove_cgroup();
                    return control.write_all(&ShimEvent::failed(stage, &error).encode());
                }
                release_output();
                shim.send(&ShimEvent::Started);
                drop(request);
                shim.watch(frames);
                Ok(())
            }
            Err((stage, error)) => control.write_all(&ShimEvent::failed(stage, &error).encode()),
        }
    }

    fn start_child(
        control: &UnixStream,
        child_ended: UnixStream,
        request: &SpawnRequest,
        #[cfg_attr(not(target_os = "linux"), expect(unused_mut))] mut fds: InheritedFds,
    ) -> Result<(Self, ForkedChild), (SpawnStage, io::Error)> {
        let contain = |error| (SpawnStage::Contain, error);
        let born = Instant::now();
        // Before the child runs, because it may kill the shim immediately.
        let me = std::process::id();
        let me = ProcessIdentity { pid: me, start: process_table::start_time(me).unwrap_or(0) };
        #[cfg(target_os = "linux")]
        let cgroup = match request.method {
            None => Cgroup::create(&request.id).ok(),
            Some(ContainmentMethod::Cgroup) => Some(Cgroup::create(&request.id).map_err(contain)?),
            Some(_) => None,
        };
        #[cfg(target_os = "linux")]
        if let Some(cgroup) = cgroup.as_ref().filter(|_| !request.limits.is_empty()) {
            cgroup.set_limits(&request.limits);
        }
        #[cfg(target_os = "linux")]
        let progress = if request.sandboxed {
            let (reader, writer) = io::pipe().map_err(contain)?;
            fds.status = Some(writer);
            Some(reader)
        } else {
            None
        };
        #[cfg(target_os = "linux")]
        if request.method != Some(ContainmentMethod::Sweep) {
            let me = Some(rustix::process::getpid());
            rustix::process::set_child_subreaper(me).map_err(|error| contain(error.into()))?;
        }
        #[cfg(not(target_os = "linux"))]
        if matches!(request.method, Some(ContainmentMethod::Cgroup | ContainmentMethod::Subreaper)) {
            return Err(contain(io::ErrorKind::Unsupported.into()));
        }

        #[cfg(target_os = "linux")]
        let (forked, cgroup) = {
            match fork_child(request, &fds, cgroup.as_ref().map(AsFd::as_fd)) {
                // Creating a cgroup may be permitted while entering it is not. Only an error if the method
                // was forced.
                Err((SpawnStage::Fork, _)) if cgroup.is_some() && request.method.is_none() => {
                    if let Some(cgroup) = cgroup {
                        cgroup.remove();
                    }
                    (fork_child(request, &fds, None), None)
                }
                forked => (forked, cgroup),
            }
        };
        #[cfg(not(target_os = "linux"))]
        let forked = fork_child(request, &fds, None);
        let forked = match forked {
            Ok(forked) => forked,
            Err(error) => {
                #[cfg(target_os = "linux")]
                if let Some(cgroup) = &cgroup {
                    cgroup.remove();
                }
                return Err(error);
            }
        };
        drop(fds);

        let leader = forked.leader;
        let pid = leader.as_raw_pid() as u32;
        let start = process_table::start_time(pid).unwrap_or(0);
        #[cfg(target_os = "linux")]
        let method = match (&cgroup, request.method) {
            (Some(_), _) => ContainmentMethod::Cgroup,
            (None, Some(ContainmentMethod::Sweep)) => ContainmentMethod::Sweep,
            (None, _) => ContainmentMethod::Subreaper,
        };
        #[cfg(not(target_os = "linux"))]
        let method = ContainmentMethod::Sweep;
        // The tree of a subreaper is everything below it. A sweep also needs the marker.
        let tree = ProcessTree {
            born: Some(born),
            below: Some(me),
            leader: Some(ProcessIdentity { pid, start }),
            marker: (method == ContainmentMethod::Sweep).then(|| env::marker(&request.id)),
        };
        let shim = Self {
            control: control.try_clone().map_err(contain)?,
            child_ended,
            leader,
            sandboxed: request.sandboxed,
            status: None,
            tree,
            method,
            #[cfg(target_os = "linux")]
            cgroup,
            #[cfg(target_os = "linux")]
            progress,
            #[cfg(target_os = "linux")]
            meter: UsageMeter::new(request.limits, request.sandboxed),
            leaked: false,
            paused: None,
        };
        Ok((shim, forked))
    }

    /// Waits until the host lets the child run its program; returns whether it did.
    fn wait_for_release(&self, frames: &mut FrameBuffer) -> bool {
        loop {
            match frames.read(&self.control) {
                ControlInput::Nothing => {}
                ControlInput::Request(request) => return request == ShimRequest::Release,
                ControlInput::Closed => return false,
            }
        }
    }

    /// Waits for the leader to end or for requests of the host, then makes sure that no process is left.
    fn watch(&mut self, mut frames: FrameBuffer) {
        #[cfg(target_os = "linux")]
        if self.meter.until_next_sample().is_some() {
            sys::raise_priority();
        }
        let mut terminating = false;
        let mut settle: Option<Instant> = None;
        let unkillable = loop {
            self.reap();
            if let Some(status) = self.status {
                if self.is_tree_empty() {
                    break Vec::new();
                }
                #[cfg(target_os = "linux")]
                if settle.is_none()
                    && let Some(over) = self.meter.kernel_enforced(self.cgroup.as_ref())
                {
                    self.send(&ShimEvent::OverLimit(over));
                }
                if settle.is_none() {
                    self.send(&ShimEvent::LeaderEnded(status));
                    settle = Some(Instant::now() + SETTLE_TIME);
                }
            }
            // After SIGTERM, descendants get the same grace period as the leader; the host ends it.
            let due = settle.filter(|_| !terminating && self.paused.is_none());
            if due.is_some_and(|due| Instant::now() >= due) {
                self.leaked = true;
                break self.kill_all();
            }
            #[cfg(target_os = "linux")]
            if self.status.is_none()
                && let Some(over) = self.meter.sample(&self.tree, self.cgroup.as_ref())
            {
                // No grace period after exceeding a limit.
                self.send(&ShimEvent::OverLimit(over));
                break self.kill_all();
            }
            match self.wait(&mut frames, due.map(|due| due.saturating_duration_since(Instant::now()))) {
                ControlInput::Nothing => {}
                ControlInput::Request(ShimRequest::Terminate) => {
                    terminating = true;
                    self.terminate();
                }
                ControlInput::Request(ShimRequest::Pause) => {
                    self.pause();
                    self.send(&ShimEvent::Paused);
                }
                ControlInput::Request(ShimRequest::Resume) => {
                    self.resume();
                    settle = settle.map(|_| Instant::now() + SETTLE_TIME);
                }
                ControlInput::Request(ShimRequest::Release) => {}
                ControlInput::Request(ShimRequest::Kill | ShimRequest::Spawn(_)) | ControlInput::Closed => {
                    break self.kill_all();
                }
            }
        };
        let (program_started, leaked) = (self.program_started(), self.leaked);
        let done = ShimEvent::Finished {
            status: self.status,
            program_started,
            leaked,
            usage: self.usage(),
            unkillable,
        };
        #[cfg(target_os = "linux")]
        if let Some(cgroup) = &self.cgroup {
            cgroup.remove();
        }
        self.send(&done);
    }

    /// Returns whether the program itself ran. `bwrap` reports an exit code only in that case, and the
    /// sandboxed program can't forge it.
    fn program_started(&mut self) -> bool {
        #[cfg(target_os = "linux")]
        if let Some(mut progress) = self.progress.take() {
            // Non-blocking, because an unkillable process may hold the pipe. The report fits into one read.
            let mut text = [0; 4096];
            let ready = rustix::io::ioctl_fionbio(&progress, true).is_ok();
            let length = if ready { progress.read(&mut text).unwrap_or(0) } else { 0 };
            return String::from_utf8_lossy(&text[..length]).contains("\"exit-code\"");
        }
        true
    }

    fn wait(&self, frames: &mut FrameBuffer, limit: Option<Duration>) -> ControlInput {
        if let Some(input) = frames.next() {
            return input;
        }
        #[cfg(target_os = "linux")]
        let limit = match self.meter.until_next_sample().filter(|_| self.status.is_none()) {
            Some(look) => Some(limit.map_or(look, |limit| limit.min(look))),
            None => limit,
        };
        // SIGCHLD announces only the leader; a sweep must poll for the others.
        let limit = match (limit, self.method, self.status) {
            (None, ContainmentMethod::Sweep, Some(_)) => Some(Duration::from_millis(20)),
            (Some(limit), ContainmentMethod::Sweep, Some(_)) => Some(limit.min(Duration::from_millis(20))),
            (limit, ..) => limit,
        };
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        let mut fds =
            [PollFd::new(&self.control, PollFlags::IN), PollFd::new(&self.child_ended, PollFlags::IN)];
        let _ = poll(&mut fds, limit.as_ref());
        let (control, child_event) = (!fds[0].revents().is_empty(), !fds[1].revents().is_empty());
        if child_event {
            while matches!((&self.child_ended).read(&mut [0; 64]), Ok(1..)) {}
        }
        if control { frames.read(&self.control) } else { ControlInput::Nothing }
    }

    /// Reaps ended children and stores the exit status of the leader.
    fn reap(&mut self) {
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            if pid == self.leader {
                let code = status.exit_status().map(ExitStatus::Code);
                self.status = code.or_else(|| status.terminating_signal().map(ExitStatus::Signal));
            }
        }
    }

    fn is_tree_empty(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let no_child = matches!(waitid(WaitId::All, options), Err(rustix::io::Errno::CHILD));
        no_child && (self.method != ContainmentMethod::Sweep || self.tree.living().is_empty())
    }

    fn usage(&self) -> Usage {
        let waited = sys::waited_children_usage();
        let cpu = self.cgroup_cpu().unwrap_or((waited.user, waited.system));
        Usage { user: cpu.0, system: cpu.1, peak_rss_of_largest_process: waited.peak_rss_bytes }
    }

    #[cfg(target_os = "linux")]
    fn cgroup_cpu(&self) -> Option<(Duration, Duration)> {
        self.cgroup.as_ref().and_then(Cgroup::cpu)
    }

    #[cfg(not(target_os = "linux"))]
    fn cgroup_cpu(&self) -> Option<(Duration, Duration)> {
        None
    }

    fn remove_cgroup(&self) {
        #[cfg(target_os = "linux")]
        if let Some(cgroup) = &self.cgroup {
            cgroup.remove();
        }
    }

    #[cfg(target_os = "linux")]
    fn cgroup_path(&self) -> Option<PathBuf> {
        self.cgroup.as_ref().map(|cgroup| cgroup.path().to_owned())
    }

    #[cfg(not(target_os = "linux"))]
    fn cgroup_path(&self) -> Option<PathBuf> {
        None
    }

    /// Sends an event. Errors are ignored: the host is gone.
    fn send(&mut self, event: &ShimEvent) {
        let _ = self.control.write_all(&event.encode());
    }
}
