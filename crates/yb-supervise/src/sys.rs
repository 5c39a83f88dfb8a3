//! The only module with `unsafe`: system calls that have no safe wrapper in std or rustix.
#![expect(unsafe_code, reason = "fork, signal dispositions and resource usage have no safe wrapper")]

use std::ffi::{CString, OsStr, OsString, c_char};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use rustix::process::Pid;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The side of a fork.
pub(crate) enum Fork {
    Parent(Pid),
    Child,
}

/// Fails in a multi-threaded process: a forked child allocates memory, and another thread may hold the
/// allocator's lock at the time of the fork.
#[cfg(target_os = "linux")]
fn require_single_thread() -> io::Result<()> {
    let threads = std::fs::read_dir("/proc/self/task")?.count();
    if threads == 1 { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EAGAIN)) }
}

/// Forks the calling process, which must have a single thread, into `cgroup` if one is given.
pub(crate) fn fork(cgroup: Option<BorrowedFd<'_>>) -> io::Result<Fork> {
    #[cfg(target_os = "linux")]
    require_single_thread()?;
    let pid = match cgroup {
        #[cfg(target_os = "linux")]
        Some(cgroup) => {
            // SAFETY: all-zero is a valid `clone_args`: no stack, no flags, nothing returned by pointer.
            let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
            args.flags = CLONE_INTO_CGROUP;
            args.exit_signal = libc::SIGCHLD as u64;
            args.cgroup = cgroup.as_raw_fd() as u64;
            // SAFETY: with neither a stack nor CLONE_VM this is a fork, and there is one thread; `args` outlives the call.
            unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of_val(&args)) as libc::pid_t }
        }
        // SAFETY: there is one thread, so the child may do anything.
        _ => unsafe { libc::fork() },
    };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Fork::Child),
        pid => Pid::from_raw(pid).map(Fork::Parent).ok_or_else(|| io::Error::other("fork returned no pid")),
    }
}

/// The side of a fork that creates a sibling.
#[cfg(target_os = "linux")]
pub(crate) enum SiblingFork {
    /// The pid of the sibling, and a descriptor that refers to it.
    Elder(i32, OwnedFd),
    Sibling,
}

/// Forks a sibling of the calling process, which must have a single thread: a child of its parent.
#[cfg(target_os = "linux")]
pub(crate) fn fork_sibling() -> io::Result<SiblingFork> {
    use std::os::fd::FromRawFd as _;
    // There, the arguments have another order.
    if cfg!(target_arch = "s390x") {
        return Err(io::ErrorKind::Unsupported.into());
    }
    require_single_thread()?;
    let flags = (libc::CLONE_PARENT | libc::CLONE_PIDFD | libc::SIGCHLD) as libc::c_ulong;
    let mut descriptor: libc::c_int = -1;
    let nothing = std::ptr::null_mut::<libc::c_void>();
    // Not `clone3`, which is denied in many containers.
    // SAFETY: with neither a stack nor CLONE_VM this is a fork, and there is one thread, so the sibling may do
    // anything; the kernel writes one number to `descriptor`, which outlives the call.
    let pid = unsafe {
        libc::syscall(libc::SYS_clone, flags, nothing, &raw mut descriptor, nothing, nothing) as libc::pid_t
    };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(SiblingFork::Sibling),
        // SAFETY: the call returned a new descriptor.
        pid => Ok(SiblingFork::Elder(pid, unsafe { OwnedFd::from_raw_fd(descriptor) })),
    }
}

/// Closes all descriptors except stdin, stdout, stderr and `kept`, which becomes descriptor 3.
#[cfg(target_os = "linux")]
pub(crate) fn close_all_but_stdio_and(kept: OwnedFd) -> io::Result<OwnedFd> {
    use std::os::fd::FromRawFd as _;
    const KEPT: libc::c_int = 3;
    let number = kept.into_raw_fd();
    // SAFETY: nothing in this process uses the closed descriptors: it was just forked and keeps only `kept`.
    unsafe {
        if number != KEPT && libc::dup3(number, KEPT, libc::O_CLOEXEC) == -1 {
            return Err(io::Error::last_os_error());
        }
        if libc::syscall(libc::SYS_close_range, KEPT + 1, libc::c_uint::MAX, 0) == -1 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(KEPT))
    }
}

