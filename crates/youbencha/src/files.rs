//! Writes user-visible files atomically and never through a symbolic link.

use std::fs;
use std::io;
use std::path::{Component, Path};

use yb_engine::atomic_file::{Durability, write_atomic};

use crate::error::{CliError, ErrorKind};

/// Returns whether the path exists, including a dangling link.
pub(crate) fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Writes `relative` below `root` atomically and creates its directories. An existing link is rejected.
pub(crate) fn write(root: &Path, relative: &Path, content: &str) -> Result<(), CliError> {
    write_bytes(root, relative, content.as_bytes(), Durability::Synced)
}

/// Writes bytes like [`write`].
pub(crate) fn write_bytes(
    root: &Path,
    relative: &Path,
    content: &[u8],
    durability: Durability,
) -> Result<(), CliError> {
    let mut at = root.to_owned();
    let mut steps = relative.components().peekable();
    while let Some(step) = steps.next() {
        if !matches!(step, Component::Normal(_)) {
            return Err(CliError::new(
                ErrorKind::Usage,
                format!("path is outside of the directory: `{}`", relative.display()),
            ));
        }
        at.push(step);
        refuse_link(&at)?;
        if steps.peek().is_some() && !at.is_dir() {
            fs::create_dir(&at).map_err(|error| failed("create directory", &at, error))?;
        }
    }
    write_atomic(&at, content, durability).map_err(|error| failed("write", &at, error))
}

/// Rejects a link, which may lead to a file that the user did not name.
pub(crate) fn refuse_link(path: &Path) -> Result<(), CliError> {
    if !path.is_symlink() {
        return Ok(());
    }
    let error = CliError::new(
        ErrorKind::Usage,
        format!("refusing to write through a symbolic link: `{}`", path.display()),
    );
    Err(match path.canonicalize() {
        Ok(target) => error.hint(format!("name its target instead: `{}`", target.display())),
        Err(_) => error.hint("the link is dangling; remove it"),
    })
}

fn failed(what: &str, path: &Path, error: io::Error) -> CliError {
    CliError::new(ErrorKind::Infrastructure, format!("failed to {what}: `{}`", path.display()))
        .caused_by(error)
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn write_keeps_permissions_and_leaves_no_temporary_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a/b");
        write(dir.path(), Path::new("a/b"), "1").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        write(dir.path(), Path::new("a/b"), "2").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "2");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path().join("a")).unwrap().count(), 1);
    }

    #[test]
    fn write_rejects_links_and_paths_outside() {
        let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let target = elsewhere.path().join("file");
        fs::write(&target, "mine").unwrap();
        symlink(&target, dir.path().join("link")).unwrap();
        symlink(elsewhere.path(), dir.path().join("folder")).unwrap();
        for path in ["link", "folder/file", "../up", "/tmp/up"] {
            assert!(write(dir.path(), Path::new(path), "x").is_err(), "{path}");
        }
        assert_eq!(fs::read_to_string(&target).unwrap(), "mine");
    }
}
