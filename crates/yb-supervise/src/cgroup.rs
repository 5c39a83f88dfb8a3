//! The cgroup of one supervised tree: atomic kill and exact CPU time, where kernel and permissions allow it.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::limits::{ExceededLimit, LimitEnforcer, Resource, ResourceLimits};

/// A leaf cgroup that this process created and only the supervised tree uses.
#[derive(Debug)]
pub(crate) struct Cgroup {
    path: PathBuf,
    directory: File,
}

impl Cgroup {
    /// Creates a cgroup below the cgroup of this process.
    pub(crate) fn create(name: &str) -> io::Result<Self> {
        let path = own_cgroup()?.join(name);
        fs::create_dir(&path)?;
        let made = File::open(&path).map(|directory| Self { path: path.clone(), directory });
        match made {
            Ok(cgroup) if cgroup.path.join("cgroup.kill").exists() => Ok(cgroup),
            Ok(_) => {
                let _ = fs::remove_dir(&path);
                Err(io::Error::new(
                    io::ErrorKind::Unsupported,
                    "`cgroup.kill` is missing (requires Linux 5.14)",
                ))
            }
            Err(error) => {
                let _ = fs::remove_dir(&path);
                Err(error)
            }
        }
    }

    /// Sets the limits that the kernel can enforce; ignores those without a controller.
    pub(crate) fn set_limits(&self, limits: &ResourceLimits) {
        // The controllers must be enabled in the parent; this fails if they are not delegated.
        if let Some(parent) = self.path.parent() {
            for controller in ["+memory", "+pids"] {
                let _ = fs::write(parent.join("cgroup.subtree_control"), controller);
            }
        }
        for (file, limit) in [("memory.max", limits.memory), ("pids.max", limits.processes)] {
            let path = self.path.join(file);
            if let Some(limit) = limit.filter(|_| path.exists()) {
                let _ = fs::write(path, limit.to_string());
            }
        }
    }

    /// Returns the limit that the kernel enforced: it refused a fork, or the OOM killer ran.
    pub(crate) fn exceeded(&self, limits: &ResourceLimits) -> Option<ExceededLimit> {
        let number = |file: &str| fs::read_to_string(self.path.join(file)).ok()?.trim().parse::<u64>().ok();
        let happened = |file: &str, key: &str| {
            let text = fs::read_to_string(self.path.join(file)).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
            line.is_some_and(|times| times.trim() != "0")
        };
        let exceeded = |resource, used, limit| ExceededLimit {
            resource,
            used,
            limit,
            enforced_by: LimitEnforcer::Cgroup,
        };
        if let Some(limit) = limits.memory.filter(|_| happened("memory.events", "oom_kill")) {
            return Some(exceeded(Resource::Memory, number("memory.peak").unwrap_or(limit), limit));
        }
        let limit = limits.processes.filter(|_| happened("pids.events", "max"))?;
        Some(exceeded(Resource::Processes, number("pids.current").unwrap_or(limit).max(limit), limit))
    }

