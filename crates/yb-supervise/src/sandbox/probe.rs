//! Probes whether sandboxes work on this machine, by starting a child in one.

#[cfg(target_os = "linux")]
use std::path::PathBuf;
use std::sync::OnceLock;

use super::SandboxKind;

/// Why a sandbox is not available.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
#[non_exhaustive]
pub struct SandboxUnavailable {
    /// What is missing or failed.
    pub reason: String,
    /// How to fix it.
    pub fix: String,
}

impl SandboxUnavailable {
    /// Creates the error from a reason and a fix.
    pub fn new(reason: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { reason: reason.into(), fix: fix.into() }
    }
}

pub(super) fn probe(kind: SandboxKind) -> Result<(), SandboxUnavailable> {
    static BUBBLEWRAP: OnceLock<Result<(), SandboxUnavailable>> = OnceLock::new();
    static LANDLOCK: OnceLock<Result<(), SandboxUnavailable>> = OnceLock::new();
    match kind {
        SandboxKind::Bubblewrap => BUBBLEWRAP.get_or_init(platform::bubblewrap).clone(),
        SandboxKind::Landlock => LANDLOCK.get_or_init(platform::landlock).clone(),
        #[cfg(target_os = "macos")]
        SandboxKind::SandboxExec => match std::path::Path::new(super::SANDBOX_EXEC).is_file() {
            true => Ok(()),
            false => Err(missing()),
        },
    }
}

pub(super) fn syscall_filter(kind: SandboxKind) -> Result<(), SandboxUnavailable> {
    static BUBBLEWRAP: OnceLock<Result<(), SandboxUnavailable>> = OnceLock::new();
    static LANDLOCK: OnceLock<Result<(), SandboxUnavailable>> = OnceLock::new();
    let cached = match kind {
        SandboxKind::Bubblewrap => &BUBBLEWRAP,
        SandboxKind::Landlock => &LANDLOCK,
        #[cfg(target_os = "macos")]
        SandboxKind::SandboxExec => return Err(missing()),
    };
    cached.get_or_init(|| platform::syscall_filter(kind)).clone()
}

/// Landlock restricts TCP since Linux 6.7.
pub(super) fn landlock_network() -> Result<(), SandboxUnavailable> {
    #[cfg(target_os = "linux")]
    if crate::sys::landlock_abi().is_some_and(|abi| abi >= crate::restrict::NETWORK_ABI) {
        return Ok(());
    }
    Err(SandboxUnavailable::new(
        "Landlock ABI of the kernel can't restrict the network",
        "use Linux 6.7 or newer",
    ))
}

/// Returns the path of `bwrap`. The lookup is cached.
#[cfg(target_os = "linux")]
pub(crate) fn bubblewrap() -> Result<PathBuf, SandboxUnavailable> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || crate::find_program("bwrap", std::env::var_os("PATH")?);
    FOUND.get_or_init(find).clone().ok_or_else(missing)
}

/// Forgets that sandboxes work: one could not be set up.
#[cfg(target_os = "linux")]
pub(crate) fn forget() {
    platform::forget();
}

fn missing() -> SandboxUnavailable {
    if cfg!(target_os = "linux") {
        let fix = "install the `bubblewrap` package, e.g. `apt-get install bubblewrap`";
        SandboxUnavailable::new("`bwrap` not found", fix)
    } else {
        SandboxUnavailable::new("no sandbox is implemented for this operating system", "use Linux")
    }
}

#[cfg(not(target_os = "linux"))]
mod platform {
    pub(super) fn bubblewrap() -> Result<(), super::SandboxUnavailable> {
        Err(super::missing())
    }

    pub(super) fn landlock() -> Result<(), super::SandboxUnavailable> {
        Err(super::missing())
    }

    pub(super) fn syscall_filter(_: super::SandboxKind) -> Result<(), super::SandboxUnavailable> {
        Err(super::missing())
    }
}

#[cfg(target_os = "linux")]
mod platform {
    use std::ffi::OsString;
    use std::fs;
    use std::io;
    use std::path::Path;
    use std::process::{Command, Output, Stdio};
    use std::time::{Duration, Instant};

