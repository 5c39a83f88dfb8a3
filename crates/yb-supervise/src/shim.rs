//! The shim: a small process between host and child that dies last.
//!
//! It is the host's own program, started again as `PROGRAM __shim` with a control socket as stdin and the child's
//! output pipes as stdout and stderr. It adopts every orphan of the tree (Linux: child subreaper), so nothing below
//! it can get lost, and when the socket ends, for whatever reason, it kills until nothing is left.

mod control;
#[cfg(target_os = "linux")]
mod inside;
#[cfg(target_os = "linux")]
mod meter;
mod start;

#[cfg(target_os = "linux")]
use std::collections::HashSet;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process_group, waitid};

#[cfg(target_os = "linux")]
use crate::cgroup::Cgroup;
use crate::record::Identity;
use crate::report::{ExitStatus, Means, Usage};
use crate::stop;
use crate::sys;
use crate::table::{self, Tree};
use crate::wire::{Launch, News, Order, Stage};
use crate::{KILL_LIMIT, SETTLE, env};
pub(crate) use control::receive_launch;
use control::{Frames, Heard};
#[cfg(target_os = "linux")]
use inside::INSIDE_ARGUMENT;
#[cfg(target_os = "linux")]
pub(crate) use inside::{arguments, receive};
#[cfg(target_os = "linux")]
use meter::Meter;
use start::{Given, Held, fork, release_output};

/// Between two looks at what does not die: longer and longer, as long as nothing new appears.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// The first argument that makes a program a shim.
pub(crate) const SHIM_ARGUMENT: &str = "__shim";

/// The numbers under which descriptors reach the program that makes a sandbox, and the inside: higher than any of ours.
pub(crate) const STATUS_FD: i32 = 100;
pub(crate) const CHANNEL_FD: i32 = 101;
pub(crate) const PROGRAM_FD: i32 = 102;
/// The first of the files that a sandbox is given, and the largest: whoever makes the sandbox has to be able to write it.
pub(crate) const FILES_FD: i32 = 110;
pub(crate) const LARGEST_FILE: u64 = 256 << 10;

static OWN_SHIM: OnceLock<PathBuf> = OnceLock::new();

/// Call this first in `main`: it makes the running program able to serve as its own shim.
///
/// Returns at once in an ordinary start. In a process that [`Command`](crate::Command) started as a shim it does the
/// shim's work and never returns. Call it before any thread is started.
#[expect(clippy::exit, reason = "in a shim there is nothing to return to")]
pub fn shim_main() {
    let mut args = std::env::args_os().skip(1);
    let is_shim = args.next().is_some_and(|arg| arg == SHIM_ARGUMENT) && args.next().is_none();
    // Without a control socket somebody typed the argument: that is for the program's own arguments to refuse.
    if is_shim && rustix::net::sockopt::socket_type(io::stdin()).is_ok() {
        std::process::exit(if Shim::serve().is_ok() { 0 } else { 1 });
    }
    #[cfg(target_os = "linux")]
    if std::env::args_os().nth(1).is_some_and(|arg| arg == INSIDE_ARGUMENT)
        && let Some(channel) = sys::take_over_socket(CHANNEL_FD)
    {
        let error = inside::run(channel, std::env::args_os().skip(2));
        let _ = writeln!(io::stderr(), "failed to start the program in its sandbox: {error}");
        std::process::exit(127);
    }
    // The link stays valid when the program's file is replaced or removed while it runs.
    let program =
        if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() };
    if let Ok(program) = program {
        let _ = OWN_SHIM.set(program);
    }
}

/// The program that serves as a shim, if [`shim_main`] was called.
pub(crate) fn own_shim() -> Option<&'static PathBuf> {
    OWN_SHIM.get()
}

struct Shim {
    control: UnixStream,
    child_ended: UnixStream,
    leader: Pid,
    /// Whether the leader only makes a sandbox and waits for what runs within.
    sandboxed: bool,
    /// How the leader ended, once it was reaped.
    status: Option<ExitStatus>,
    tree: Tree,
    means: Means,
    #[cfg(target_os = "linux")]
    cgroup: Option<Cgroup>,
    /// Where the program that makes a sandbox says how far it came.
    #[cfg(target_os = "linux")]
    progress: Option<io::PipeReader>,
    #[cfg(target_os = "linux")]
    meter: Meter,
    leaked: bool,
    paused: Option<Paused>,
}

/// How the tree is held.
enum Paused {
    #[cfg(target_os = "linux")]
    Frozen,
    /// By signals, and these have to be continued.
    Stopped(Vec<Identity>),
}