/// Registers a type that owns one descriptor for read readiness only.
pub(crate) fn readable<T: AsRawFd + Into<OwnedFd>>(owner: T) -> io::Result<AsyncFd<T>> {
    // SAFETY: a type that is an owned descriptor in another form has one, which does not change during its lifetime.
    Ok(unsafe { AsyncFd::register_with_interest(owner, Interest::READABLE) }?)
}

/// From the kernel's `sched.h`; the libc crate has it only for some targets.
#[cfg(target_os = "linux")]
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// A program with arguments and environment, laid out so that exec does not allocate.
///
/// Unlike std, which uses `execvp`, this never falls back to a shell for files of unknown format.
pub(crate) struct Exec {
    program: CString,
    _strings: Vec<CString>,
    argv: Vec<*const c_char>,
    envp: Vec<*const c_char>,
}

// SAFETY: the pointers refer to the heap data of `_strings`, which is owned, immutable and does not move with
// `self`.
unsafe impl Send for Exec {}
// SAFETY: as above; nothing is written through the pointers.
unsafe impl Sync for Exec {}

impl Exec {
    pub(crate) fn new<'a>(
        program: &Path,
        argv: impl Iterator<Item = &'a OsStr>,
        env: impl Iterator<Item = (&'a OsStr, &'a OsStr)>,
    ) -> io::Result<Self> {
        let string = |bytes: Vec<u8>| CString::new(bytes).map_err(|_| io::ErrorKind::InvalidInput.into());
        let args: Vec<CString> =
            argv.map(|arg| string(arg.as_bytes().to_vec())).collect::<io::Result<_>>()?;
        let variables: Vec<CString> = env
            .map(|(name, value)| {
                let mut variable = OsString::from(name);
                variable.push("=");
                variable.push(value);
                string(variable.into_vec())
            })
            .collect::<io::Result<_>>()?;
        let pointers = |strings: &[CString]| -> Vec<*const c_char> {
            strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect()
        };
        let (argv, envp) = (pointers(&args), pointers(&variables));
        let program = string(program.as_os_str().as_bytes().to_vec())?;
        Ok(Self { program, _strings: args.into_iter().chain(variables).collect(), argv, envp })
    }

    /// Replaces the running process. Returns only on failure. Async-signal-safe.
    pub(crate) fn exec(&self) -> io::Error {
        // SAFETY: both lists are null-terminated and point to strings that `self` owns.
        unsafe { libc::execve(self.program.as_ptr(), self.argv.as_ptr(), self.envp.as_ptr()) };
        io::Error::last_os_error()
    }
}

/// Returns the id of the current boot.
#[cfg(not(target_os = "linux"))]
pub(crate) fn boot_session() -> Option<String> {
    let mut buffer = [0u8; 64];
    let mut length = buffer.len();
    // SAFETY: the name is NUL-terminated, and the call writes at most `length` bytes into the buffer.
    let done = unsafe {
        libc::sysctlbyname(
            c"kern.bootsessionuuid".as_ptr(),
            buffer.as_mut_ptr().cast(),
            &raw mut length,
            std::ptr::null_mut(),
            0,
        )
    };
    let text = buffer.get(..length).filter(|_| done == 0)?;
    Some(String::from_utf8_lossy(text).trim_end_matches('\0').to_owned())
}

/// Returns the process group of a process; 0 if its leader is outside the PID namespace, as after `docker
/// exec` (rustix can't represent that group).
pub(crate) fn group_of(pid: u32) -> Option<i32> {
    let pid = i32::try_from(pid).ok()?;
    // SAFETY: takes and returns plain numbers.
    let group = unsafe { libc::getpgid(pid) };
    (group >= 0).then_some(group)
}

/// Exits a forked child without running the parent's exit handlers.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: `_exit` only terminates the process.
    unsafe { libc::_exit(code) }
}

/// Resets all signals to their default action and unblocks them, as in a child of a shell.
pub(crate) fn reset_signals() {
    // SAFETY: an all-zero `sigset_t` is initialized by `sigemptyset`; SIG_DFL installs no handler. Signals
    // whose action can't be changed fail with EINVAL, which is fine.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
        for signal in 1..32 {
            libc::signal(signal, libc::SIG_DFL);
        }
    }
}

