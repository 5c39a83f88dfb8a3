//! Forks the child of a shim and prepares it for exec.

use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use super::MAX_FILE_SIZE;
#[cfg(target_os = "linux")]
use super::call_supervisor::CallSupervisor;
#[cfg(target_os = "linux")]
use super::{CHANNEL_FD, FILES_FD, PROGRAM_FD, STATUS_FD};
use crate::env;
use crate::limits::ResourceLimits;
#[cfg(target_os = "linux")]
use crate::restrict::{ListenerSocket, Restriction};
use crate::sys::{self, Fork};
#[cfg(target_os = "linux")]
use crate::wire::FileContent;
use crate::wire::{LandlockRules, SpawnRequest, SpawnStage};

/// Descriptors that the child inherits, except stdout and stderr.
#[derive(Default)]
pub(super) struct InheritedFds {
    pub(super) stdin: Option<OwnedFd>,
    /// The socket over which the sandbox init sends its listeners.
    pub(super) channel: Option<OwnedFd>,
    /// The status pipe of the sandbox wrapper.
    pub(super) status: Option<PipeWriter>,
}

#[cfg(target_os = "linux")]
impl InheritedFds {
    /// Duplicates the descriptors to the numbers that the arguments refer to, without close-on-exec.
    fn dup_all_for_exec(&self, files: &[FileContent]) -> io::Result<()> {
        use std::os::fd::AsFd;
        if let Some(status) = &self.status {
            sys::dup_for_exec(status.as_fd(), STATUS_FD)?;
        }
        if let Some(channel) = &self.channel {
            sys::dup_for_exec(channel.as_fd(), CHANNEL_FD)?;
            sys::dup_for_exec(std::fs::File::open("/proc/self/exe")?.as_fd(), PROGRAM_FD)?;
        }
        for (number, content) in (FILES_FD..).zip(files) {
            sys::dup_for_exec(open(content)?.as_fd(), number)?;
        }
        Ok(())
    }
}

/// Opens the content for reading from its start.
#[cfg(target_os = "linux")]
fn open(content: &FileContent) -> io::Result<std::fs::File> {
    use std::io::Seek as _;
    match content {
        FileContent::HostFile(path) => {
            std::fs::File::open(path).or_else(|_| std::fs::File::open("/dev/null"))
        }
        FileContent::Bytes(bytes) => {
            let memory = rustix::fs::memfd_create("file", rustix::fs::MemfdFlags::CLOEXEC)?;
            let mut file = std::fs::File::from(memory);
            file.write_all(bytes)?;
            file.rewind()?;
            Ok(file)
        }
    }
}

/// Average number of threads per process to allow for.
#[cfg(target_os = "linux")]
const TASKS_PER_PROCESS: u64 = 16;

/// Returns the number of tasks of the machine, from `0.00 0.01 0.05 1/TASKS PID`.
#[cfg(target_os = "linux")]
fn tasks() -> u64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let tasks = text.split(['/', ' ']).nth(4).and_then(|tasks| tasks.parse().ok());
    tasks.unwrap_or(u64::from(u16::MAX))
}

/// Sets the resource limits that the kernel enforces per process.
fn set_rlimits(limits: &ResourceLimits, min_file_size: u64) -> io::Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let both = |value| Rlimit { current: Some(value), maximum: Some(value) };
    if !limits.is_empty() {
        setrlimit(Resource::Core, both(0))?;
    }
    if let Some(bytes) = limits.file_size {
        setrlimit(Resource::Fsize, both(bytes.max(min_file_size)))?;
    }
    // Far above the limit, because it counts threads and all processes of the user; root is exempt. It keeps
    // the machine usable until the shim has taken its next sample.
    #[cfg(target_os = "linux")]
    if let Some(number) = limits.processes {
        let most = tasks().saturating_add(number.saturating_mul(TASKS_PER_PROCESS));
        let allowed = getrlimit(Resource::Nproc).maximum.map_or(most, |before| before.min(most));
        setrlimit(Resource::Nproc, both(allowed))?;
    }
    // A backstop for a single process between two samples.
    if let Some(time) = limits.cpu {
        setrlimit(Resource::Cpu, both(time.as_secs().saturating_add(2)))?;
    }
    Ok(())
}

/// A forked child that waits for its release. As soon as it executes its program, it may attack the shim.
pub(super) struct ForkedChild {
    pub(super) leader: Pid,
    release_writer: PipeWriter,
    failure: PipeReader,
    #[cfg(target_os = "linux")]
    listener: Option<ListenerSocket>,
}

