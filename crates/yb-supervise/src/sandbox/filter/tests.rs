//! Evaluates the compiled programs as the kernel does, for every rule and without it.

use super::super::syscalls::RULES;
use super::super::{Network, SandboxKind};
use super::*;

/// The data that the kernel passes to a program.
struct Call {
    number: i64,
    arguments: [u64; 6],
}

const ARCH: u32 = if cfg!(target_arch = "x86_64") { 0xc000_003e } else { 0xc000_00b7 };
/// 32-bit x86.
const FOREIGN_ARCH: u32 = 0x4000_0003;

impl Call {
    fn word(&self, arch: u32, offset: u32) -> u32 {
        let mut data = (self.number as u32).to_le_bytes().to_vec();
        data.extend(arch.to_le_bytes());
        data.extend([0; 8]);
        self.arguments.iter().for_each(|argument| data.extend(argument.to_le_bytes()));
        let at = offset as usize;
        u32::from_le_bytes(data[at..at + 4].try_into().unwrap())
    }
}

/// Runs a program. Panics on an instruction that seccomp programs don't have.
fn evaluate(program: &[sock_filter], arch: u32, call: &Call) -> u32 {
    let (mut at, mut accumulator) = (0, 0u32);
    loop {
        let one = &program[at];
        at += 1;
        let mut jump = |taken: bool| at += usize::from(if taken { one.jt } else { one.jf });
        match u32::from(one.code) {
            0x20 => accumulator = call.word(arch, one.k),
            0x54 => accumulator &= one.k,
            0x05 => at += one.k as usize,
            0x15 => jump(accumulator == one.k),
            0x25 => jump(accumulator > one.k),
            0x35 => jump(accumulator >= one.k),
            0x06 => return one.k,
            code => panic!("unknown instruction {code:#x}"),
        }
    }
}

/// Returns the strictest result: the kernel compares the actions as signed numbers.
fn result(filter: &SyscallFilter, call: &Call) -> u32 {
    result_on(ARCH, filter, call)
}

fn result_on(arch: u32, filter: &SyscallFilter, call: &Call) -> u32 {
    let programs = filter.programs.iter().chain(&filter.supervised);
    let results = programs.map(|program| evaluate(&decode(program), arch, call));
    results.min_by_key(|result| (*result & 0xffff_0000) as i32).unwrap()
}

fn sandbox(kind: SandboxKind, network: Network) -> Sandbox {
    Sandbox::new().kind(kind).network(network)
}

fn expected(rule: &SyscallRule) -> u32 {
    match rule.action {
        RuleAction::Errno(errno) => libc::SECCOMP_RET_ERRNO | errno as u32,
        RuleAction::Supervise => libc::SECCOMP_RET_USER_NOTIF,
    }
}

/// Returns one call for each alternative of a rule, with garbage in the bits that the kernel ignores.
fn calls(rule: &SyscallRule) -> Vec<Call> {
    let alternatives = if rule.when.is_empty() { &[&[][..]] } else { rule.when };
    let call = |tests: &&[ArgTest]| {
        let mut arguments = [0u64; 6];
        for test in *tests {
            let argument = &mut arguments[usize::from(test.index)];
            match test.test {
                ArgOperator::Is(value) => *argument = u64::from(value),
                // Different from all values that the rules name.
                ArgOperator::IsNot(_) => *argument = 77,
                ArgOperator::Masked { value, .. } => *argument |= u64::from(value),
            }
            *argument |= 0xdead << 32;
        }
        Call { number: rule.number, arguments }
    };
    alternatives.iter().map(call).collect()
}

#[test]
fn every_rule_applies_and_the_call_is_allowed_without_it() {
    let sandboxes = [
        sandbox(SandboxKind::Landlock, Network::None),
        sandbox(SandboxKind::Landlock, Network::Shared),
        sandbox(SandboxKind::Bubblewrap, Network::None),
    ];
    let mut tested = std::collections::BTreeSet::new();
    for sandbox in sandboxes {
        let filter = SyscallFilter::new(&sandbox).unwrap();
        for rule in rules_for(&sandbox) {
            let without = SyscallFilter::new(&sandbox.clone().without_syscall_rule(rule.name)).unwrap();
            for call in calls(rule) {
                assert_eq!(result(&filter, &call), expected(rule), "{} {:?}", rule.name, call.arguments);
                assert_eq!(result(&without, &call), libc::SECCOMP_RET_ALLOW, "{}", rule.name);
            }
            tested.insert(rule.name);
        }
    }
    assert_eq!(tested.len(), RULES.len(), "names are unique, and every rule has a sandbox");
}

