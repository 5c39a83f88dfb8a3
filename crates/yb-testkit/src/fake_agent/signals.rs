//! Signal dispositions: the only module of this crate with `unsafe`, because there is no safe wrapper.
#![expect(unsafe_code, reason = "signal, sigwait and alarm have no safe wrapper, and this is a test program")]

use rustix::process::Signal;
use serde::Deserialize;

/// A signal by name, with or without `SIG`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct SignalName(pub(crate) Signal);

impl TryFrom<String> for SignalName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let upper = name.to_uppercase();
        let signal = match upper.strip_prefix("SIG").unwrap_or(&upper) {
            "HUP" => Signal::HUP,
            "INT" => Signal::INT,
            "QUIT" => Signal::QUIT,
            "ILL" => Signal::ILL,
            "ABRT" => Signal::ABORT,
            "BUS" => Signal::BUS,
            "FPE" => Signal::FPE,
            "KILL" => Signal::KILL,
            "USR1" => Signal::USR1,
            "SEGV" => Signal::SEGV,
            "USR2" => Signal::USR2,
            "PIPE" => Signal::PIPE,
            "ALRM" => Signal::ALARM,
            "TERM" => Signal::TERM,
            "CONT" => Signal::CONT,
            "STOP" => Signal::STOP,
            "TSTP" => Signal::TSTP,
            "TTIN" => Signal::TTIN,
            "TTOU" => Signal::TTOU,
            "XCPU" => Signal::XCPU,
            _ => return Err(format!("unknown signal: {name}")),
        };
        Ok(Self(signal))
    }
}

/// Ignores a signal. Inherited through exec.
pub(crate) fn ignore(signal: Signal) {
    // SAFETY: SIG_IGN is a valid disposition and runs no code.
    unsafe { libc::signal(signal.as_raw(), libc::SIG_IGN) };
}

/// Restores the default disposition of a signal and unblocks it.
pub(crate) fn restore(signal: Signal) {
    // SAFETY: SIG_DFL is a valid disposition and runs no code.
    unsafe { libc::signal(signal.as_raw(), libc::SIG_DFL) };
    mask(&[signal], libc::SIG_UNBLOCK);
}

/// Blocks signals in this thread and its future threads, so that [`wait_for`] receives them.
pub(crate) fn block(signals: &[Signal]) {
    mask(signals, libc::SIG_BLOCK);
}

/// Waits for one of the signals, which must be blocked.
pub(crate) fn wait_for(signals: &[Signal]) -> Option<Signal> {
    let set = set_of(signals);
    let mut arrived = 0;
    // SAFETY: both pointers refer to live locals of the right type.
    let failed = unsafe { libc::sigwait(&raw const set, &raw mut arrived) };
    if failed == 0 { Signal::from_named_raw(arrived) } else { None }
}

/// Makes the kernel kill this process after some seconds (SIGALRM).
pub(crate) fn set_alarm(seconds: u32) {
    restore(Signal::ALARM);
    // SAFETY: `alarm` has no preconditions.
    unsafe { libc::alarm(seconds.max(1)) };
}

fn mask(signals: &[Signal], how: i32) {
    let set = set_of(signals);
    // SAFETY: the set is initialized, and a null old set is allowed.
    unsafe { libc::pthread_sigmask(how, &raw const set, std::ptr::null_mut()) };
}

fn set_of(signals: &[Signal]) -> libc::sigset_t {
    let mut set = std::mem::MaybeUninit::uninit();
    // SAFETY: `sigemptyset` initializes the set before it is read.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), signal.as_raw());
        }
        set.assume_init()
    }
}