    /// Adopts a cgroup that a lost shim had created.
    pub(crate) fn adopt(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), directory: File::open(path)? })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn kill(&self) {
        let _ = fs::write(self.path.join("cgroup.kill"), "1");
    }

    /// Freezes or thaws all members; returns `false` if that is not possible. A frozen process can still be
    /// killed.
    pub(crate) fn freeze(&self, frozen: bool) -> bool {
        fs::write(self.path.join("cgroup.freeze"), if frozen { "1" } else { "0" }).is_ok()
    }

    /// Waits until the cgroup is frozen; gives up on processes that hang in the kernel.
    pub(crate) fn wait_until_frozen(&self) {
        let limit = Instant::now() + Duration::from_millis(500);
        let events = self.path.join("cgroup.events");
        while !fs::read_to_string(&events).is_ok_and(|text| text.lines().any(|line| line == "frozen 1")) {
            if Instant::now() > limit {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Returns the member pids, without zombies.
    pub(crate) fn members(&self) -> Vec<u32> {
        let text = fs::read_to_string(self.path.join("cgroup.procs")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// Returns user and system time of all past and present members.
    pub(crate) fn cpu(&self) -> Option<(Duration, Duration)> {
        let text = fs::read_to_string(self.path.join("cpu.stat")).ok()?;
        let micros = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key))?;
            line.trim().parse().ok().map(Duration::from_micros)
        };
        Some((micros("user_usec ")?, micros("system_usec ")?))
    }

    /// Removes the cgroup, retrying for a moment because it stays busy right after a kill.
    pub(crate) fn remove(&self) {
        let limit = Instant::now() + Duration::from_millis(200);
        while let Err(error) = fs::remove_dir(&self.path) {
            if error.kind() == io::ErrorKind::NotFound || Instant::now() > limit {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl AsFd for Cgroup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

/// Where cgroups of version 2 are mounted.
#[derive(Debug)]
struct CgroupMount {
    root: String,
    point: String,
}

/// Reads the mount table once: the kernel takes longer to print it than to fork. A keeper calls this before it forks shims.
pub(crate) fn find_mount() {
    let _ = mount();
}

fn mount() -> Option<&'static CgroupMount> {
    static MOUNT: OnceLock<Option<CgroupMount>> = OnceLock::new();
    let find = || locate_mount(&fs::read_to_string("/proc/self/mountinfo").ok()?);
    MOUNT.get_or_init(find).as_ref()
}

fn own_cgroup() -> io::Result<PathBuf> {
    let own = fs::read_to_string("/proc/self/cgroup")?;
    mount()
        .and_then(|mount| mount.locate(&own))
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no cgroup v2 hierarchy is mounted"))
}

/// Finds the mount. Version 2 may be mounted anywhere, also beside version 1, and may show only a subtree.
fn locate_mount(mountinfo: &str) -> Option<CgroupMount> {
    mountinfo.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut fields = before.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        let is_version_2 = after.split(' ').next() == Some("cgroup2");
        is_version_2.then(|| CgroupMount { root: unescape(root), point: unescape(point) })
    })
}

impl CgroupMount {
    /// Returns the directory of the cgroup in the content of `/proc/PID/cgroup`.
    fn locate(&self, own: &str) -> Option<PathBuf> {
        let own = own.lines().find_map(|line| line.strip_prefix("0::"))?;
        let below = Path::new(own).strip_prefix(&self.root).ok()?;
        Some(Path::new(&self.point).join(below))
    }
}

/// Decodes mountinfo's octal escapes of space, tab, newline and backslash.
fn unescape(field: &str) -> String {
    field.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(mountinfo: &str, own: &str, expected: Option<&str>) {
        let found = locate_mount(mountinfo).and_then(|mount| mount.locate(own));
        assert_eq!(found.as_deref(), expected.map(Path::new));
    }

    /// Uses a plain directory, because not every machine has a cgroup with these controllers.
    #[test]
    fn limits_are_written_and_exceeded_limits_are_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let cgroup = Cgroup::adopt(dir.path()).unwrap();
        let write = |file: &str, text: &str| fs::write(dir.path().join(file), text).unwrap();
        let limits = ResourceLimits::new().memory(1000).processes(7);
        cgroup.set_limits(&limits);
        assert!(!dir.path().join("memory.max").exists(), "missing controller files are not created");
        write("memory.max", "max");
        write("pids.max", "max");
        cgroup.set_limits(&limits);
        let read = |file: &str| fs::read_to_string(dir.path().join(file)).unwrap();
        assert_eq!((read("memory.max").as_str(), read("pids.max").as_str()), ("1000", "7"));
        write("memory.events", "low 0\nmax 3\noom 0\noom_kill 0\noom_group_kill 0\n");
        write("pids.events", "max 0\n");
        assert_eq!(cgroup.exceeded(&limits), None);
        write("pids.events", "max 2\n");
        let exceeded = cgroup.exceeded(&limits).unwrap();
        assert_eq!(
            (exceeded.resource, exceeded.used, exceeded.enforced_by),
            (Resource::Processes, 7, LimitEnforcer::Cgroup)
        );
        write("memory.events", "oom 1\noom_kill 1\n");
        write("memory.peak", "999\n");
        let exceeded = cgroup.exceeded(&limits).unwrap();
        assert_eq!((exceeded.resource, exceeded.used, exceeded.limit), (Resource::Memory, 999, 1000));
    }

    #[test]
    fn version_2_is_found_wherever_it_is_mounted() {
        let hybrid = "30 24 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw";
        check(hybrid, "4:memory:/x\n0::/", Some("/sys/fs/cgroup/unified"));
        let unified = "41 31 0:38 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw";
        check(unified, "0::/user.slice/a", Some("/sys/fs/cgroup/user.slice/a"));
    }

    #[test]
    fn locate_handles_mount_of_subtree() {
        let container = "41 31 0:38 /docker/abc /sys/fs/my\\040cgroup rw - cgroup2 cgroup2 rw";
        check(container, "0::/docker/abc/inner", Some("/sys/fs/my cgroup/inner"));
        check(container, "0::/elsewhere", None);
    }

    #[test]
    fn without_version_2_there_is_none() {
        check("30 24 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory", "4:memory:/x", None);
    }
}