/// Sets close-on-exec on all descriptors except stdin, stdout and stderr: the host may itself have inherited
/// descriptors that are not meant for the child. Async-signal-safe.
pub(crate) fn close_all_but_stdio_on_exec() {
    #[cfg(target_os = "linux")]
    {
        const CLOSE_RANGE_CLOEXEC: libc::c_uint = 4;
        // SAFETY: sets a flag on descriptors and closes none.
        let done = unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, CLOSE_RANGE_CLOEXEC) };
        if done == 0 {
            return;
        }
    }
    // SAFETY: `sysconf` only reads; `fcntl` on a closed descriptor fails with EBADF.
    unsafe {
        let highest = libc::sysconf(libc::_SC_OPEN_MAX).clamp(256, 65_536) as libc::c_int;
        for fd in 3..highest {
            libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
        }
    }
}

static CHILD_ENDED: AtomicI32 = AtomicI32::new(-1);

extern "C" fn on_sigchld(_: libc::c_int) {
    let fd = CHILD_ENDED.load(Ordering::Relaxed);
    // SAFETY: `write` is async-signal-safe; the descriptor stays open for the life of the process. errno is
    // restored because the interrupted code may be about to read it.
    unsafe {
        let errno = errno_location();
        let before = *errno;
        libc::write(fd, [1u8].as_ptr().cast(), 1);
        *errno = before;
    }
}

#[cfg(target_os = "linux")]
unsafe fn errno_location() -> *mut libc::c_int {
    // SAFETY: always returns the calling thread's errno.
    unsafe { libc::__errno_location() }
}

#[cfg(not(target_os = "linux"))]
unsafe fn errno_location() -> *mut libc::c_int {
    // SAFETY: always returns the calling thread's errno.
    unsafe { libc::__error() }
}

extern "C" fn ignore_signal(_: libc::c_int) {}

/// Prepares the signals of a shim: the returned socket becomes readable when a child ends, and signals from a
/// terminal or a shutdown are ignored. Uses handlers instead of `SIG_IGN`, which would be inherited through
/// exec.
pub(crate) fn prepare_shim_signals() -> io::Result<UnixStream> {
    let (reader, writer) = UnixStream::pair()?;
    reader.set_nonblocking(true)?;
    writer.set_nonblocking(true)?;
    CHILD_ENDED.store(writer.into_raw_fd(), Ordering::Relaxed);
    let survived = [
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGTERM,
        libc::SIGTSTP,
        libc::SIGTTIN,
        libc::SIGTTOU,
    ];
    // SAFETY: both handlers are async-signal-safe; an all-zero `sigaction` is valid before its fields are set.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigemptyset(&raw mut action.sa_mask);
        action.sa_flags = libc::SA_RESTART;
        action.sa_sigaction = on_sigchld as *const () as libc::sighandler_t;
        if libc::sigaction(libc::SIGCHLD, &raw const action, std::ptr::null_mut()) == -1 {
            return Err(io::Error::last_os_error());
        }
        action.sa_sigaction = ignore_signal as *const () as libc::sighandler_t;
        for signal in survived {
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
    Ok(reader)
}

/// CPU time and memory of reaped children.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChildUsage {
    pub(crate) user: Duration,
    pub(crate) system: Duration,
    pub(crate) peak_rss_bytes: u64,
}

fn usage_from(raw: &libc::rusage) -> ChildUsage {
    let time = |t: libc::timeval| Duration::new(t.tv_sec.max(0) as u64, (t.tv_usec.max(0) as u32) * 1000);
    // `ru_maxrss` is in KiB on Linux and in bytes on macOS.
    let unit = if cfg!(target_os = "macos") { 1 } else { 1024 };
    ChildUsage {
        user: time(raw.ru_utime),
        system: time(raw.ru_stime),
        peak_rss_bytes: raw.ru_maxrss.max(0) as u64 * unit,
    }
}

/// Returns the usage of all children reaped by this process, including their own reaped children.
pub(crate) fn waited_children_usage() -> ChildUsage {
    // SAFETY: an all-zero `rusage` is valid and is filled by the call.
    unsafe {
        let mut raw: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut raw);
        usage_from(&raw)
    }
}

/// Reaps an ended child and returns its usage; `None` if there is no such child.
pub(crate) fn reap_with_usage(pid: Pid) -> Option<ChildUsage> {
    let mut status = 0;
    // SAFETY: an all-zero `rusage` is valid and filled by the call; the pid belongs to an unreaped child, so
    // it can't have been reused.
    unsafe {
        let mut raw: libc::rusage = std::mem::zeroed();
        (libc::wait4(pid.as_raw_pid(), &raw mut status, 0, &raw mut raw) != -1).then(|| usage_from(&raw))
    }
}

