//! Checks of the machine: containment, isolation, disk, memory, open files.

use std::path::{Path, PathBuf};
use std::time::Duration;

use yb_figures::{bytes, plural};
use yb_supervise::{Command, ContainmentMethod, End, SandboxKind, SandboxUnavailable};

use super::Finding;

const MB: u64 = 1_000_000;
const GB: u64 = 1_000 * MB;
/// Measured memory of one agent: 200 to 600 MB.
const AGENT_MEMORY: u64 = 600 * MB;
const LEAST_MEMORY: u64 = 200 * MB;
const LEAST_DISK: u64 = 200 * MB;
const SOME_DISK: u64 = 2 * GB;
const SOME_FILES: u64 = 1024;
const DEADLINE: Duration = Duration::from_secs(10);

/// Checks containment by running this program below a shim.
pub(super) async fn containment() -> Finding {
    let check = "containment";
    let Ok(program) = std::env::current_exe() else {
        return Finding::warning(
            check,
            "unknown: the path of the running program was not found",
            "start `yb` by its full path",
        );
    };
    let report = Command::new(program).arg("--version").deadline(DEADLINE).run().await;
    match (report.containment.map(|containment| containment.method), report.end) {
        (Some(ContainmentMethod::Cgroup), End::Exited { code: 0 }) => {
            Finding::ok(check, "cgroup: the process tree of an agent is killed atomically")
        }
        (Some(ContainmentMethod::JobObject), End::Exited { code: 0 }) => {
            Finding::ok(check, "job object: the process tree of an agent is killed with it")
        }
        (Some(ContainmentMethod::Subreaper), End::Exited { code: 0 }) => Finding::ok(
            check,
            "subreaper: the process tree of an agent is collected below one process and killed with it",
        ),
        (Some(method), End::Exited { code: 0 }) => Finding::warning(
            check,
            format!("{method}: descendants of an agent are tracked on a best-effort basis"),
            "use Linux 5.14 or newer, or a container",
        ),
        (_, end) => Finding::problem(
            check,
            format!("test program below a shim {end}"),
            "check the process limit: `ulimit -u`",
        ),
    }
}

/// Checks each isolation backend by trying it.
pub(super) fn isolation() -> Vec<Finding> {
    let bubblewrap = SandboxKind::Bubblewrap.probe();
    let landlock = SandboxKind::Landlock.probe();
    let without = match &landlock {
        Ok(()) => "falling back to landlock, which does not hide processes",
        Err(_) => "agents run without isolation",
    };
    let first = match &bubblewrap {
        Ok(()) => Finding::ok("bubblewrap", "works: agents see only their workspace and the system"),
        Err(why) => Finding::warning("bubblewrap", format!("{}; {without}", why.reason), &why.fix),
    };
    let second = match (&landlock, &bubblewrap) {
        (Ok(()), _) => Finding::ok("landlock", "works: agents can open only their workspace and the system"),
        // Not needed where bubblewrap works.
        (Err(why), Ok(())) => Finding::ok("landlock", format!("not available, not needed: {}", why.reason)),
        (Err(why), Err(_)) => Finding::warning("landlock", &why.reason, &why.fix),
    };
    let mut findings = vec![first, second];
    let used = [(bubblewrap, SandboxKind::Bubblewrap), (landlock, SandboxKind::Landlock)];
    let used = used.into_iter().find(|(works, _)| works.is_ok());
    findings.extend(used.map(|(_, kind)| syscall_filter(kind.probe_syscall_filter())));
    findings
}

fn syscall_filter(works: Result<(), SandboxUnavailable>) -> Finding {
    let check = "system calls";
    match works {
        Ok(()) => Finding::ok(check, "filtered: agents can't trace, mount or create namespaces"),
        Err(why) => Finding::warning(check, format!("not filtered: {}", why.reason), &why.fix),
    }
}

pub(super) fn resources(workspace: &Path) -> Vec<Finding> {
    let place = nearest(workspace);
    let mut findings = vec![writable(workspace, &place)];
    findings.extend(free_disk(&place).map(disk));
    findings.extend(free_memory().map(memory));
    findings.extend(open_files().map(files));
    findings.extend(as_root());
    findings
}

/// Returns the directory or its nearest existing ancestor.
fn nearest(path: &Path) -> PathBuf {
    path.ancestors().find(|above| above.is_dir()).unwrap_or(Path::new("/")).to_owned()
}