#[test]
fn usual_calls_are_allowed() {
    let filter = SyscallFilter::new(&sandbox(SandboxKind::Landlock, Network::None)).unwrap();
    let (inet, stream) = (libc::AF_INET as u64, (libc::SOCK_STREAM | libc::SOCK_CLOEXEC) as u64);
    for (number, arguments) in [
        (libc::SYS_read, [0; 6]),
        (libc::SYS_execve, [0; 6]),
        (libc::SYS_seccomp, [1, 0, 0, 0, 0, 0]),
        (libc::SYS_landlock_restrict_self, [0; 6]),
        (libc::SYS_prlimit64, [0; 6]),
        (libc::SYS_clone, [(libc::CLONE_VM | libc::SIGCHLD) as u64, 0, 0, 0, 0, 0]),
        (libc::SYS_unshare, [libc::CLONE_FILES as u64, 0, 0, 0, 0, 0]),
        (libc::SYS_socket, [inet, stream, 0, 0, 0, 0]),
        (libc::SYS_socket, [inet, stream, libc::IPPROTO_TCP as u64, 0, 0, 0]),
        (libc::SYS_socket, [libc::AF_UNIX as u64, libc::SOCK_DGRAM as u64, 0, 0, 0, 0]),
        (libc::SYS_socket, [libc::AF_NETLINK as u64, libc::SOCK_RAW as u64, 0, 0, 0, 0]),
        (libc::SYS_setpriority, [0; 6]),
        (libc::SYS_setpriority, [1, 0, 0, 0, 0, 0]),
        (libc::SYS_sched_setaffinity, [0; 6]),
        (libc::SYS_ioctl, [0, 0x5401, 0, 0, 0, 0]),
        (libc::SYS_sendto, [3, 0, 0, libc::MSG_NOSIGNAL as u64, 0, 0]),
    ] {
        let call = Call { number, arguments };
        assert_eq!(result(&filter, &call), libc::SECCOMP_RET_ALLOW, "{number} {arguments:?}");
    }
}

#[test]
fn datagrams_and_system_v_ipc_are_denied_only_where_no_namespace_covers_them() {
    let udp = Call { number: libc::SYS_socket, arguments: [2, 2, 0, 0, 0, 0] };
    let shared_memory = Call { number: libc::SYS_shmget, arguments: [0; 6] };
    for (kind, network, allowed) in [
        (SandboxKind::Bubblewrap, Network::None, (true, true)),
        (SandboxKind::Landlock, Network::Shared, (true, false)),
        (SandboxKind::Landlock, Network::None, (false, false)),
    ] {
        let filter = SyscallFilter::new(&sandbox(kind, network)).unwrap();
        let is_allowed = |call| result(&filter, call) == libc::SECCOMP_RET_ALLOW;
        assert_eq!((is_allowed(&udp), is_allowed(&shared_memory)), allowed, "{kind} {network:?}");
        assert_eq!(filter.supervised.is_some(), kind == SandboxKind::Landlock);
    }
}

#[test]
fn calls_of_another_architecture_end_the_process() {
    let filter = SyscallFilter::new(&sandbox(SandboxKind::Bubblewrap, Network::Shared)).unwrap();
    let call = Call { number: libc::SYS_read, arguments: [0; 6] };
    assert_eq!(result_on(FOREIGN_ARCH, &filter, &call), libc::SECCOMP_RET_KILL_PROCESS);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn x32_calls_fail() {
    let filter = SyscallFilter::new(&sandbox(SandboxKind::Bubblewrap, Network::Shared)).unwrap();
    let call = Call { number: libc::SYS_read | i64::from(X32_BIT), arguments: [0; 6] };
    assert_eq!(result(&filter, &call), libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32);
}