impl Shim {
    fn serve() -> io::Result<()> {
        let child_ended = sys::prepare_shim_signals()?;
        let mut control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        let (order, given) = receive_launch(&mut control)?;
        let Order::Launch(launch) = order else { return Err(io::ErrorKind::InvalidData.into()) };
        let mut given = given.into_iter();
        let mut next = |wanted: bool| if wanted { given.next() } else { None };
        let given = Given { stdin: next(launch.stdin), channel: next(launch.channel), status: None };
        match Self::launch(&control, child_ended, &launch, given) {
            Ok((mut shim, held)) => {
                // Before the child may do anything, the host knows it: one that kills us at once can't deny it.
                shim.send(&News::Forked {
                    pid: shim.leader.as_raw_pid() as u32,
                    start: shim.tree.leader.map_or(0, |leader| leader.start),
                    shim_start: shim.tree.below.map_or(0, |shim| shim.start),
                    means: shim.means,
                    cgroup: shim.cgroup_path(),
                });
                if let Err((stage, error)) = held.release() {
                    shim.remove_cgroup();
                    return control.write_all(&News::failed(stage, &error).encode());
                }
                release_output();
                shim.send(&News::Started);
                drop(launch);
                shim.watch();
                Ok(())
            }
            Err((stage, error)) => control.write_all(&News::failed(stage, &error).encode()),
        }
    }

    fn launch(
        control: &UnixStream,
        child_ended: UnixStream,
        launch: &Launch,
        #[cfg_attr(not(target_os = "linux"), expect(unused_mut))] mut given: Given,
    ) -> Result<(Self, Held), (Stage, io::Error)> {
        let contain = |error| (Stage::Contain, error);
        let born = Instant::now();
        // Before the child runs: it might end us, and the host should have heard of it by then.
        let me = std::process::id();
        let me = Identity { pid: me, start: table::start_time(me).unwrap_or(0) };
        #[cfg(target_os = "linux")]
        let cgroup = match launch.means {
            None => Cgroup::create(&launch.id).ok(),
            Some(Means::Cgroup) => Some(Cgroup::create(&launch.id).map_err(contain)?),
            Some(_) => None,
        };
        #[cfg(target_os = "linux")]
        if let Some(cgroup) = cgroup.as_ref().filter(|_| !launch.limits.are_none()) {
            cgroup.limit(&launch.limits);
        }
        #[cfg(target_os = "linux")]
        let progress = if launch.sandboxed {
            let (reader, writer) = io::pipe().map_err(contain)?;
            given.status = Some(writer);
            Some(reader)
        } else {
            None
        };
        #[cfg(target_os = "linux")]
        if launch.means != Some(Means::Sweep) {
            let me = Some(rustix::process::getpid());
            rustix::process::set_child_subreaper(me).map_err(|error| contain(error.into()))?;
        }
        #[cfg(not(target_os = "linux"))]
        if matches!(launch.means, Some(Means::Cgroup | Means::Subreaper)) {
            return Err(contain(io::ErrorKind::Unsupported.into()));
        }

        #[cfg(target_os = "linux")]
        let (forked, cgroup) = {
            match fork(launch, &given, cgroup.as_ref().map(AsFd::as_fd)) {
                // A cgroup may be ours to make and yet not to enter; only a forced one makes that an error.
                Err((Stage::Fork, _)) if cgroup.is_some() && launch.means.is_none() => {
                    if let Some(cgroup) = cgroup {
                        cgroup.remove();
                    }
                    (fork(launch, &given, None), None)
                }
                forked => (forked, cgroup),
            }
        };
        #[cfg(not(target_os = "linux"))]
        let forked = fork(launch, &given, None);
        let held = match forked {
            Ok(held) => held,
            Err(error) => {
                #[cfg(target_os = "linux")]
                if let Some(cgroup) = &cgroup {
                    cgroup.remove();
                }
                return Err(error);
            }
        };
        drop(given);

        let leader = held.leader;
        let pid = leader.as_raw_pid() as u32;
        let start = table::start_time(pid).unwrap_or(0);
        #[cfg(target_os = "linux")]
        let means = match (&cgroup, launch.means) {
            (Some(_), _) => Means::Cgroup,
            (None, Some(Means::Sweep)) => Means::Sweep,
            (None, _) => Means::Subreaper,
        };
        #[cfg(not(target_os = "linux"))]
        let means = Means::Sweep;
        // A subreaper's tree is all that hangs below it; a sweep has to know its own by their marks as well.
        let tree = Tree {
            born: Some(born),
            below: Some(me),
            leader: Some(Identity { pid, start }),
            marker: (means == Means::Sweep).then(|| env::marker(&launch.id)),
        };
        let shim = Self {
            control: control.try_clone().map_err(contain)?,
            child_ended,
            leader,
            sandboxed: launch.sandboxed,
            status: None,
            tree,
            means,
            #[cfg(target_os = "linux")]
            cgroup,
            #[cfg(target_os = "linux")]
            progress,
            #[cfg(target_os = "linux")]
            meter: Meter::new(launch.limits, launch.sandboxed),
            leaked: false,
            paused: None,
        };
        Ok((shim, held))
    }

