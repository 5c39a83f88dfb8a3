//! A cgroup of one supervised tree: atomic killing and exact CPU time, where the kernel and the rights allow it.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::limits::{HeldBy, OverLimit, Resource, ResourceLimits};

/// A leaf cgroup that this process made, and that only the supervised tree lives in.
#[derive(Debug)]
pub(crate) struct Cgroup {
    path: PathBuf,
    directory: File,
}

impl Cgroup {
    /// Makes a cgroup below the one that this process is in.
    pub(crate) fn create(name: &str) -> io::Result<Self> {
        let path = own_cgroup()?.join(name);
        fs::create_dir(&path)?;
        let made = File::open(&path).map(|directory| Self { path: path.clone(), directory });
        match made {
            Ok(cgroup) if cgroup.path.join("cgroup.kill").exists() => Ok(cgroup),
            Ok(_) => {
                let _ = fs::remove_dir(&path);
                Err(io::Error::new(io::ErrorKind::Unsupported, "the kernel has no `cgroup.kill` (5.14 has)"))
            }
            Err(error) => {
                let _ = fs::remove_dir(&path);
                Err(error)
            }
        }
    }

    /// Has the kernel hold what it can; false for what it can't.
    pub(crate) fn limit(&self, limits: &ResourceLimits) {
        // The controllers have to be handed down, which whoever delegated the group may have done.
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

    /// What the kernel held: it refused a process, or killed for want of memory.
    pub(crate) fn over(&self, limits: &ResourceLimits) -> Option<OverLimit> {
        let number = |file: &str| fs::read_to_string(self.path.join(file)).ok()?.trim().parse::<u64>().ok();
        let happened = |file: &str, key: &str| {
            let text = fs::read_to_string(self.path.join(file)).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
            line.is_some_and(|times| times.trim() != "0")
        };
        let over = |resource, used, limit| OverLimit { resource, used, limit, held_by: HeldBy::Cgroup };
        if let Some(limit) = limits.memory.filter(|_| happened("memory.events", "oom_kill")) {
            return Some(over(Resource::Memory, number("memory.peak").unwrap_or(limit), limit));
        }
        let limit = limits.processes.filter(|_| happened("pids.events", "max"))?;
        Some(over(Resource::Processes, number("pids.current").unwrap_or(limit).max(limit), limit))
    }

    /// Takes over a cgroup that a lost shim had made.
    pub(crate) fn adopt(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), directory: File::open(path)? })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn kill(&self) {
        let _ = fs::write(self.path.join("cgroup.kill"), "1");
    }

    /// Holds all that is in it, or lets it go on; false if that is not possible. A frozen process can still be killed.
    pub(crate) fn freeze(&self, frozen: bool) -> bool {
        fs::write(self.path.join("cgroup.freeze"), if frozen { "1" } else { "0" }).is_ok()
    }

    /// Waits until it is frozen, for as long as a process in the kernel may reasonably take.
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

    /// The pids in it, zombies not among them.
    pub(crate) fn members(&self) -> Vec<u32> {
        let text = fs::read_to_string(self.path.join("cgroup.procs")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// User and system time of everything that ever ran in it.
    pub(crate) fn cpu(&self) -> Option<(Duration, Duration)> {
        let text = fs::read_to_string(self.path.join("cpu.stat")).ok()?;
        let micros = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key))?;
            line.trim().parse().ok().map(Duration::from_micros)
        };
        Some((micros("user_usec ")?, micros("system_usec ")?))
    }

    /// Removes it; right after a kill it may stay busy for a moment, so this tries for a short while.
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

fn own_cgroup() -> io::Result<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let groups = fs::read_to_string("/proc/self/cgroup")?;
    locate(&mounts, &groups)
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no cgroup v2 hierarchy is mounted"))
}

/// Version 2 may be mounted anywhere, beside version 1 too, and may show only a part of the hierarchy.
fn locate(mountinfo: &str, own: &str) -> Option<PathBuf> {
    let (root, point) = mountinfo.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut fields = before.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        (after.split(' ').next() == Some("cgroup2")).then(|| (unescape(root), unescape(point)))
    })?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let below = Path::new(own).strip_prefix(&root).ok()?;
    Some(Path::new(&point).join(below))
}

/// mountinfo writes space, tab, newline and backslash as three octal digits.
fn unescape(field: &str) -> String {
    field.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(mountinfo: &str, own: &str, expected: Option<&str>) {
        assert_eq!(locate(mountinfo, own).as_deref(), expected.map(Path::new));
    }

    /// A directory in place of a cgroup with the controllers, which not every machine has.
    #[test]
    fn the_kernel_is_told_the_limits_and_asked_what_came_of_them() {
        let dir = tempfile::tempdir().unwrap();
        let cgroup = Cgroup::adopt(dir.path()).unwrap();
        let write = |file: &str, text: &str| fs::write(dir.path().join(file), text).unwrap();
        let limits = ResourceLimits::new().memory(1000).processes(7);
        cgroup.limit(&limits);
        assert!(!dir.path().join("memory.max").exists(), "what is not there is not made up");
        write("memory.max", "max");
        write("pids.max", "max");
        cgroup.limit(&limits);
        let read = |file: &str| fs::read_to_string(dir.path().join(file)).unwrap();
        assert_eq!((read("memory.max").as_str(), read("pids.max").as_str()), ("1000", "7"));
        write("memory.events", "low 0\nmax 3\noom 0\noom_kill 0\noom_group_kill 0\n");
        write("pids.events", "max 0\n");
        assert_eq!(cgroup.over(&limits), None);
        write("pids.events", "max 2\n");
        let over = cgroup.over(&limits).unwrap();
        assert_eq!((over.resource, over.used, over.held_by), (Resource::Processes, 7, HeldBy::Cgroup));
        write("memory.events", "oom 1\noom_kill 1\n");
        write("memory.peak", "999\n");
        let over = cgroup.over(&limits).unwrap();
        assert_eq!((over.resource, over.used, over.limit), (Resource::Memory, 999, 1000));
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
    fn a_mount_that_shows_a_part_is_understood() {
        let container = "41 31 0:38 /docker/abc /sys/fs/my\\040cgroup rw - cgroup2 cgroup2 rw";
        check(container, "0::/docker/abc/inner", Some("/sys/fs/my cgroup/inner"));
        check(container, "0::/elsewhere", None);
    }

    #[test]
    fn without_version_2_there_is_none() {
        check("30 24 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory", "4:memory:/x", None);
    }
}
