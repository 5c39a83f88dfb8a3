//! Removes directories that an agent could write. An agent may leave directories without permissions, 30,000 levels of them,
//! or paths that are too long for the system; none of that may decide the outcome of a trial.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use yb_model::nonce;

/// How a directory was removed.
#[derive(Debug)]
#[must_use]
pub enum Removal {
    /// It no longer exists.
    Removed,
    /// A part of it can't be removed; it was renamed.
    SetAside {
        /// The new path.
        path: PathBuf,
        /// Why it can't be removed.
        reason: io::Error,
    },
    /// It can be neither removed nor renamed.
    Kept {
        /// The path.
        path: PathBuf,
        /// Why it can't be removed.
        reason: io::Error,
    },
}

impl Removal {
    /// The warning about a directory that still exists.
    pub fn warning(&self) -> Option<String> {
        match self {
            Self::Removed => None,
            Self::SetAside { .. } | Self::Kept { .. } => Some(self.to_string()),
        }
    }
}

impl fmt::Display for Removal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Removed => f.write_str("removed"),
            Self::SetAside { path, reason } => {
                write!(f, "failed to remove a directory ({reason}); renamed it to `{}`", path.display())
            }
            Self::Kept { path, reason } => {
                write!(f, "failed to remove a directory ({reason}): `{}`", path.display())
            }
        }
    }
}

/// Removes a directory, or renames it within its parent if a part of it can't be removed, so that its path is free.
pub fn remove_or_set_aside(path: &Path) -> Removal {
    let Err(reason) = remove_tree(path) else { return Removal::Removed };
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".not-removed-{}", nonce()));
    let aside = path.with_file_name(name);
    match std::fs::rename(path, &aside) {
        Ok(()) => Removal::SetAside { path: aside, reason },
        Err(_) => Removal::Kept { path: path.to_owned(), reason },
    }
}

/// Removes a file, a symlink, or a directory with everything below it, if it exists. Links are not followed, missing permissions
/// are added, and neither depth nor path length matter. What can't be removed stays, and the first error is returned.
///
/// # Errors
/// When a part can't be removed.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => remove_dir(path),
        Ok(_) => std::fs::remove_file(path),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(())
        }
        Err(error) => Err(error),
    }
}

#[cfg(unix)]
use unix::remove_dir;

#[cfg(not(unix))]
fn remove_dir(path: &Path) -> io::Result<()> {
    std::fs::remove_dir_all(path)
}

#[cfg(unix)]
mod unix {
    use std::ffi::{CStr, CString};
    use std::io;
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
    use std::path::Path;