    use super::super::{BwrapParent, Sandbox, SandboxKind, SyscallFilter, bwrap_args, rules};
    use super::{SandboxUnavailable, bubblewrap as find};
    use crate::facts::{forget_fact, kernel_identity, program_identity, recall_fact, remember_fact};
    use crate::restrict::{FilterPrograms, MIN_ABI, Restriction};
    use crate::sys;

    /// The facts that are kept between processes.
    const BUBBLEWRAP_FACT: &str = "bubblewrap";
    const FILTER_FACT: &str = "syscall-filter";

    /// Timeout of the probe, which normally takes milliseconds.
    const LIMIT: Duration = Duration::from_secs(10);

    pub(super) fn forget() {
        forget_fact(BUBBLEWRAP_FACT);
        forget_fact(FILTER_FACT);
    }

    pub(super) fn bubblewrap() -> Result<(), SandboxUnavailable> {
        let bwrap = find()?;
        remembered(BUBBLEWRAP_FACT, program_identity(&bwrap), || try_bubblewrap(&bwrap))
    }

    /// Returns the result of an earlier process, if it succeeded and nothing has changed that it depends on.
    fn remembered(
        fact: &str,
        program: Option<String>,
        probe: impl FnOnce() -> Result<(), SandboxUnavailable>,
    ) -> Result<(), SandboxUnavailable> {
        let key = program.map(|program| format!("{program}\n{}", kernel_identity()));
        if key.as_ref().is_some_and(|key| recall_fact(fact, key).is_some()) {
            return Ok(());
        }
        probe()?;
        if let Some(key) = key {
            remember_fact(fact, &key, "works");
        }
        Ok(())
    }

    fn try_bubblewrap(bwrap: &Path) -> Result<(), SandboxUnavailable> {
        let broken = |reason: String| SandboxUnavailable::new(reason, "see `yb doctor`, or `bwrap --help`");
        let program = Path::new("/bin/sh");
        let args = ["-c", "exit 0"].map(OsString::from);
        let sandbox = Sandbox::new().writable_as(std::env::temp_dir(), "/tmp");
        let argv = bwrap_args(&sandbox, program, &args, Path::new("/tmp"), None, BwrapParent::Host)
            .map_err(|error| broken(error.to_string()))?;
        let mut command = Command::new(bwrap);
        let output =
            run(command.args(&argv)).map_err(|error| broken(format!("`{}`: {error}", bwrap.display())))?;
        if output.status.success() {
            return Ok(());
        }
        let message = String::from_utf8_lossy(&output.stderr);
        let message = message.lines().next().unwrap_or("no error message").to_owned();
        Err(SandboxUnavailable::new(format!("`bwrap` failed: {message}"), fix(&message)))
    }

    /// Starts a child that may read the system only and tries to read another file.
    pub(super) fn landlock() -> Result<(), SandboxUnavailable> {
        const FIX: &str = "use Linux 6.2 or newer";
        let Some(abi) = sys::landlock_abi() else {
            let fix = "use Linux 6.2 or newer with `landlock` in the kernel's `lsm=` list; in a container, use a seccomp profile that allows it";
            return Err(SandboxUnavailable::new(
                "Landlock is not available or not enabled in the kernel",
                fix,
            ));
        };
        if abi < MIN_ABI {
            let reason = format!("Landlock ABI version is too old: {abi} (minimum {MIN_ABI})");
            return Err(SandboxUnavailable::new(reason, FIX));
        }
        let broken =
            |error: &dyn std::fmt::Display| SandboxUnavailable::new(format!("Landlock failed: {error}"), FIX);
        let own = std::env::temp_dir().join(crate::plan::unique_id());
        let script = [OsString::from("-c"), "! (: < \"$0\")".into(), own.clone().into()];
        let attempt = || -> io::Result<Output> {
            fs::write(&own, "")?;
            let mut rules = rules(&Sandbox::new(), Path::new("/bin/sh"), Path::new("/usr"), None)
                .map_err(io::Error::other)?;
            // Its probe is separate, and nothing here answers supervised calls.
            rules.filter = None;
            let mut command = Command::new("/bin/sh");
            let (restriction, _listener) = Restriction::prepare(&rules)?;
            sys::restrict_before_exec(&mut command, restriction);
            run(command.args(&script))
        };
        let output = attempt();
        let _ = fs::remove_file(&own);
        match output {
            Ok(output) if output.status.success() => Ok(()),
            Ok(_) => Err(broken(&"a read that should be denied succeeded")),
            Err(error) => Err(broken(&error)),
        }
    }