    /// Waits for the leader's end or the host's orders, then sees to it that nothing is left.
    fn watch(&mut self) {
        #[cfg(target_os = "linux")]
        if self.meter.wait().is_some() {
            sys::come_first();
        }
        let mut frames = Frames::default();
        let mut terminating = false;
        let mut settle: Option<Instant> = None;
        let unkillable = loop {
            self.reap();
            if let Some(status) = self.status {
                if self.nothing_left() {
                    break Vec::new();
                }
                #[cfg(target_os = "linux")]
                if settle.is_none()
                    && let Some(over) = self.meter.held(self.cgroup.as_ref())
                {
                    self.send(&News::OverLimit(over));
                }
                if settle.is_none() {
                    self.send(&News::LeaderEnded(status));
                    settle = Some(Instant::now() + SETTLE);
                }
            }
            // After SIGTERM the rest of the tree has the same grace as the leader; the host ends it.
            let due = settle.filter(|_| !terminating && self.paused.is_none());
            if due.is_some_and(|due| Instant::now() >= due) {
                self.leaked = true;
                break self.kill_all();
            }
            #[cfg(target_os = "linux")]
            if self.status.is_none()
                && let Some(over) = self.meter.look(&self.tree, self.cgroup.as_ref())
            {
                // What uses too much gets no grace.
                self.send(&News::OverLimit(over));
                break self.kill_all();
            }
            match self.wait(&mut frames, due.map(|due| due.saturating_duration_since(Instant::now()))) {
                Heard::Nothing => {}
                Heard::Order(Order::Terminate) => {
                    terminating = true;
                    self.terminate();
                }
                Heard::Order(Order::Pause) => {
                    self.pause();
                    self.send(&News::Paused);
                }
                Heard::Order(Order::Resume) => {
                    self.resume();
                    settle = settle.map(|_| Instant::now() + SETTLE);
                }
                Heard::Order(Order::Kill | Order::Launch(_)) | Heard::End => break self.kill_all(),
            }
        };
        let (began, leaked) = (self.began(), self.leaked);
        let done = News::Done { status: self.status, began, leaked, usage: self.usage(), unkillable };
        #[cfg(target_os = "linux")]
        if let Some(cgroup) = &self.cgroup {
            cgroup.remove();
        }
        self.send(&done);
    }

    /// Whether the program itself ran: what makes a sandbox tells its exit code only then, and nobody within can.
    fn began(&mut self) -> bool {
        #[cfg(target_os = "linux")]
        if let Some(mut progress) = self.progress.take() {
            // It fits into the pipe; and whoever can't be killed must not hold us up.
            let mut text = [0; 4096];
            let ready = rustix::io::ioctl_fionbio(&progress, true).is_ok();
            let length = if ready { progress.read(&mut text).unwrap_or(0) } else { 0 };
            return String::from_utf8_lossy(&text[..length]).contains("\"exit-code\"");
        }
        true
    }

    fn wait(&self, frames: &mut Frames, limit: Option<Duration>) -> Heard {
        if let Some(heard) = frames.next() {
            return heard;
        }
        #[cfg(target_os = "linux")]
        let limit = match self.meter.wait().filter(|_| self.status.is_none()) {
            Some(look) => Some(limit.map_or(look, |limit| limit.min(look))),
            None => limit,
        };
        // Only the leader's end is announced by a signal to us; a sweep must look for the others.
        let limit = match (limit, self.means, self.status) {
            (None, Means::Sweep, Some(_)) => Some(Duration::from_millis(20)),
            (Some(limit), Means::Sweep, Some(_)) => Some(limit.min(Duration::from_millis(20))),
            (limit, ..) => limit,
        };
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        let mut fds =
            [PollFd::new(&self.control, PollFlags::IN), PollFd::new(&self.child_ended, PollFlags::IN)];
        let _ = poll(&mut fds, limit.as_ref());
        let (control, ended) = (!fds[0].revents().is_empty(), !fds[1].revents().is_empty());
        if ended {
            while matches!((&self.child_ended).read(&mut [0; 64]), Ok(1..)) {}
        }
        if control { frames.read(&self.control) } else { Heard::Nothing }
    }

