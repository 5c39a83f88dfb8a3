//! Measures directories that a child can write. It may remove its own permissions, nest directories deeper than there are
//! descriptors, and make paths that are too long for the system; none of that hides files from the measurement.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, fchmod, fstat, openat, statat};

const OPEN: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// The permissions that the owner needs to read a directory and the metadata of its entries.
const READABLE: Mode = Mode::RUSR.union(Mode::XUSR);

/// A directory between the top and the current one. Only the top and the current one are open.
struct Level {
    name: CString,
    identity: (u64, u64),
    /// Subdirectories that are still to be measured.
    pending: Vec<CString>,
    opened_up: Option<OpenedUp>,
}

/// A directory whose permissions were extended for the time of the measurement.
struct OpenedUp {
    before: Mode,
    now: Mode,
}

/// Returns the bytes on disk below a directory. Links are not followed; files that vanish meanwhile count as zero.
pub(super) fn disk_usage(directory: &Path) -> u64 {
    let mut total = 0;
    let Ok(top) = openat(CWD, directory, OPEN, Mode::empty()) else { return 0 };
    let Ok(mut current) = top.try_clone() else { return 0 };
    let Some(first) = enter(&current, CString::default(), None, &mut total) else { return 0 };
    let mut levels = vec![first];
    while let Some(level) = levels.last_mut() {
        if let Some(name) = level.pending.pop() {
            let Some((dir, opened_up)) = open_dir(current.as_fd(), &name) else { continue };
            if let Some(level) = enter(&dir, name, opened_up, &mut total) {
                levels.push(level);
                current = dir;
            }
            continue;
        }
        let done = levels.pop();
        let above = openat(&current, c"..", OPEN, Mode::empty());
        if let Some(opened_up) = done.and_then(|level| level.opened_up) {
            opened_up.restore(&current);
        }
        let Some(level) = levels.last() else { break };
        current = match above {
            Ok(above) if identity(&above) == Some(level.identity) => above,
            // It was moved meanwhile.
            _ => match reopen(&top, &mut levels) {
                Some(found) => found,
                None => break,
            },
        };
    }
    total
}

/// Adds the entries of an open directory to the total.
fn enter(dir: &OwnedFd, name: CString, opened_up: Option<OpenedUp>, total: &mut u64) -> Option<Level> {
    let identity = identity(dir)?;
    let mut pending = Vec::new();
    for entry in Dir::read_from(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let Ok(found) = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        *total += allocated(&found);
        if FileType::from_raw_mode(found.st_mode).is_dir() {
            pending.push(name.to_owned());
        }
    }
    Some(Level { name, identity, pending, opened_up })
}

#[allow(
    clippy::allow_attributes,
    clippy::unnecessary_cast,
    clippy::cast_sign_loss,
    reason = "types differ between systems"
)]
fn allocated(found: &Stat) -> u64 {
    found.st_blocks as u64 * 512
}

#[allow(
    clippy::allow_attributes,
    clippy::unnecessary_cast,
    clippy::cast_sign_loss,
    reason = "types differ between systems"
)]
fn identity(dir: &OwnedFd) -> Option<(u64, u64)> {
    fstat(dir).ok().map(|found| (found.st_dev as u64, found.st_ino as u64))
}

/// Opens a subdirectory, and extends its permissions if they do not suffice.
fn open_dir(parent: BorrowedFd<'_>, name: &CStr) -> Option<(OwnedFd, Option<OpenedUp>)> {
    let dir = match openat(parent, name, OPEN, Mode::empty()) {
        Ok(dir) => dir,
        Err(_) => return open_unreadable(parent, name),
    };
    let before = Mode::from_raw_mode(fstat(&dir).ok()?.st_mode);
    if before.contains(READABLE) || rustix::process::geteuid().is_root() {
        return Some((dir, None));
    }
    let now = before | READABLE;
    let opened_up = fchmod(&dir, now).ok().map(|()| OpenedUp { before, now });
    Some((dir, opened_up))
}

/// Opens a directory that its owner may not read.
#[cfg(target_os = "linux")]
fn open_unreadable(parent: BorrowedFd<'_>, name: &CStr) -> Option<(OwnedFd, Option<OpenedUp>)> {
    use std::os::fd::AsRawFd as _;
    // A descriptor without access rights: the name may lead to something else by now.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let place = openat(parent, name, flags, Mode::empty()).ok()?;
    let before = Mode::from_raw_mode(fstat(&place).ok()?.st_mode);
    let now = before | READABLE;
    rustix::fs::chmod(format!("/proc/self/fd/{}", place.as_raw_fd()), now).ok()?;
    let opened_up = OpenedUp { before, now };
    match openat(&place, c".", OPEN, Mode::empty()) {
        Ok(dir) => Some((dir, Some(opened_up))),
        Err(_) => None,
    }
}

#[cfg(not(target_os = "linux"))]
fn open_unreadable(_: BorrowedFd<'_>, _: &CStr) -> Option<(OwnedFd, Option<OpenedUp>)> {
    None
}

impl OpenedUp {
    /// Restores the permissions, unless they were changed meanwhile.
    fn restore(&self, dir: &OwnedFd) {
        if fstat(dir).is_ok_and(|found| Mode::from_raw_mode(found.st_mode) == self.now) {
            let _ = fchmod(dir, self.before);
        }
    }
}

