//! The table of system calls that a sandboxed child may not make, or only under supervision.
//!
//! Each rule has a test that fails without it: `tests/it/syscalls.rs` makes the calls below the filter and with the rule
//! removed, and the tests of `filter.rs` evaluate the compiled programs.

use libc::{EAFNOSUPPORT, ENOSYS, EPERM, EPROTONOSUPPORT};

use super::{Network, Sandbox, SandboxKind};

/// A rule about one system call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SyscallRule {
    /// The system call, with a suffix if the rule is about some arguments only. Unique.
    pub(crate) name: &'static str,
    pub(crate) number: i64,
    /// The rule applies if all tests of one of these lists are true; always if there are no lists.
    pub(crate) when: &'static [&'static [ArgTest]],
    pub(crate) action: RuleAction,
    scope: RuleScope,
}

/// A test of one argument, of which the kernel reads the low 32 bits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ArgTest {
    pub(crate) index: u8,
    pub(crate) test: ArgOperator,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum ArgOperator {
    Is(u32),
    IsNot(u32),
    /// Whether the bits of the mask have this value.
    Masked {
        mask: u32,
        value: u32,
    },
}

/// What happens to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RuleAction {
    /// It fails with this error.
    Errno(i32),
    /// The shim makes it instead, or refuses it.
    Supervise,
}

/// The sandboxes that need a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RuleScope {
    All,
    /// Bubblewrap has a namespace for it.
    Landlock,
    /// Landlock with a restricted network: its own rules are about TCP only.
    LandlockNetwork,
}

/// Returns the rules that apply to a sandbox.
pub(crate) fn rules_for(sandbox: &Sandbox) -> impl Iterator<Item = &'static SyscallRule> {
    let is_landlock = sandbox.kind == SandboxKind::Landlock;
    let is_restricted = sandbox.network != Network::Shared;
    let without = sandbox.without_rule;
    let is_nested = sandbox.nested && !is_landlock;
    RULES.iter().filter(move |rule| {
        let applies = match rule.scope {
            RuleScope::All => true,
            RuleScope::Landlock => is_landlock,
            RuleScope::LandlockNetwork => is_landlock && is_restricted,
        };
        applies && without != Some(rule.name) && !(is_nested && NESTED_SANDBOX.contains(&rule.name))
    })
}

/// Rules that keep a child from making a sandbox of its own.
const NESTED_SANDBOX: [&str; 5] = ["unshare", "clone", "mount", "umount2", "pivot_root"];

/// Calls that have no name in the libc crate on some target.
mod number {
    pub(super) const FCHMODAT2: i64 = 452;
    pub(super) const SETXATTRAT: i64 = 463;
    pub(super) const REMOVEXATTRAT: i64 = 466;
    pub(super) const OPEN_TREE_ATTR: i64 = 467;
    pub(super) const FILE_SETATTR: i64 = 469;
    #[cfg(target_arch = "x86_64")]
    pub(super) const KEXEC_FILE_LOAD: i64 = 320;
    #[cfg(target_arch = "aarch64")]
    pub(super) const KEXEC_FILE_LOAD: i64 = 294;
}

const fn deny(name: &'static str, number: i64) -> SyscallRule {
    SyscallRule { name, number, when: &[], action: RuleAction::Errno(EPERM), scope: RuleScope::All }
}

const fn supervise(name: &'static str, number: i64) -> SyscallRule {
    SyscallRule { name, number, when: &[], action: RuleAction::Supervise, scope: RuleScope::Landlock }
}

impl SyscallRule {
    const fn when(mut self, when: &'static [&'static [ArgTest]]) -> Self {
        self.when = when;
        self
    }

    const fn errno(mut self, errno: i32) -> Self {
        self.action = RuleAction::Errno(errno);
        self
    }

    const fn scope(mut self, scope: RuleScope) -> Self {
        self.scope = scope;
        self
    }
}

const fn is(index: u8, value: u32) -> ArgTest {
    ArgTest { index, test: ArgOperator::Is(value) }
}

const fn is_not(index: u8, value: u32) -> ArgTest {
    ArgTest { index, test: ArgOperator::IsNot(value) }
}

const fn has_bit(index: u8, bit: u32) -> ArgTest {
    ArgTest { index, test: ArgOperator::Masked { mask: bit, value: bit } }
}