    /// Starts a child below the filter. For Landlock the shim must also be able to read the memory of the child.
    pub(super) fn syscall_filter(kind: SandboxKind) -> Result<(), SandboxUnavailable> {
        if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
            return Err(SandboxUnavailable::new(
                format!("no system calls are known for the architecture `{}`", std::env::consts::ARCH),
                "use x86_64 or aarch64",
            ));
        }
        let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
        if kind == SandboxKind::Landlock && matches!(scope.trim(), "2" | "3") {
            return Err(SandboxUnavailable::new(
                "the kernel does not let a process read the memory of its descendants",
                "set `sysctl -w kernel.yama.ptrace_scope=1`, or use bubblewrap",
            ));
        }
        let shell = Path::new("/bin/sh");
        let identity = program_identity(shell).map(|shell| format!("{shell} {kind}"));
        remembered(FILTER_FACT, identity, || try_syscall_filter(kind, shell))
    }

    fn try_syscall_filter(kind: SandboxKind, shell: &Path) -> Result<(), SandboxUnavailable> {
        let attempt = || -> io::Result<Output> {
            let filter = SyscallFilter::new(&Sandbox::new().kind(kind))?;
            let (filter, _listener) = FilterPrograms::prepare(&filter)?;
            let mut command = Command::new(shell);
            sys::filter_before_exec(&mut command, filter);
            run(command.args(["-c", "exit 0"]))
        };
        let reason = match attempt() {
            Ok(output) if output.status.success() => return Ok(()),
            Ok(output) => format!("a shell below a seccomp filter failed: {}", output.status),
            Err(error) => format!("seccomp failed: {error}"),
        };
        Err(SandboxUnavailable::new(
            reason,
            "use Linux with seccomp; in a container, use a seccomp profile that allows it",
        ))
    }

    #[expect(clippy::disallowed_methods, reason = "the probe is short-lived and is waited for")]
    fn run(command: &mut Command) -> io::Result<Output> {
        command.env_clear().current_dir("/").stdin(Stdio::null()).stdout(Stdio::null());
        let mut child = command.stderr(Stdio::piped()).spawn()?;
        let limit = Instant::now() + LIMIT;
        while child.try_wait()?.is_none() {
            if Instant::now() > limit {
                child.kill()?;
                child.wait()?;
                return Err(io::ErrorKind::TimedOut.into());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        child.wait_with_output()
    }

    /// Returns a fix for the setting that prevents user namespaces, if it can be determined.
    fn fix(message: &str) -> String {
        let is = |file: &str, value: &str| fs::read_to_string(file).is_ok_and(|text| text.trim() == value);
        if message.contains("Unknown option") {
            "install bubblewrap 0.8 or newer".to_owned()
        } else if is("/proc/sys/kernel/unprivileged_userns_clone", "0") {
            "allow user namespaces: `sysctl -w kernel.unprivileged_userns_clone=1`".to_owned()
        } else if is("/proc/sys/user/max_user_namespaces", "0") {
            "allow user namespaces: `sysctl -w user.max_user_namespaces=10000`".to_owned()
        } else if is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1") {
            "allow user namespaces: `sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`, or add an AppArmor profile for `bwrap`"
                .to_owned()
        } else {
            "allow user namespaces; in a container, use a seccomp profile that allows them and an unmasked `/proc`"
                .to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fix_names_the_bubblewrap_package() {
        assert!(!cfg!(target_os = "linux") || missing().fix.contains("apt-get install bubblewrap"));
    }
}
