//! Compiles the rules about system calls to seccomp programs.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, sock_filter,
};

use super::Sandbox;
use super::syscalls::{ArgOperator, ArgTest, RuleAction, SyscallRule, rules_for};

/// Seccomp programs in the kernel's format. The kernel runs all of them and applies the strictest result.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SyscallFilter {
    /// Programs that allow a call or let it fail.
    pub(crate) programs: Vec<Vec<u8>>,
    /// The program that passes calls to the shim.
    pub(crate) supervised: Option<Vec<u8>>,
}

/// `compiler` has no action for a supervised call; this one has its place until the program is compiled.
const PLACEHOLDER: SeccompAction = SeccompAction::Trace(0x5942);
/// The bit of calls of the x32 ABI, which have other numbers on the same architecture.
#[cfg(target_arch = "x86_64")]
const X32_BIT: u32 = 0x4000_0000;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
const INSTRUCTION_SIZE: usize = 8;

impl SyscallFilter {
    /// Compiles the rules that apply to a sandbox. A call of another architecture ends the process.
    pub(crate) fn new(sandbox: &Sandbox) -> io::Result<Self> {
        let mut by_action: BTreeMap<RuleAction, Vec<&SyscallRule>> = BTreeMap::new();
        for rule in rules_for(sandbox) {
            by_action.entry(rule.action).or_default().push(rule);
        }
        let mut filter = Self::default();
        #[cfg(target_arch = "x86_64")]
        filter.programs.push(encode(&x32_program()));
        for (action, rules) in by_action {
            let program = compile(action, &rules).map_err(io::Error::other)?;
            match action {
                RuleAction::Errno(_) => filter.programs.push(encode(&program)),
                RuleAction::Supervise => filter.supervised = Some(encode(&program)),
            }
        }
        Ok(filter)
    }
}

fn compile(action: RuleAction, rules: &[&SyscallRule]) -> Result<BpfProgram, seccompiler::BackendError> {
    let mut chains: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for rule in rules {
        let chain = chains.entry(rule.number).or_default();
        for tests in rule.when {
            let conditions = tests.iter().map(condition).collect::<Result<_, _>>()?;
            chain.push(SeccompRule::new(conditions)?);
        }
    }
    let matched = match action {
        RuleAction::Errno(errno) => SeccompAction::Errno(errno as u32),
        RuleAction::Supervise => PLACEHOLDER,
    };
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let mut program: BpfProgram =
        SeccompFilter::new(chains, SeccompAction::Allow, matched, arch)?.try_into()?;
    let placeholder = u32::from(PLACEHOLDER);
    for instruction in program.iter_mut().filter(|instruction| instruction.code == RETURN) {
        if instruction.k == placeholder {
            instruction.k = libc::SECCOMP_RET_USER_NOTIF;
        }
    }
    Ok(program)
}

fn condition(test: &ArgTest) -> Result<SeccompCondition, seccompiler::BackendError> {
    let (operator, value) = match test.test {
        ArgOperator::Is(value) => (SeccompCmpOp::Eq, value),
        ArgOperator::IsNot(value) => (SeccompCmpOp::Ne, value),
        ArgOperator::Masked { mask, value } => (SeccompCmpOp::MaskedEq(u64::from(mask)), value),
    };
    SeccompCondition::new(test.index, SeccompCmpArgLen::Dword, operator, u64::from(value))
}

/// Refuses the x32 ABI, whose calls the rules don't match.
#[cfg(target_arch = "x86_64")]
fn x32_program() -> BpfProgram {
    let statement = |code: u32, k: u32| sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let is_x32 = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
    vec![
        // The number of the call is the first field.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        sock_filter { code: is_x32 as u16, jt: 0, jf: 1, k: X32_BIT },
        statement(u32::from(RETURN), libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
        statement(u32::from(RETURN), libc::SECCOMP_RET_ALLOW),
    ]
}

/// Encodes a program as an array of the kernel's `sock_filter`.
fn encode(program: &[sock_filter]) -> Vec<u8> {
    let instruction = |one: &sock_filter| {
        let ([a, b], [c, d, e, f]) = (one.code.to_ne_bytes(), one.k.to_ne_bytes());
        [a, b, one.jt, one.jf, c, d, e, f]
    };
    program.iter().flat_map(instruction).collect()
}

/// Decodes a program.
pub(crate) fn decode(bytes: &[u8]) -> BpfProgram {
    let instruction = |bytes: &[u8; INSTRUCTION_SIZE]| {
        let [a, b, jt, jf, c, d, e, f] = *bytes;
        sock_filter { code: u16::from_ne_bytes([a, b]), jt, jf, k: u32::from_ne_bytes([c, d, e, f]) }
    };
    bytes.as_chunks::<INSTRUCTION_SIZE>().0.iter().map(instruction).collect()
}

#[cfg(test)]
mod tests;