    use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, fchmod, fstat, openat, renameat, unlinkat};
    use rustix::io::Errno;
    use yb_model::nonce;

    /// How many directories are open at the same time, one in the other. Deeper ones are moved up first.
    const MAX_OPEN: usize = 16;

    /// Removes a directory. Subdirectories below a few levels are moved up into the top directory before they are opened, so that a
    /// few descriptors are enough for any depth.
    pub(super) fn remove_dir(path: &Path) -> io::Result<()> {
        let top = open_dir(CWD, path)?;
        let mut removal =
            DirRemoval { top: top.as_fd(), prefix: nonce(), moved: 0, waiting: Vec::new(), error: None };
        removal.empty(top.as_fd(), 0);
        while let Some(name) = removal.waiting.pop() {
            removal.remove(top.as_fd(), &name, 1);
        }
        match removal.error {
            Some(error) => Err(error.into()),
            None => Ok(rustix::fs::rmdir(path)?),
        }
    }

    struct DirRemoval<'a> {
        top: BorrowedFd<'a>,
        /// Makes the names of moved directories unique.
        prefix: String,
        moved: u64,
        /// The names of directories that were moved to the top directory.
        waiting: Vec<CString>,
        /// The first error.
        error: Option<Errno>,
    }

    impl DirRemoval<'_> {
        /// Removes a directory in another one; `level` is the number of open directories above it.
        fn remove(&mut self, parent: BorrowedFd<'_>, name: &CStr, level: usize) {
            match open_dir(parent, name) {
                Ok(dir) => self.empty(dir.as_fd(), level),
                // A scan of the top directory found it before.
                Err(Errno::NOENT) => return,
                Err(error) => return self.note(error),
            }
            if let Err(error) = unlinkat(parent, name, AtFlags::REMOVEDIR) {
                self.note(error);
            }
        }

        /// Removes the content of a directory, or moves it up.
        fn empty(&mut self, dir: BorrowedFd<'_>, level: usize) {
            // Some file systems skip entries when others are removed during a scan, so it is repeated until nothing is found.
            loop {
                let entries = match Dir::read_from(dir) {
                    Ok(entries) => entries,
                    Err(error) => return self.note(error),
                };
                let mut found = false;
                for entry in entries {
                    let entry = match entry {
                        Ok(entry) => entry,
                        Err(error) => return self.note(error),
                    };
                    let name = entry.file_name();
                    if name != c"." && name != c".." {
                        found = true;
                        if let Err(error) = self.remove_entry(dir, name, entry.file_type(), level) {
                            self.note(error);
                        }
                    }
                }
                if !found || self.error.is_some() {
                    return;
                }
            }
        }

        fn remove_entry(
            &mut self,
            dir: BorrowedFd<'_>,
            name: &CStr,
            kind: FileType,
            level: usize,
        ) -> Result<(), Errno> {
            let is_dir = match kind {
                FileType::Directory => true,
                FileType::Unknown => {
                    let found = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
                    FileType::from_raw_mode(found.st_mode).is_dir()
                }
                _ => false,
            };
            if !is_dir {
                return unlinkat(dir, name, AtFlags::empty());
            }
            if level < MAX_OPEN {
                self.remove(dir, name, level + 1);
                return Ok(());
            }
            // Moving a directory to another parent changes its `..`, which needs write permission.
            drop(open_dir(dir, name)?);
            self.moved += 1;
            let new = CString::new(format!(".{}-{}", self.prefix, self.moved)).map_err(|_| Errno::INVAL)?;
            renameat(dir, name, self.top, &new)?;
            self.waiting.push(new);
            Ok(())
        }

        fn note(&mut self, error: Errno) {
            self.error.get_or_insert(error);
        }
    }

    const DIR: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

    /// Opens a directory, not through a link, and makes it readable and writable for the user.
    fn open_dir<P: rustix::path::Arg + Copy>(at: BorrowedFd<'_>, name: P) -> Result<OwnedFd, Errno> {
        let dir = match openat(at, name, OFlags::RDONLY | DIR, Mode::empty()) {
            Err(Errno::ACCESS) => {
                add_permissions(at, name)?;
                openat(at, name, OFlags::RDONLY | DIR, Mode::empty())?
            }
            opened => opened?,
        };
        let mode = Mode::from_raw_mode(fstat(&dir)?.st_mode);
        if !mode.contains(Mode::RWXU) {
            // Root needs no permissions, and may not be allowed to change them.
            let _ = fchmod(&dir, mode | Mode::RWXU);
        }
        Ok(dir)
    }

    /// Adds the user's permissions to a directory that can't be opened.
    #[cfg(target_os = "linux")]
    fn add_permissions<P: rustix::path::Arg + Copy>(at: BorrowedFd<'_>, name: P) -> Result<(), Errno> {
        use std::os::fd::AsRawFd as _;
        // A descriptor of the directory itself, so that no link is followed.
        let dir = openat(at, name, OFlags::PATH | DIR, Mode::empty())?;
        let own = format!("/proc/self/fd/{}", dir.as_raw_fd());
        rustix::fs::chmod(own, Mode::RWXU)
    }

    #[cfg(not(target_os = "linux"))]
    fn add_permissions<P: rustix::path::Arg + Copy>(at: BorrowedFd<'_>, name: P) -> Result<(), Errno> {
        rustix::fs::chmodat(at, name, Mode::RWXU, AtFlags::SYMLINK_NOFOLLOW)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::ffi::OsStr;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    use super::*;

    /// Creates nested directories with a file in the last one.
    #[expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]
    fn nest(top: &Path, depth: usize) {
        let open = |at: std::os::fd::BorrowedFd<'_>, name: &OsStr| {
            openat(at, name, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap()
        };
        let mut dir = open(CWD, top.as_os_str());
        for _ in 0..depth {
            mkdirat(&dir, "d", Mode::RWXU).unwrap();
            dir = open(std::os::fd::AsFd::as_fd(&dir), OsStr::new("d"));
        }
        openat(&dir, "file", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR).unwrap();
    }

    #[test]
    fn removal_needs_few_descriptors_for_any_depth() {
        let limit = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(64), maximum: limit.maximum }).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().join("tree");
        fs::create_dir(&tree).unwrap();
        // Longer than the longest path of the system.
        nest(&tree, 2_500);
        fs::create_dir(tree.join("e")).unwrap();
        nest(&tree.join("e"), 100);
        remove_tree(&tree).unwrap();
        assert!(!tree.exists());
        remove_tree(&tree).unwrap();
    }

    #[test]
    fn removal_follows_no_links_and_adds_permissions() {
        let folder = tempfile::tempdir().unwrap();
        let (outside, tree) = (folder.path().join("outside"), folder.path().join("tree"));
        fs::create_dir_all(outside.join("sub")).unwrap();
        fs::write(outside.join("sub/precious"), "x").unwrap();
        for path in ["closed/a/b", "read-only/c", "open/d"] {
            fs::create_dir_all(tree.join(path)).unwrap();
            fs::write(tree.join(path).join("file"), "x").unwrap();
        }
        symlink(&outside, tree.join("read-only/link")).unwrap();
        symlink(&outside, tree.join("link")).unwrap();
        symlink(&tree, tree.join("open/d/loop")).unwrap();
        let sealed =
            [("closed/a/b", 0), ("closed/a", 0), ("closed", 0), ("read-only/c", 0o500), ("read-only", 0o555)];
        for (path, mode) in sealed {
            fs::set_permissions(tree.join(path), Permissions::from_mode(mode)).unwrap();
        }
        let before = fs::metadata(&outside).unwrap().permissions();
        remove_tree(&tree).unwrap();
        assert!(!tree.exists());
        assert_eq!(fs::metadata(&outside).unwrap().permissions(), before);
        assert_eq!(fs::read(outside.join("sub/precious")).unwrap(), b"x");
        symlink(&outside, &tree).unwrap();
        remove_tree(&tree).unwrap();
        assert!(outside.join("sub/precious").exists());
    }

    #[test]
    fn wide_directories_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().join("tree");
        for dir in 0..50 {
            fs::create_dir_all(tree.join(format!("d{dir}/e"))).unwrap();
            for file in 0..50 {
                fs::write(tree.join(format!("d{dir}/e/{file}")), "").unwrap();
            }
        }
        assert!(remove_or_set_aside(&tree).warning().is_none());
        assert!(!tree.exists());
    }
}