/// Duplicates a descriptor to a number that is inherited through exec. Async-signal-safe.
#[cfg(target_os = "linux")]
pub(crate) fn dup_for_exec(descriptor: BorrowedFd<'_>, number: i32) -> io::Result<()> {
    // SAFETY: no descriptor of this process has such a high number, and it is about to exec.
    if unsafe { libc::dup2(descriptor.as_raw_fd(), number) } != -1 {
        return Ok(());
    }
    match io::Error::last_os_error() {
        // The descriptor is open, so the number is above the limit.
        error if error.raw_os_error() == Some(libc::EBADF) => Err(io::Error::from_raw_os_error(libc::EMFILE)),
        error => Err(error),
    }
}

/// Takes ownership of an inherited descriptor, if it is a socket.
#[cfg(target_os = "linux")]
pub(crate) fn take_socket(number: i32) -> Option<OwnedFd> {
    use std::os::fd::FromRawFd as _;
    // SAFETY: a closed descriptor fails with EBADF and is not used.
    let borrowed = unsafe {
        if libc::fcntl(number, libc::F_GETFD) == -1 {
            return None;
        }
        BorrowedFd::borrow_raw(number)
    };
    rustix::net::sockopt::socket_type(borrowed).ok()?;
    // SAFETY: it is open, was inherited for this purpose, and nothing else in this process uses it.
    Some(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Raises the priority of this process, if permitted: among thousands of others it would be scheduled too
/// late.
#[cfg(target_os = "linux")]
pub(crate) fn raise_priority() {
    // SAFETY: an all-zero `sched_param` is valid; without permission the call changes nothing.
    unsafe {
        let mut first: libc::sched_param = std::mem::zeroed();
        first.sched_priority = 1;
        libc::sched_setscheduler(0, libc::SCHED_RR | libc::SCHED_RESET_ON_FORK, &raw const first);
    }
}

/// Returns the Landlock ABI version of the kernel; `None` without Landlock.
#[cfg(target_os = "linux")]
pub(crate) fn landlock_abi() -> Option<i32> {
    const VERSION: libc::c_uint = 1;
    // SAFETY: with this flag the call takes no structure and only returns the version.
    let abi = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<libc::c_void>(), 0, VERSION)
    };
    i32::try_from(abi).ok().filter(|abi| *abi > 0)
}

/// Applies a restriction in the child, before exec.
#[cfg(target_os = "linux")]
pub(crate) fn restrict_before_exec(command: &mut Command, restriction: crate::restrict::Restriction) {
    let mut restriction = Some(restriction);
    // SAFETY: only system calls, no allocation: the host may be multi-threaded.
    unsafe {
        command.pre_exec(move || restriction.take().map_or(Ok(()), crate::restrict::Restriction::apply));
    }
}

/// Filters the system calls of the child, before exec.
#[cfg(target_os = "linux")]
pub(crate) fn filter_before_exec(command: &mut Command, filter: crate::restrict::FilterPrograms) {
    let mut filter = Some(filter);
    // SAFETY: only system calls, no allocation: the host may be multi-threaded.
    unsafe {
        command.pre_exec(move || filter.take().map_or(Ok(()), crate::restrict::FilterPrograms::apply));
    }
}

#[cfg(target_os = "linux")]
fn load_filter(program: &[seccompiler::sock_filter], flags: libc::c_ulong) -> io::Result<libc::c_long> {
    rustix::thread::set_no_new_privs(true)?;
    let length = program.len().try_into().map_err(|_| io::Error::from_raw_os_error(libc::E2BIG))?;
    let program = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut().cast() };
    // SAFETY: both types have the kernel's layout; the kernel copies the program and does not change it.
    let result =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Filters the system calls of this process. Does not allocate.
#[cfg(target_os = "linux")]
pub(crate) fn install_filter(program: &[seccompiler::sock_filter]) -> io::Result<()> {
    load_filter(program, 0).map(drop)
}

/// Filters the system calls of this process and returns the listener of those that the program passes to a supervisor. A
/// call that the supervisor has received is only interrupted by a fatal signal. Does not allocate.
#[cfg(target_os = "linux")]
pub(crate) fn install_supervised_filter(program: &[seccompiler::sock_filter]) -> io::Result<OwnedFd> {
    use std::os::fd::FromRawFd as _;
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    let descriptor = load_filter(program, flags)?;
    // SAFETY: with this flag the call returns a new descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor as i32) })
}

