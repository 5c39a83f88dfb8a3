//! Whether sandboxes work here: by starting a child in one.

#[cfg(target_os = "linux")]
use std::path::PathBuf;
use std::sync::OnceLock;

use super::SandboxKind;

/// Why there are no sandboxes here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
#[non_exhaustive]
pub struct SandboxUnavailable {
    /// What is missing, or what was tried and failed.
    pub reason: String,
    /// What to do about it.
    pub fix: String,
}

impl SandboxUnavailable {
    /// A reason, and what to do about it.
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

/// Landlock knows of TCP since Linux 6.7.
pub(super) fn landlock_network() -> Result<(), SandboxUnavailable> {
    #[cfg(target_os = "linux")]
    if crate::sys::landlock_abi().is_some_and(|abi| abi >= crate::restrict::NETWORK_ABI) {
        return Ok(());
    }
    Err(SandboxUnavailable::new("the kernel's landlock is too old for the network", "use Linux 6.7 or newer"))
}

/// Where `bwrap` is; it is looked for once.
#[cfg(target_os = "linux")]
pub(crate) fn bubblewrap() -> Result<PathBuf, SandboxUnavailable> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || crate::find_program("bwrap", std::env::var_os("PATH")?);
    FOUND.get_or_init(find).clone().ok_or_else(missing)
}

fn missing() -> SandboxUnavailable {
    if cfg!(target_os = "linux") {
        let fix = "install the package `bubblewrap`, for example: `apt-get install bubblewrap`";
        SandboxUnavailable::new("`bwrap` is not found", fix)
    } else {
        SandboxUnavailable::new("there is no sandbox for this system yet", "use Linux")
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
}

#[cfg(target_os = "linux")]
mod platform {
    use std::ffi::OsString;
    use std::fs;
    use std::io;
    use std::path::Path;
    use std::process::{Command, Output, Stdio};
    use std::time::{Duration, Instant};

    use super::super::{Sandbox, StartedBy, rules, wrap};
    use super::{SandboxUnavailable, bubblewrap as find};
    use crate::restrict::{LEAST_ABI, Restriction};
    use crate::sys;

    /// How long the child may take; it is a matter of milliseconds.
    const LIMIT: Duration = Duration::from_secs(10);

    pub(super) fn bubblewrap() -> Result<(), SandboxUnavailable> {
        let bwrap = find()?;
        let broken = |reason: String| SandboxUnavailable::new(reason, "see `yb doctor`, or `bwrap --help`");
        let program = Path::new("/bin/sh");
        let args = ["-c", "exit 0"].map(OsString::from);
        let sandbox = Sandbox::new().writable_as(std::env::temp_dir(), "/tmp");
        let argv = wrap(&sandbox, program, &args, Path::new("/tmp"), None, StartedBy::Host)
            .map_err(|error| broken(error.to_string()))?;
        let mut command = Command::new(&bwrap);
        let ended =
            run(command.args(&argv)).map_err(|error| broken(format!("`{}`: {error}", bwrap.display())))?;
        if ended.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&ended.stderr);
        let said = said.lines().next().unwrap_or("it said nothing").to_owned();
        Err(SandboxUnavailable::new(format!("`bwrap` does not work here: {said}"), fix(&said)))
    }

    /// A child that may read the system tries to read something else.
    pub(super) fn landlock() -> Result<(), SandboxUnavailable> {
        const OLD: &str = "use Linux 6.2 or newer";
        let Some(abi) = sys::landlock_abi() else {
            let fix = "use Linux 6.2 or newer, with `landlock` in the kernel's list of security modules (`lsm=`); in a container, a seccomp profile that allows it";
            return Err(SandboxUnavailable::new("the kernel has no landlock, or it is not switched on", fix));
        };
        if abi < LEAST_ABI {
            let reason =
                format!("the kernel's landlock is too old: version {abi}, at least {LEAST_ABI} is needed");
            return Err(SandboxUnavailable::new(reason, OLD));
        }
        let broken = |error: &dyn std::fmt::Display| {
            SandboxUnavailable::new(format!("landlock does not work here: {error}"), OLD)
        };
        let own = std::env::temp_dir().join(crate::plan::unique_id());
        let script = [OsString::from("-c"), "! (: < \"$0\")".into(), own.clone().into()];
        let attempt = || -> io::Result<Output> {
            fs::write(&own, "")?;
            let rules = rules(&Sandbox::new(), Path::new("/bin/sh"), Path::new("/usr"), None)
                .map_err(io::Error::other)?;
            let mut command = Command::new("/bin/sh");
            sys::restrict_before_exec(&mut command, Restriction::prepare(&rules)?);
            run(command.args(&script))
        };
        let ended = attempt();
        let _ = fs::remove_file(&own);
        match ended {
            Ok(ended) if ended.status.success() => Ok(()),
            Ok(_) => Err(broken(&"what it should forbid was possible")),
            Err(error) => Err(broken(&error)),
        }
    }

    #[expect(clippy::disallowed_methods, reason = "what it starts ends by itself, and is waited for")]
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

    /// The switch that forbids it, if one can be seen to.
    fn fix(said: &str) -> String {
        let is = |file: &str, value: &str| fs::read_to_string(file).is_ok_and(|text| text.trim() == value);
        if said.contains("Unknown option") {
            "install bubblewrap 0.8 or newer".to_owned()
        } else if is("/proc/sys/kernel/unprivileged_userns_clone", "0") {
            "allow user namespaces: `sysctl -w kernel.unprivileged_userns_clone=1`".to_owned()
        } else if is("/proc/sys/user/max_user_namespaces", "0") {
            "allow user namespaces: `sysctl -w user.max_user_namespaces=10000`".to_owned()
        } else if is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1") {
            "allow user namespaces: `sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`, or give `bwrap` an AppArmor profile"
                .to_owned()
        } else {
            "allow user namespaces; in a container, start it with a seccomp profile that does, and with an unmasked `/proc`"
                .to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fix_names_the_package() {
        assert!(!cfg!(target_os = "linux") || missing().fix.contains("apt-get install bubblewrap"));
    }
}