/// Forks the child, which waits for its release.
pub(super) fn fork_child(
    request: &SpawnRequest,
    fds: &InheritedFds,
    cgroup: Option<BorrowedFd<'_>>,
) -> Result<ForkedChild, (SpawnStage, io::Error)> {
    let fork_error = |error| (SpawnStage::Fork, error);
    let env = request.env.iter().map(|(name, value)| (name, value));
    let exec = env::build_exec(&request.program, &request.arg0, &request.args, env, &request.id)
        .map_err(fork_error)?;
    #[cfg(target_os = "linux")]
    let (mut restriction, listener) = match &request.rules {
        Some(rules) => Restriction::prepare(rules)
            .map(|(restriction, listener)| (Some(restriction), listener))
            .map_err(|error| (SpawnStage::Restrict, error))?,
        None => (None, None),
    };
    let (failure, mut report) = io::pipe().map_err(fork_error)?;
    let (mut release, release_writer) = io::pipe().map_err(fork_error)?;
    match sys::fork(cgroup).map_err(fork_error)? {
        Fork::Child => {
            drop(release_writer);
            // The shim died before releasing the child.
            if release.read_exact(&mut [0]).is_err() {
                sys::exit_now(127)
            }
            sys::reset_signals();
            sys::close_all_but_stdio_on_exec();
            let mut stage = SpawnStage::Exec;
            let mut prepare_child = || {
                #[cfg(target_os = "linux")]
                if !request.overlays.is_empty() {
                    crate::sandbox::mount_overlays(&request.overlays, &request.id)
                        .inspect_err(|_| stage = SpawnStage::Mount)?;
                }
                prepare_child(request, fds)?;
                #[cfg(target_os = "linux")]
                if let Some(restriction) = restriction.take() {
                    restriction.apply().inspect_err(|_| stage = SpawnStage::Restrict)?;
                }
                Ok(())
            };
            let error = match prepare_child() {
                Ok(()) => exec.exec(),
                Err(error) => error,
            };
            let [a, b, c, d] = error.raw_os_error().unwrap_or(0).to_le_bytes();
            let _ = report.write_all(&[stage as u8, a, b, c, d]);
            sys::exit_now(127)
        }
        Fork::Parent(leader) => Ok(ForkedChild {
            leader,
            release_writer,
            failure,
            #[cfg(target_os = "linux")]
            listener,
        }),
    }
}

impl ForkedChild {
    /// Lets the child execute its program. A failed exec is reported through a close-on-exec pipe. Then starts to
    /// answer the calls that the rules make the shim supervise.
    pub(super) fn release(
        mut self,
        #[cfg_attr(not(target_os = "linux"), expect(unused_variables))] rules: Option<&LandlockRules>,
    ) -> Result<(), (SpawnStage, io::Error)> {
        self.release_writer.write_all(&[1]).map_err(|error| (SpawnStage::Fork, error))?;
        let mut failure = [0; 5];
        if self.failure.read_exact(&mut failure).is_ok() {
            let _ = waitid(WaitId::Pid(self.leader), WaitIdOptions::EXITED);
            let [stage, a, b, c, d] = failure;
            let stage = [SpawnStage::Restrict, SpawnStage::Mount].into_iter().find(|one| *one as u8 == stage);
            let stage = stage.unwrap_or(SpawnStage::Exec);
            return Err((stage, io::Error::from_raw_os_error(i32::from_le_bytes([a, b, c, d]))));
        }
        #[cfg(target_os = "linux")]
        if let Some(listener) = self.listener {
            let roots = rules.map_or(&[][..], |rules| &rules.write);
            let started = listener.receive().and_then(|listener| CallSupervisor::start(listener, roots));
            // The child may have been killed before it could send its listener.
            if let Err(error) = started
                && error.kind() != io::ErrorKind::UnexpectedEof
            {
                return Err((SpawnStage::Restrict, error));
            }
        }
        Ok(())
    }
}

/// Prepares a forked child for exec; stdout and stderr are already set up.
fn prepare_child(request: &SpawnRequest, fds: &InheritedFds) -> io::Result<()> {
    rustix::process::setsid()?;
    std::env::set_current_dir(&request.cwd)?;
    match &fds.stdin {
        Some(stdin) => rustix::stdio::dup2_stdin(stdin)?,
        None => rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null")?)?,
    }
    #[cfg(target_os = "linux")]
    fds.dup_all_for_exec(&request.files)?;
    set_rlimits(&request.limits, if request.files.is_empty() { 0 } else { MAX_FILE_SIZE })?;
    if let Some(current) = request.open_files {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let maximum = getrlimit(Resource::Nofile).maximum;
        setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum })?;
    }
    Ok(())
}

/// Closes the shim's copies of the output pipes, so that they reach EOF when the tree ends.
pub(super) fn release_output() {
    if let Ok(null) = std::fs::OpenOptions::new().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}