/// Lets supervisor and caller take turns on one CPU, which is faster. Not known before Linux 6.6.
#[cfg(target_os = "linux")]
pub(crate) fn speed_up_supervisor(listener: BorrowedFd<'_>) {
    const SYNC_WAKE_UP: libc::c_ulong = 1;
    // SAFETY: the argument is a number; an unknown request changes nothing.
    unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS, SYNC_WAKE_UP) };
}

/// A system call that waits for a supervisor.
#[cfg(target_os = "linux")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct SupervisedCall {
    id: u64,
    /// The id of the calling thread.
    pub(crate) thread: u32,
    pub(crate) number: i64,
    pub(crate) arguments: [u64; 6],
}

/// What a supervisor answers.
#[cfg(target_os = "linux")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SupervisedResult {
    /// The call was made by the supervisor.
    Done,
    Failed(rustix::io::Errno),
    /// The kernel makes the call.
    Continue,
}

/// Receives the next supervised call; `None` if its thread was killed meanwhile.
#[cfg(target_os = "linux")]
pub(crate) fn receive_supervised_call(listener: BorrowedFd<'_>) -> io::Result<Option<SupervisedCall>> {
    // SAFETY: an all-zero structure is valid and required by the kernel, which fills it.
    let (result, call) = unsafe {
        let mut call: libc::seccomp_notif = std::mem::zeroed();
        (libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut call), call)
    };
    if result == 0 {
        let (number, arguments) = (i64::from(call.data.nr), call.data.args);
        return Ok(Some(SupervisedCall { id: call.id, thread: call.pid, number, arguments }));
    }
    match io::Error::last_os_error() {
        error if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINTR)) => Ok(None),
        error => Err(error),
    }
}

/// Returns whether the thread still waits for this call, so that its id has not been reused.
#[cfg(target_os = "linux")]
pub(crate) fn is_supervised_call_valid(listener: BorrowedFd<'_>, call: &SupervisedCall) -> bool {
    // SAFETY: the kernel reads one number.
    unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const call.id) == 0 }
}

/// Answers a supervised call. Errors are ignored: its thread was killed.
#[cfg(target_os = "linux")]
pub(crate) fn answer_supervised_call(
    listener: BorrowedFd<'_>,
    call: &SupervisedCall,
    result: SupervisedResult,
) {
    let (error, flags) = match result {
        SupervisedResult::Done => (0, 0),
        SupervisedResult::Failed(errno) => (-errno.raw_os_error(), 0),
        SupervisedResult::Continue => (0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32),
    };
    let mut response = libc::seccomp_notif_resp { id: call.id, val: 0, error, flags };
    // SAFETY: the structure has the kernel's layout and outlives the call.
    unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut response) };
}

/// Moves the calling process, which must have a single thread, into a user and a mount namespace of its own.
#[cfg(target_os = "linux")]
pub(crate) fn unshare_mounts() -> io::Result<()> {
    // SAFETY: takes plain flags; there is one thread, and none of the flags affects memory or descriptors.
    match unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Mounts an overlay with these options.
#[cfg(target_os = "linux")]
pub(crate) fn mount_overlay(target: &Path, options: &str) -> io::Result<()> {
    let string = |bytes: &[u8]| CString::new(bytes).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
    let (target, options) = (string(target.as_os_str().as_bytes())?, string(options.as_bytes())?);
    let flags = libc::MS_NOSUID | libc::MS_NODEV;
    let name = c"overlay".as_ptr();
    // SAFETY: all strings are NUL-terminated and outlive the call, which only reads them.
    match unsafe { libc::mount(name, target.as_ptr(), name, flags, options.as_ptr().cast()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Prepares a command for which std sets up only stdio and directory. The child starts a new session (hence
/// its own process group and no terminal) and executes `exec`. On Linux it dies with the *thread* that
/// spawned it, which is why a dedicated thread spawns.
pub(crate) fn exec_in_new_session(command: &mut Command, exec: Exec) {
    #[cfg(target_os = "linux")]
    let parent = std::process::id();
    // SAFETY: only async-signal-safe calls, no allocation: the host may be multi-threaded.
    unsafe {
        command.pre_exec(move || {
            reset_signals();
            close_all_but_stdio_on_exec();
            rustix::process::setsid()?;
            #[cfg(target_os = "linux")]
            {
                rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
                // The host may have died before the death signal was set.
                let now = rustix::process::getppid().map_or(0, |pid| pid.as_raw_pid() as u32);
                if now != parent {
                    return Err(io::Error::from_raw_os_error(libc::ESRCH));
                }
            }
            Err(exec.exec())
        });
    }
}