/// The type of a new socket, which shares its argument with flags.
const fn socket_type(value: u32) -> ArgTest {
    ArgTest { index: 1, test: ArgOperator::Masked { mask: 0xf, value } }
}

const INET: u32 = libc::AF_INET as u32;
const INET6: u32 = libc::AF_INET6 as u32;
const NETLINK: u32 = libc::AF_NETLINK as u32;
const STREAM: u32 = libc::SOCK_STREAM as u32;
const TCP: u32 = libc::IPPROTO_TCP as u32;
const FAST_OPEN: u32 = libc::MSG_FASTOPEN as u32;

/// Flags that create a namespace. In `clone` the low byte is a signal, so a time namespace needs `clone3`.
const NEW_NAMESPACE: &[&[ArgTest]] = &[
    &[has_bit(0, libc::CLONE_NEWNS as u32)],
    &[has_bit(0, libc::CLONE_NEWCGROUP as u32)],
    &[has_bit(0, libc::CLONE_NEWUTS as u32)],
    &[has_bit(0, libc::CLONE_NEWIPC as u32)],
    &[has_bit(0, libc::CLONE_NEWUSER as u32)],
    &[has_bit(0, libc::CLONE_NEWPID as u32)],
    &[has_bit(0, libc::CLONE_NEWNET as u32)],
];

/// Sockets that send to the network without a TCP connection.
const DATAGRAM: &[&[ArgTest]] = &[
    &[is(0, INET), socket_type(libc::SOCK_DGRAM as u32)],
    &[is(0, INET), socket_type(libc::SOCK_RAW as u32)],
    &[is(0, INET), socket_type(libc::SOCK_SEQPACKET as u32)],
    &[is(0, INET), socket_type(libc::SOCK_DCCP as u32)],
    &[is(0, INET6), socket_type(libc::SOCK_DGRAM as u32)],
    &[is(0, INET6), socket_type(libc::SOCK_RAW as u32)],
    &[is(0, INET6), socket_type(libc::SOCK_SEQPACKET as u32)],
    &[is(0, INET6), socket_type(libc::SOCK_DCCP as u32)],
];

/// Every ioctl that changes attributes of a file and needs no write access to it, by its low 32 bits.
const SET_FILE_FLAGS: &[&[ArgTest]] = &[
    // FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR, FS_IOC_ENABLE_VERITY.
    &[is(1, 0x4008_6602)],
    &[is(1, 0x401c_5820)],
    &[is(1, 0x4080_6685)],
];