/// Opens the last level again, from the top. Levels that can't be found any more are dropped.
fn reopen(top: &OwnedFd, levels: &mut Vec<Level>) -> Option<OwnedFd> {
    let mut current = top.try_clone().ok()?;
    for at in 1..levels.len() {
        let found = openat(&current, &levels[at].name, OPEN, Mode::empty());
        match found {
            Ok(found) if identity(&found) == Some(levels[at].identity) => current = found,
            _ => {
                levels.truncate(at);
                break;
            }
        }
    }
    Some(current)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, chown};
    use std::path::PathBuf;

    use super::*;

    const BIG: u64 = 1 << 20;

    /// Creates a file below directories that are nested too deep for a path.
    fn nest(top: &Path, levels: usize, name: &str) {
        let mut current = openat(CWD, top, OPEN, Mode::empty()).unwrap();
        for _ in 0..levels {
            rustix::fs::mkdirat(&current, name, Mode::RWXU).unwrap();
            current = openat(&current, name, OPEN, Mode::empty()).unwrap();
        }
        let flags = OFlags::WRONLY | OFlags::CREATE;
        let file = openat(&current, c"big", flags, Mode::RUSR | Mode::WUSR).unwrap();
        rustix::io::write(&file, &vec![1; BIG as usize]).unwrap();
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "`remove_dir_all` opens a descriptor for each level")]
    fn files_below_paths_that_are_too_long_are_counted() {
        let directory = tempfile::tempdir().unwrap();
        nest(directory.path(), 60, &"d".repeat(200));
        assert!(disk_usage(directory.path()) >= BIG);
        // More levels than a process may have open files.
        let directory = tempfile::tempdir().unwrap();
        nest(directory.path(), 3000, "d");
        assert!(disk_usage(directory.path()) >= BIG);
        let status = std::process::Command::new("rm").arg("-rf").arg(directory.path()).status();
        assert!(status.unwrap().success());
    }

    #[test]
    fn siblings_of_deep_directories_are_counted_once() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c"] {
            let path = directory.path().join(name).join("x/y/z");
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join("file"), vec![1; BIG as usize]).unwrap();
            fs::write(path.join("../file"), vec![1; BIG as usize]).unwrap();
        }
        let used = disk_usage(directory.path());
        assert!((6 * BIG..7 * BIG).contains(&used), "{used}");
    }

    /// Runs as an ordinary user, whose own permissions apply to it, in a directory of that user.
    fn as_ordinary_user(check: impl FnOnce(PathBuf) + Send + 'static) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().to_owned();
        let is_root = rustix::process::geteuid().is_root();
        if is_root {
            chown(&path, Some(65534), Some(65534)).unwrap();
        }
        // Only this thread becomes another user.
        let thread = std::thread::spawn(move || {
            if is_root {
                let user = rustix::process::Uid::from_raw(65534);
                rustix::thread::set_thread_res_uid(user, user, user).unwrap();
            }
            check(path);
        });
        thread.join().unwrap();
    }

    #[test]
    fn directories_without_permissions_are_counted_and_left_as_they_are() {
        as_ordinary_user(|top| {
            let modes = [0o000, 0o100, 0o200, 0o300, 0o400, 0o600];
            for mode in modes {
                let outer = top.join(format!("{mode:o}"));
                let inner = outer.join("inner");
                fs::create_dir_all(&inner).unwrap();
                fs::write(outer.join("one"), vec![1; BIG as usize]).unwrap();
                fs::write(inner.join("two"), vec![1; BIG as usize]).unwrap();
                for path in [inner, outer] {
                    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
                }
            }
            let used = disk_usage(&top);
            assert!((12 * BIG..13 * BIG).contains(&used), "{used}");
            for mode in modes {
                let outer = top.join(format!("{mode:o}"));
                assert_eq!(fs::metadata(&outer).unwrap().permissions().mode() & 0o777, mode);
                fs::set_permissions(&outer, fs::Permissions::from_mode(0o700)).unwrap();
                let inner = outer.join("inner");
                assert_eq!(fs::metadata(&inner).unwrap().permissions().mode() & 0o777, mode);
                fs::set_permissions(&inner, fs::Permissions::from_mode(0o700)).unwrap();
            }
        });
    }

    #[test]
    fn directory_that_is_moved_meanwhile_ends_the_measurement_of_its_parents_only() {
        let directory = tempfile::tempdir().unwrap();
        let top = openat(CWD, directory.path(), OPEN, Mode::empty()).unwrap();
        let path = directory.path().join("a/b");
        fs::create_dir_all(&path).unwrap();
        let level = |path: &Path, name: &CStr| {
            let dir = openat(CWD, path, OPEN, Mode::empty()).unwrap();
            Level {
                name: name.to_owned(),
                identity: identity(&dir).unwrap(),
                pending: Vec::new(),
                opened_up: None,
            }
        };
        let levels = || {
            vec![level(directory.path(), c""), level(&directory.path().join("a"), c"a"), level(&path, c"b")]
        };
        let mut all = levels();
        let found = reopen(&top, &mut all).unwrap();
        assert_eq!((all.len(), identity(&found)), (3, Some(all[2].identity)));
        let mut all = levels();
        fs::rename(directory.path().join("a"), directory.path().join("moved")).unwrap();
        let found = reopen(&top, &mut all).unwrap();
        assert_eq!((all.len(), identity(&found)), (1, identity(&top)));
    }
}
