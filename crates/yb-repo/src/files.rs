//! File helpers: atomic replacement, directory copies, and conversion between paths and bytes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use yb_model::atomic_file::{Durability, write_atomic};

use super::error::RepoError;

/// Replaces a file atomically.
pub(crate) fn replace(path: &Path, content: &[u8]) -> Result<(), RepoError> {
    write_atomic(path, content, Durability::Synced).map_err(RepoError::io("write", path))
}

/// Removes a directory recursively, if it exists.
pub(crate) fn remove_dir(path: &Path) -> Result<(), RepoError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(RepoError::io("remove the directory", path)(error))
        }
        _ => Ok(()),
    }
}

/// Copies a directory of regular files. The copies share blocks if the file system supports that; they are never hard links,
/// so changing a copy does not change the original.
pub(crate) fn copy_dir(from: &Path, to: &Path) -> Result<(), RepoError> {
    transfer_dir(from, to, &|from, to| fs::copy(from, to).map(drop))
}

/// Copies a directory of regular files that nothing changes, as hard links where possible.
pub(crate) fn link_dir(from: &Path, to: &Path) -> Result<(), RepoError> {
    transfer_dir(from, to, &|from, to| fs::hard_link(from, to).or_else(|_| fs::copy(from, to).map(drop)))
}

fn transfer_dir(
    from: &Path,
    to: &Path,
    transfer: &dyn Fn(&Path, &Path) -> io::Result<()>,
) -> Result<(), RepoError> {
    fs::create_dir_all(to).map_err(RepoError::io("create the directory", to))?;
    for entry in fs::read_dir(from).map_err(RepoError::io("read the directory", from))? {
        let entry = entry.map_err(RepoError::io("read the directory", from))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().map_err(RepoError::io("read the type of", &source))?;
        if kind.is_dir() {
            transfer_dir(&source, &target, transfer)?;
        } else if kind.is_file() {
            transfer(&source, &target).map_err(RepoError::io("copy", &source))?;
        }
    }
    Ok(())
}

/// Copies a directory of files and symbolic links, and keeps whether files are executable.
pub(crate) fn copy_work_tree(from: &Path, to: &Path) -> Result<(), RepoError> {
    fs::create_dir_all(to).map_err(RepoError::io("create the directory", to))?;
    for entry in fs::read_dir(from).map_err(RepoError::io("read the directory", from))? {
        let entry = entry.map_err(RepoError::io("read the directory", from))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().map_err(RepoError::io("read the type of", &source))?;
        if kind.is_dir() {
            copy_work_tree(&source, &target)?;
        } else if kind.is_symlink() {
            let link = fs::read_link(&source).map_err(RepoError::io("read the link", &source))?;
            symlink(&link, &target).map_err(RepoError::io("create the link", &target))?;
        } else {
            fs::copy(&source, &target).map_err(RepoError::io("copy", &source))?;
        }
    }
    Ok(())
}

#[cfg(unix)]
fn symlink(link: &Path, path: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(link, path)
}

/// Shared checkouts, the only trees that are copied this way, exist on Unix only.
#[cfg(not(unix))]
fn symlink(_: &Path, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Copies the files of a directory into another, as links where possible. Both must never be changed in place.
pub(crate) fn link_or_copy_dir(from: &Path, to: &Path) -> Result<(), RepoError> {
    for entry in fs::read_dir(from).map_err(RepoError::io("read the directory", from))? {
        let entry = entry.map_err(RepoError::io("read the directory", from))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if fs::hard_link(&source, &target).is_err() {
            fs::copy(&source, &target).map_err(RepoError::io("copy", &source))?;
        }
    }
    Ok(())
}

/// Converts a file name to bytes as in a git tree.
#[cfg(unix)]
pub(crate) fn os_str_bytes(name: &std::ffi::OsStr) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt;
    name.as_bytes().to_vec()
}

/// Converts a file name to bytes as in a git tree.
#[cfg(not(unix))]
pub(crate) fn os_str_bytes(name: &std::ffi::OsStr) -> Vec<u8> {
    name.to_string_lossy().replace('\\', "/").into_bytes()
}

/// Converts the path of a git tree entry to a path of this system.
#[cfg(unix)]
pub fn path_from_bytes(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    PathBuf::from(std::ffi::OsStr::from_bytes(bytes))
}

/// Converts the path of a git tree entry to a path of this system.
#[cfg(not(unix))]
pub fn path_from_bytes(bytes: &[u8]) -> PathBuf {
    PathBuf::from(String::from_utf8_lossy(bytes).into_owned())
}

/// Removes the locks that a killed git left in a repository, which no other process may be using.
pub(crate) fn remove_stale_locks(git_dir: &Path) {
    let is_lock = |path: &Path| path.extension().is_some_and(|extension| extension == "lock");
    let mut dirs = vec![git_dir.join("refs")];
    let top = fs::read_dir(git_dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut locks: Vec<PathBuf> = top.filter(|path| is_lock(path)).collect();
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                dirs.push(path);
            } else if is_lock(&path) {
                locks.push(path);
            }
        }
    }
    for lock in locks {
        let _ = fs::remove_file(lock);
    }
}