    /// Reaps whatever has ended, and remembers how the leader did.
    fn reap(&mut self) {
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            if pid == self.leader {
                let code = status.exit_status().map(ExitStatus::Code);
                self.status = code.or_else(|| status.terminating_signal().map(ExitStatus::Signal));
            }
        }
    }

    fn nothing_left(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let no_child = matches!(waitid(WaitId::All, options), Err(rustix::io::Errno::CHILD));
        no_child && (self.means != Means::Sweep || self.tree.living().is_empty())
    }

    fn pause(&mut self) {
        if self.paused.is_some() {
            return;
        }
        #[cfg(target_os = "linux")]
        if let Some(cgroup) = self.cgroup.as_ref().filter(|cgroup| cgroup.freeze(true)) {
            cgroup.wait_until_frozen();
            self.paused = Some(Paused::Frozen);
            return;
        }
        self.paused = Some(Paused::Stopped(stop::stop(&self.tree)));
    }

    fn resume(&mut self) {
        match self.paused.take() {
            #[cfg(target_os = "linux")]
            Some(Paused::Frozen) => drop(self.cgroup.as_ref().map(|cgroup| cgroup.freeze(false))),
            Some(Paused::Stopped(stopped)) => stop::go_on(stopped),
            None => {}
        }
    }

    fn terminate(&mut self) {
        // Until the leader is reaped nobody else can have its group; after that only if a member is left.
        if self.status.is_none() || self.tree.living().iter().any(|process| in_group(*process, self.leader)) {
            let group = self.inside().unwrap_or(self.leader);
            let _ = kill_process_group(group, Signal::TERM);
            let _ = kill_process_group(group, Signal::CONT);
        }
        // Only now: what was held sees the signal first.
        self.resume();
    }

    /// The group of what runs in the sandbox: its leader, the only child of ours, can't be signalled without an end of
    /// everything. It is led by the first process of the namespace, which hears no signal but those that can't be refused.
    fn inside(&self) -> Option<Pid> {
        if !self.sandboxed || self.status.is_some() {
            return None;
        }
        let first = self.tree.child_of_leader()?;
        let pid = Pid::from_raw(i32::try_from(first.pid).ok()?)?;
        (in_group(first, pid) && table::lives(first)).then_some(pid)
    }

    /// Kills in a loop: killing a daemon hands its children over to us. Returns what could not be killed.
    fn kill_all(&mut self) -> Vec<u32> {
        let limit = Instant::now() + KILL_LIMIT;
        let (mut pause, mut before) = (SHORTEST_PAUSE, Vec::new());
        loop {
            #[cfg(target_os = "linux")]
            if let Some(cgroup) = &self.cgroup {
                cgroup.kill();
            }
            // First those that are ours by adoption: this is quick enough to outrun a fork storm.
            #[cfg(target_os = "linux")]
            {
                let mut seen = HashSet::new();
                for _ in 0..100 {
                    if !self.kill_children(&mut seen) {
                        break;
                    }
                }
            }
            // Then whatever hangs below a process that does not die, or can be known by its marks only.
            let living = self.tree.kill();
            self.reap();
            if self.nothing_left() {
                return Vec::new();
            }
            if Instant::now() > limit {
                return living.iter().map(|process| process.pid).collect();
            }
            // We come before everybody else, and those who have still to die need the processor to do so.
            pause = if living == before { (2 * pause).min(LONGEST_PAUSE) } else { SHORTEST_PAUSE };
            before = living;
            let wait = Timespec::try_from(pause).unwrap_or_default();
            let _ = poll(&mut [PollFd::new(&self.child_ended, PollFlags::IN)], Some(&wait));
            while matches!((&self.child_ended).read(&mut [0; 64]), Ok(1..)) {}
        }
    }

    /// Kills our own children, adopted ones among them, and says whether there were any that were not seen before.
    /// Nobody else reaps them, so their pids are theirs.
    #[cfg(target_os = "linux")]
    fn kill_children(&mut self, seen: &mut HashSet<Pid>) -> bool {
        let me = std::process::id();
        let children = std::fs::read_to_string(format!("/proc/{me}/task/{me}/children")).unwrap_or_default();
        let children = children.split_ascii_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?));
        let mut any = false;
        for pid in children {
            any |= seen.insert(pid);
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
        self.reap();
        any
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

    /// A host that is gone can't be told, and needs no telling.
    fn send(&mut self, news: &News) {
        let _ = self.control.write_all(&news.encode());
    }
}

fn in_group(process: Identity, leader: Pid) -> bool {
    sys::group_of(process.pid) == Some(leader.as_raw_nonzero().get())
}
