//! Files that are replaced atomically: a reader sees the old content or the new, never a part.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Whether the content has to survive a crash of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// The content is synced to disk before the rename.
    Synced,
    /// The content can be regenerated, so it is not synced.
    Unsynced,
}

/// Returns a sibling of `path`, `NAME.tmp-PID-N`, that no other process or task uses.
#[must_use]
pub fn temporary_sibling(path: &Path) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".tmp-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
    path.with_file_name(name)
}

/// Replaces a file atomically, keeping the permissions of an existing one; a failed write leaves no temporary file.
///
/// # Errors
/// When the file can't be written or renamed.
pub fn write_atomic(path: &Path, content: &[u8], durability: Durability) -> io::Result<()> {
    write(path, durability, 0o666, |file| file.write_all(content))
}

/// Replaces a file like [`write_atomic`], with what a function writes. Its content need not be in memory.
///
/// # Errors
/// When the function fails, or the file can't be written or renamed.
pub fn write_atomic_with(
    path: &Path,
    durability: Durability,
    content: impl FnOnce(&mut dyn io::Write) -> io::Result<()>,
) -> io::Result<()> {
    write(path, durability, 0o666, |file| {
        let mut buffered = io::BufWriter::with_capacity(64 << 10, file);
        content(&mut buffered)?;
        buffered.flush()
    })
}

/// Replaces a file like [`write_atomic`]; a new file can be read by its owner only.
///
/// # Errors
/// When the file can't be written or renamed.
pub fn write_private(path: &Path, content: &[u8], durability: Durability) -> io::Result<()> {
    write(path, durability, 0o600, |file| file.write_all(content))
}

/// Creates a directory, with its parents, that only its owner can enter.
///
/// # Errors
/// When the directory can't be created.
pub fn create_private_dir(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

fn write(
    path: &Path,
    durability: Durability,
    mode: u32,
    content: impl FnOnce(&mut fs::File) -> io::Result<()>,
) -> io::Result<()> {
    let temporary = temporary_sibling(path);
    let written = || {
        let mut options = fs::File::options();
        options.write(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
        #[cfg(not(unix))]
        let _ = mode;
        // Never through a link that was planted under the temporary name.
        let mut file = options.create_new(true).open(&temporary)?;
        if let Ok(existing) = fs::metadata(path) {
            file.set_permissions(existing.permissions())?;
        }
        content(&mut file)?;
        if durability == Durability::Synced {
            file.sync_data()?;
        }
        fs::rename(&temporary, path)
    };
    written().inspect_err(|_| {
        let _ = fs::remove_file(&temporary);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_atomic_replaces_content_and_leaves_no_temporary_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("results.json");
        for (content, durability) in [("old", Durability::Synced), ("new", Durability::Unsynced)] {
            write_atomic(&path, content.as_bytes(), durability).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn write_atomic_keeps_the_old_file_when_the_rename_fails() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("results.json");
        fs::create_dir(&path).unwrap();
        write_atomic(&path, b"new", Durability::Synced).unwrap_err();
        assert!(path.is_dir());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