fn writable(workspace: &Path, place: &Path) -> Finding {
    let check = "workspace";
    match tempfile::Builder::new().prefix(".yb-doctor-").tempfile_in(place) {
        Ok(_) if place == workspace => Finding::ok(check, format!("writable: {}", workspace.display())),
        Ok(_) => Finding::ok(check, format!("can be created: {}", workspace.display())),
        Err(error) => Finding::problem(
            check,
            format!("not writable, {error}: {}", place.display()),
            "use another directory: `yb config set workspace_dir DIR`",
        ),
    }
}

fn disk(free: u64) -> Finding {
    let message = format!("{} free for workspaces", bytes(free));
    let fix = "free space, or use another directory: `yb config set workspace_dir DIR`";
    match free {
        ..LEAST_DISK => Finding::problem("disk", message, fix),
        LEAST_DISK..SOME_DISK => Finding::warning("disk", message, fix),
        _ => Finding::ok("disk", message),
    }
}

fn memory(free: u64) -> Finding {
    let enough = plural(free / AGENT_MEMORY, "trial");
    let available = bytes(free);
    let (least, most) = (bytes(LEAST_MEMORY), bytes(AGENT_MEMORY));
    let fix = "close other programs, or use a machine with more memory";
    match free {
        ..LEAST_MEMORY => {
            Finding::problem("memory", format!("{available} available: too little for an agent"), fix)
        }
        LEAST_MEMORY..AGENT_MEMORY => Finding::warning(
            "memory",
            format!("{available} available: an agent takes {least} to {most}"),
            fix,
        ),
        _ => Finding::ok(
            "memory",
            format!("{available} available: enough for {enough} at once, at {most} each"),
        ),
    }
}

fn files(limit: u64) -> Finding {
    let shown = if limit == u64::MAX { "no limit".to_owned() } else { format!("at most {limit}") };
    if limit < SOME_FILES {
        Finding::warning("open files", shown, "raise it: `ulimit -n 4096`")
    } else {
        Finding::ok("open files", shown)
    }
}

#[cfg(unix)]
fn free_disk(place: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(place).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(not(unix))]
fn free_disk(_place: &Path) -> Option<u64> {
    None
}

/// Returns the available memory, limited by the cgroup.
fn free_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let available = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = available.trim().trim_end_matches("kB").trim().parse().ok()?;
    let number = |file: &str| std::fs::read_to_string(file).ok()?.trim().parse::<u64>().ok();
    let limit = number("/sys/fs/cgroup/memory.max");
    let used = number("/sys/fs/cgroup/memory.current").unwrap_or(0);
    Some((kib * 1024).min(limit.map_or(u64::MAX, |limit| limit.saturating_sub(used))))
}

#[cfg(unix)]
fn open_files() -> Option<u64> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    Some(limit.current.unwrap_or(u64::MAX))
}

#[cfg(not(unix))]
fn open_files() -> Option<u64> {
    None
}

/// Warns about running as root without a sandbox.
#[cfg(unix)]
fn as_root() -> Option<Finding> {
    let works = |kind: SandboxKind| kind.probe().is_ok();
    let exposed = rustix::process::geteuid().is_root() && !SandboxKind::ALL.into_iter().any(works);
    exposed.then(|| {
        Finding::warning(
            "user",
            "root: Claude Code bypasses permissions only in a sandbox",
            "enable bubblewrap, set `isolation: external` in the case if this machine is a sandbox, or run as another user",
        )
    })
}

#[cfg(not(unix))]
fn as_root() -> Option<Finding> {
    None
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;
    use crate::exit_code::ExitCode;

    #[test]
    fn low_resources_are_warnings_and_very_low_ones_problems() {
        let problem = Level::Problem(ExitCode::Infrastructure);
        for (finding, level) in [
            (memory(100 * MB), problem),
            (memory(300 * MB), Level::Warning),
            (memory(2 * GB), Level::Ok),
            (disk(0), problem),
            (disk(GB), Level::Warning),
            (disk(100 * GB), Level::Ok),
            (files(256), Level::Warning),
            (files(u64::MAX), Level::Ok),
        ] {
            assert_eq!(finding.level, level, "{finding:?}");
            assert_eq!(finding.fix.is_none(), level == Level::Ok, "{finding:?}");
        }
        assert!(memory(2 * GB).message.contains("enough for 3 trials at once"));
    }
}