/// The rules.
pub(crate) static RULES: &[SyscallRule] = &[
    // Other processes: their memory, descriptors and limits.
    deny("ptrace", libc::SYS_ptrace),
    deny("process_vm_readv", libc::SYS_process_vm_readv),
    deny("process_vm_writev", libc::SYS_process_vm_writev),
    deny("process_madvise", libc::SYS_process_madvise),
    deny("pidfd_getfd", libc::SYS_pidfd_getfd),
    deny("kcmp", libc::SYS_kcmp),
    deny("prlimit64", libc::SYS_prlimit64).when(&[&[is_not(0, 0)]]),
    // Keyrings outlive a trial.
    deny("keyctl", libc::SYS_keyctl),
    deny("add_key", libc::SYS_add_key),
    deny("request_key", libc::SYS_request_key),
    // Parts of the kernel with a large attack surface; programs fall back from io_uring.
    deny("io_uring_setup", libc::SYS_io_uring_setup).errno(ENOSYS),
    deny("io_uring_enter", libc::SYS_io_uring_enter).errno(ENOSYS),
    deny("io_uring_register", libc::SYS_io_uring_register).errno(ENOSYS),
    deny("perf_event_open", libc::SYS_perf_event_open),
    deny("bpf", libc::SYS_bpf),
    deny("userfaultfd", libc::SYS_userfaultfd),
    // Namespaces, in which a process has capabilities. The flags of `clone3` are in memory; libraries fall back to
    // `clone`.
    deny("unshare", libc::SYS_unshare).when(NEW_NAMESPACE),
    deny("unshare:time", libc::SYS_unshare).when(&[&[has_bit(0, 0x80)]]),
    deny("setns", libc::SYS_setns),
    deny("clone", libc::SYS_clone).when(NEW_NAMESPACE),
    deny("clone3", libc::SYS_clone3).errno(ENOSYS),
    // Mounts.
    deny("mount", libc::SYS_mount),
    deny("umount2", libc::SYS_umount2),
    deny("pivot_root", libc::SYS_pivot_root),
    deny("chroot", libc::SYS_chroot),
    deny("open_tree", libc::SYS_open_tree),
    deny("open_tree_attr", number::OPEN_TREE_ATTR),
    deny("move_mount", libc::SYS_move_mount),
    deny("fsopen", libc::SYS_fsopen),
    deny("fspick", libc::SYS_fspick),
    deny("fsconfig", libc::SYS_fsconfig),
    deny("fsmount", libc::SYS_fsmount),
    deny("mount_setattr", libc::SYS_mount_setattr),
    deny("open_by_handle_at", libc::SYS_open_by_handle_at),
    // The machine.
    deny("acct", libc::SYS_acct),
    deny("clock_settime", libc::SYS_clock_settime),
    deny("delete_module", libc::SYS_delete_module),
    deny("finit_module", libc::SYS_finit_module),
    deny("init_module", libc::SYS_init_module),
    #[cfg(target_arch = "x86_64")]
    deny("ioperm", libc::SYS_ioperm),
    #[cfg(target_arch = "x86_64")]
    deny("iopl", libc::SYS_iopl),
    deny("kexec_file_load", number::KEXEC_FILE_LOAD),
    deny("kexec_load", libc::SYS_kexec_load),
    deny("quotactl", libc::SYS_quotactl),
    deny("quotactl_fd", libc::SYS_quotactl_fd),
    deny("reboot", libc::SYS_reboot),
    deny("setdomainname", libc::SYS_setdomainname),
    deny("sethostname", libc::SYS_sethostname),
    deny("settimeofday", libc::SYS_settimeofday),
    deny("swapoff", libc::SYS_swapoff),
    deny("swapon", libc::SYS_swapon),
    deny("syslog", libc::SYS_syslog),
    // Input into a terminal.
    deny("ioctl:terminal", libc::SYS_ioctl)
        .when(&[&[is(1, libc::TIOCSTI as u32)], &[is(1, libc::TIOCLINUX as u32)]]),
    // EXT4_IOC_MOVE_EXT exchanges the blocks of two files without changing their times, which captures rely on.
    deny("ioctl:move-extents", libc::SYS_ioctl).when(&[&[is(1, 0xc028_660f)]]),
    // Socket families other than Unix, IPv4, IPv6 and netlink, of which name resolution needs the routes.
    deny("socket:family", libc::SYS_socket).errno(EAFNOSUPPORT).when(&[&[
        is_not(0, libc::AF_UNIX as u32),
        is_not(0, INET),
        is_not(0, INET6),
        is_not(0, NETLINK),
    ]]),
    deny("socket:netlink", libc::SYS_socket).errno(EPROTONOSUPPORT).when(&[&[is(0, NETLINK), is_not(2, 0)]]),
    // Streams other than TCP, such as MPTCP, which Landlock does not restrict.
    deny("socket:protocol", libc::SYS_socket).errno(EPROTONOSUPPORT).when(&[
        &[is(0, INET), socket_type(STREAM), is_not(2, 0), is_not(2, TCP)],
        &[is(0, INET6), socket_type(STREAM), is_not(2, 0), is_not(2, TCP)],
    ]),
    deny("socket:datagram", libc::SYS_socket).when(DATAGRAM).scope(RuleScope::LandlockNetwork),
    // A connection without `connect`.
    deny("sendto:fast-open", libc::SYS_sendto)
        .when(&[&[has_bit(3, FAST_OPEN)]])
        .scope(RuleScope::LandlockNetwork),
    deny("sendmsg:fast-open", libc::SYS_sendmsg)
        .when(&[&[has_bit(2, FAST_OPEN)]])
        .scope(RuleScope::LandlockNetwork),
    deny("sendmmsg:fast-open", libc::SYS_sendmmsg)
        .when(&[&[has_bit(3, FAST_OPEN)]])
        .scope(RuleScope::LandlockNetwork),
    // System V and POSIX IPC, which outlives a trial.
    deny("shmget", libc::SYS_shmget).errno(ENOSYS).scope(RuleScope::Landlock),
    deny("shmat", libc::SYS_shmat).errno(ENOSYS).scope(RuleScope::Landlock),
    deny("shmctl", libc::SYS_shmctl).errno(ENOSYS).scope(RuleScope::Landlock),
    deny("semget", libc::SYS_semget).errno(ENOSYS).scope(RuleScope::Landlock),
    deny("semop", libc::SYS_semop).errno(ENOSYS).scope(RuleScope::Landlock),
    deny("semtimedop", libc::SYS_semtimedop).errno(ENOSYS).scope(RuleScope::Landlock),
    deny("semctl", libc::SYS_semctl).errno(ENOSYS).scope(RuleScope::Landlock),
    deny("msgget", libc::SYS_msgget).errno(ENOSYS).scope(RuleScope::Landlock),
    deny("msgsnd", libc::SYS_msgsnd).errno(ENOSYS).scope(RuleScope::Landlock),
    deny("msgrcv", libc::SYS_msgrcv).errno(ENOSYS).scope(RuleScope::Landlock),
    deny("msgctl", libc::SYS_msgctl).errno(ENOSYS).scope(RuleScope::Landlock),
    deny("mq_open", libc::SYS_mq_open).errno(ENOSYS).scope(RuleScope::Landlock),
    deny("mq_unlink", libc::SYS_mq_unlink).errno(ENOSYS).scope(RuleScope::Landlock),
    // Attributes of files: Landlock restricts opening only. Programs fall back from the new calls.
    deny("ioctl:file-flags", libc::SYS_ioctl).when(SET_FILE_FLAGS).scope(RuleScope::Landlock),
    deny("setxattrat", number::SETXATTRAT).errno(ENOSYS).scope(RuleScope::Landlock),
    deny("removexattrat", number::REMOVEXATTRAT).errno(ENOSYS).scope(RuleScope::Landlock),
    deny("file_setattr", number::FILE_SETATTR).errno(ENOSYS).scope(RuleScope::Landlock),
    #[cfg(target_arch = "x86_64")]
    supervise("chmod", libc::SYS_chmod),
    supervise("fchmod", libc::SYS_fchmod),
    supervise("fchmodat", libc::SYS_fchmodat),
    supervise("fchmodat2", number::FCHMODAT2),
    #[cfg(target_arch = "x86_64")]
    supervise("chown", libc::SYS_chown),
    #[cfg(target_arch = "x86_64")]
    supervise("lchown", libc::SYS_lchown),
    supervise("fchown", libc::SYS_fchown),
    supervise("fchownat", libc::SYS_fchownat),
    #[cfg(target_arch = "x86_64")]
    supervise("utime", libc::SYS_utime),
    #[cfg(target_arch = "x86_64")]
    supervise("utimes", libc::SYS_utimes),
    #[cfg(target_arch = "x86_64")]
    supervise("futimesat", libc::SYS_futimesat),
    supervise("utimensat", libc::SYS_utimensat),
    supervise("setxattr", libc::SYS_setxattr),
    supervise("lsetxattr", libc::SYS_lsetxattr),
    supervise("fsetxattr", libc::SYS_fsetxattr),
    supervise("removexattr", libc::SYS_removexattr),
    supervise("lremovexattr", libc::SYS_lremovexattr),
    supervise("fremovexattr", libc::SYS_fremovexattr),
    // Priorities of other processes. Libraries set those of their own threads by id.
    supervise("sched_setaffinity", libc::SYS_sched_setaffinity).when(&[&[is_not(0, 0)]]),
    supervise("sched_setscheduler", libc::SYS_sched_setscheduler).when(&[&[is_not(0, 0)]]),
    supervise("sched_setparam", libc::SYS_sched_setparam).when(&[&[is_not(0, 0)]]),
    supervise("sched_setattr", libc::SYS_sched_setattr).when(&[&[is_not(0, 0)]]),
    supervise("setpriority", libc::SYS_setpriority).when(&[&[is(0, 0), is_not(1, 0)]]),
    supervise("ioprio_set", libc::SYS_ioprio_set).when(&[&[is(0, 1), is_not(1, 0)]]),
    // Of groups and users.
    deny("setpriority:group", libc::SYS_setpriority)
        .when(&[&[is_not(0, 0), is_not(1, 0)], &[is(0, 2)]])
        .scope(RuleScope::Landlock),
    deny("ioprio_set:group", libc::SYS_ioprio_set)
        .when(&[&[is_not(0, 1), is_not(1, 0)], &[is(0, 3)]])
        .scope(RuleScope::Landlock),
];
