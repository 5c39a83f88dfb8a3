//! What the machine offers: holding processes together, standing between an agent and the rest, disk, memory, files.

use std::path::{Path, PathBuf};
use std::time::Duration;

use yb_supervise::{Command, ContainmentMethod, End, SandboxKind};

use super::Finding;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// What one agent takes at most, as measured: 200 to 600 MB.
const AGENT_MEMORY: u64 = 600 * MIB;
const LEAST_MEMORY: u64 = 200 * MIB;
const LEAST_DISK: u64 = 200 * MIB;
const SOME_DISK: u64 = 2 * GIB;
const SOME_FILES: u64 = 1024;
const DEADLINE: Duration = Duration::from_secs(10);

/// By trying it: this program runs itself below a shim.
pub(super) async fn containment() -> Finding {
    let check = "containment";
    let Ok(program) = std::env::current_exe() else {
        return Finding::warning(
            check,
            "not known: the running program is not found",
            "start `yb` by its full path",
        );
    };
    let report = Command::new(program).arg("--version").deadline(DEADLINE).run().await;
    match (report.containment.map(|containment| containment.method), report.end) {
        (Some(ContainmentMethod::Cgroup), End::Exited { code: 0 }) => {
            Finding::ok(check, "cgroup: all that an agent starts dies at one stroke")
        }
        (Some(ContainmentMethod::JobObject), End::Exited { code: 0 }) => {
            Finding::ok(check, "job object: all that an agent starts dies with it")
        }
        (Some(ContainmentMethod::Subreaper), End::Exited { code: 0 }) => Finding::ok(
            check,
            "subreaper: all that an agent starts hangs below one process, and dies with it",
        ),
        (Some(means), End::Exited { code: 0 }) => Finding::warning(
            check,
            format!("{means}: what an agent starts is searched for, as well as it goes"),
            "use Linux 5.14 or newer, or a container of your own",
        ),
        (_, end) => Finding::problem(
            check,
            format!("a program below a shim {end}"),
            "check the limits on processes: `ulimit -u`",
        ),
    }
}

/// Which means of isolation the machine has, each by trying it.
pub(super) fn isolation() -> Vec<Finding> {
    let bubblewrap = SandboxKind::Bubblewrap.probe();
    let landlock = SandboxKind::Landlock.probe();
    let without = match &landlock {
        Ok(()) => "without it landlock has to do, which hides no processes",
        Err(_) => "without it nothing stands between agents and this machine",
    };
    let first = match &bubblewrap {
        Ok(()) => {
            Finding::ok("bubblewrap", "works: agents see their workspace and the system, and nothing else")
        }
        Err(why) => Finding::warning("bubblewrap", format!("{}; {without}", why.reason), &why.fix),
    };
    let second = match (&landlock, &bubblewrap) {
        (Ok(()), _) => {
            Finding::ok("landlock", "works: agents open their workspace and the system, and nothing else")
        }
        // Where the stronger one works, nobody misses it.
        (Err(why), Ok(())) => Finding::ok("landlock", format!("not here, and not needed: {}", why.reason)),
        (Err(why), Err(_)) => Finding::warning("landlock", &why.reason, &why.fix),
    };
    vec![first, second]
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

/// The directory itself, or the one in which it would be made.
fn nearest(path: &Path) -> PathBuf {
    path.ancestors().find(|above| above.is_dir()).unwrap_or(Path::new("/")).to_owned()
}

fn writable(workspace: &Path, place: &Path) -> Finding {
    let check = "workspace";
    match tempfile::Builder::new().prefix(".yb-doctor-").tempfile_in(place) {
        Ok(_) if place == workspace => Finding::ok(check, format!("writable: {}", workspace.display())),
        Ok(_) => Finding::ok(check, format!("can be made: {}", workspace.display())),
        Err(error) => Finding::problem(
            check,
            format!("can't be written, {error}: {}", place.display()),
            "choose another place: `yb config set workspace_dir DIR`",
        ),
    }
}

fn disk(free: u64) -> Finding {
    let message = format!("{} free for workspaces", size(free));
    let fix = "free some space, or choose another place: `yb config set workspace_dir DIR`";
    match free {
        ..LEAST_DISK => Finding::problem("disk", message, fix),
        LEAST_DISK..SOME_DISK => Finding::warning("disk", message, fix),
        _ => Finding::ok("disk", message),
    }
}

fn memory(free: u64) -> Finding {
    let trials = free / AGENT_MEMORY;
    let enough = if trials == 1 { "1 trial".to_owned() } else { format!("{trials} trials") };
    let available = size(free);
    let fix = "end other programs, or use a machine with more memory";
    match free {
        ..LEAST_MEMORY => {
            Finding::problem("memory", format!("{available} available: too little for any agent"), fix)
        }
        LEAST_MEMORY..AGENT_MEMORY => {
            Finding::warning("memory", format!("{available} available: an agent takes 200 to 600 MiB"), fix)
        }
        _ => Finding::ok(
            "memory",
            format!("{available} available: enough for {enough} at once, at 600 MiB each"),
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

fn size(bytes: u64) -> String {
    if bytes >= GIB {
        format!("{:.1} GiB", bytes as f64 / GIB as f64)
    } else {
        format!("{} MiB", bytes / MIB)
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

/// What the kernel says could be had, and no more than a container allows.
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

/// Only a problem where there is no sandbox.
#[cfg(unix)]
fn as_root() -> Option<Finding> {
    let works = |kind: SandboxKind| kind.probe().is_ok();
    let exposed = rustix::process::geteuid().is_root() && !SandboxKind::ALL.into_iter().any(works);
    exposed.then(|| {
        Finding::warning(
            "user",
            "root: Claude Code bypasses permissions only in a sandbox",
            "make bubblewrap work, write `isolation: external` in the case if this machine is a sandbox, or run as another user",
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
    fn too_little_is_a_problem_and_little_a_warning() {
        let problem = Level::Problem(ExitCode::Infrastructure);
        for (finding, level) in [
            (memory(100 * MIB), problem),
            (memory(300 * MIB), Level::Warning),
            (memory(2 * GIB), Level::Ok),
            (disk(0), problem),
            (disk(GIB), Level::Warning),
            (disk(100 * GIB), Level::Ok),
            (files(256), Level::Warning),
            (files(u64::MAX), Level::Ok),
        ] {
            assert_eq!(finding.level, level, "{finding:?}");
            assert_eq!(finding.fix.is_none(), level == Level::Ok, "{finding:?}");
        }
        assert!(memory(2 * GIB).message.contains("enough for 3 trials at once"));
    }
}
