//! How a shim starts its child, and lets go of what only the child may hold.

use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use super::LARGEST_FILE;
#[cfg(target_os = "linux")]
use super::{CHANNEL_FD, FILES_FD, PROGRAM_FD, STATUS_FD};
use crate::env;
use crate::limits::ResourceLimits;
#[cfg(target_os = "linux")]
use crate::restrict::Restriction;
use crate::sys::{self, Fork};
#[cfg(target_os = "linux")]
use crate::wire::Content;
use crate::wire::{Launch, Stage};

/// What a child is given beside its output.
#[derive(Default)]
pub(super) struct Given {
    pub(super) stdin: Option<OwnedFd>,
    /// For the inside of a sandbox with a network of its own.
    pub(super) channel: Option<OwnedFd>,
    /// Where the program that makes a sandbox says how far it came.
    pub(super) status: Option<PipeWriter>,
}

#[cfg(target_os = "linux")]
impl Given {
    /// Lets it pass through exec under the numbers that the arguments name.
    fn pass_on(&self, files: &[Content]) -> io::Result<()> {
        use std::os::fd::AsFd;
        if let Some(status) = &self.status {
            sys::pass_on_as(status.as_fd(), STATUS_FD)?;
        }
        if let Some(channel) = &self.channel {
            sys::pass_on_as(channel.as_fd(), CHANNEL_FD)?;
            sys::pass_on_as(std::fs::File::open("/proc/self/exe")?.as_fd(), PROGRAM_FD)?;
        }
        for (number, content) in (FILES_FD..).zip(files) {
            sys::pass_on_as(open(content)?.as_fd(), number)?;
        }
        Ok(())
    }
}

/// What can be read from its beginning.
#[cfg(target_os = "linux")]
fn open(content: &Content) -> io::Result<std::fs::File> {
    use std::io::Seek as _;
    match content {
        Content::Of(path) => std::fs::File::open(path).or_else(|_| std::fs::File::open("/dev/null")),
        Content::Given(bytes) => {
            let memory = rustix::fs::memfd_create("file", rustix::fs::MemfdFlags::CLOEXEC)?;
            let mut file = std::fs::File::from(memory);
            file.write_all(bytes)?;
            file.rewind()?;
            Ok(file)
        }
    }
}

/// How many threads a process may have on average before the kernel refuses more.
#[cfg(target_os = "linux")]
const TASKS_OF_A_PROCESS: u64 = 16;

/// How many tasks the machine has: `0.00 0.01 0.05 1/TASKS PID`.
#[cfg(target_os = "linux")]
fn tasks() -> u64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let tasks = text.split(['/', ' ']).nth(4).and_then(|tasks| tasks.parse().ok());
    tasks.unwrap_or(u64::from(u16::MAX))
}

/// What the kernel holds for each process by itself.
fn limit(limits: &ResourceLimits, least_file: u64) -> io::Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let both = |value| Rlimit { current: Some(value), maximum: Some(value) };
    if !limits.are_none() {
        setrlimit(Resource::Core, both(0))?;
    }
    if let Some(bytes) = limits.file_size {
        setrlimit(Resource::Fsize, both(bytes.max(least_file)))?;
    }
    // Far above the limit, because it counts threads and all of the user's; root is not bound by it. It keeps the machine
    // usable until the shim has seen the rest.
    #[cfg(target_os = "linux")]
    if let Some(number) = limits.processes {
        let most = tasks().saturating_add(number.saturating_mul(TASKS_OF_A_PROCESS));
        let allowed = getrlimit(Resource::Nproc).maximum.map_or(most, |before| before.min(most));
        setrlimit(Resource::Nproc, both(allowed))?;
    }
    // For one process that the shim does not get to see in time.
    if let Some(time) = limits.cpu {
        setrlimit(Resource::Cpu, both(time.as_secs().saturating_add(2)))?;
    }
    Ok(())
}

/// A child that is forked and waits: from the moment that it executes its program, it may do anything to us.
pub(super) struct Held {
    pub(super) leader: Pid,
    go: PipeWriter,
    failure: PipeReader,
}

/// Forks the child, which waits to be released.
pub(super) fn fork(
    launch: &Launch,
    given: &Given,
    cgroup: Option<BorrowedFd<'_>>,
) -> Result<Held, (Stage, io::Error)> {
    let fork_error = |error| (Stage::Fork, error);
    let env = launch.env.iter().map(|(name, value)| (name, value));
    let exec = env::exec(&launch.program, &launch.arg0, &launch.args, env, &launch.id).map_err(fork_error)?;
    #[cfg(target_os = "linux")]
    let mut restriction = match &launch.rules {
        Some(rules) => Some(Restriction::prepare(rules).map_err(|error| (Stage::Restrict, error))?),
        None => None,
    };
    let (failure, mut report) = io::pipe().map_err(fork_error)?;
    let (mut gate, go) = io::pipe().map_err(fork_error)?;
    match sys::fork(cgroup).map_err(fork_error)? {
        Fork::Child => {
            drop(go);
            // A shim that died meanwhile never releases anybody.
            if gate.read_exact(&mut [0]).is_err() {
                sys::exit_now(127)
            }
            sys::reset_signals();
            sys::pass_on_stdio_only();
            let mut stage = Stage::Exec;
            let mut become_child = || {
                become_child(launch, given)?;
                #[cfg(target_os = "linux")]
                if let Some(restriction) = restriction.take() {
                    restriction.apply().inspect_err(|_| stage = Stage::Restrict)?;
                }
                Ok(())
            };
            let error = match become_child() {
                Ok(()) => exec.exec(),
                Err(error) => error,
            };
            let [a, b, c, d] = error.raw_os_error().unwrap_or(0).to_le_bytes();
            let _ = report.write_all(&[stage as u8, a, b, c, d]);
            sys::exit_now(127)
        }
        Fork::Parent(leader) => Ok(Held { leader, go, failure }),
    }
}

impl Held {
    /// Lets it execute its program; an exec that fails is reported through a pipe that a good one closes.
    pub(super) fn release(mut self) -> Result<(), (Stage, io::Error)> {
        self.go.write_all(&[1]).map_err(|error| (Stage::Fork, error))?;
        let mut told = [0; 5];
        if self.failure.read_exact(&mut told).is_ok() {
            let _ = waitid(WaitId::Pid(self.leader), WaitIdOptions::EXITED);
            let [stage, a, b, c, d] = told;
            let stage = if stage == Stage::Restrict as u8 { Stage::Restrict } else { Stage::Exec };
            return Err((stage, io::Error::from_raw_os_error(i32::from_le_bytes([a, b, c, d]))));
        }
        Ok(())
    }
}

/// What a forked child does before it executes the program; stdout and stderr are in place already.
fn become_child(launch: &Launch, given: &Given) -> io::Result<()> {
    rustix::process::setsid()?;
    std::env::set_current_dir(&launch.cwd)?;
    match &given.stdin {
        Some(stdin) => rustix::stdio::dup2_stdin(stdin)?,
        None => rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null")?)?,
    }
    #[cfg(target_os = "linux")]
    given.pass_on(&launch.files)?;
    limit(&launch.limits, if launch.files.is_empty() { 0 } else { LARGEST_FILE })?;
    Ok(())
}

/// Lets go of the child's output pipes, so that they end with the tree and not with the shim.
pub(super) fn release_output() {
    if let Ok(null) = std::fs::OpenOptions::new().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}
