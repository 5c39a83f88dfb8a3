//! Files referenced by a case. They must be below the directory of the case, also after symbolic links are resolved.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};

/// Why a path is refused by its text alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// It is empty.
    #[error("the path is empty")]
    Empty,
    /// It is absolute.
    #[error("the path is absolute")]
    Absolute,
    /// It contains `..`.
    #[error("the path contains `..`")]
    Parent,
    /// It contains a control character.
    #[error("the path contains a control character")]
    Control,
}

/// Parses a path that can't lead out of the directory that it starts from, by its text alone.
///
/// # Errors
/// When it is empty, absolute, or contains `..` or a control character.
pub fn relative(text: &str) -> Result<PathBuf, PathError> {
    if text.trim().is_empty() {
        return Err(PathError::Empty);
    }
    if text.chars().any(char::is_control) {
        return Err(PathError::Control);
    }
    let drive = text.as_bytes().get(1) == Some(&b':') && text.starts_with(|c: char| c.is_ascii_alphabetic());
    if drive || text.starts_with(['/', '\\', '~']) {
        return Err(PathError::Absolute);
    }
    if text.split(['/', '\\']).any(|part| part == "..") {
        return Err(PathError::Parent);
    }
    let plain = Path::new(text).components().filter(|part| !matches!(part, Component::CurDir));
    let path: PathBuf = plain.collect();
    if path.as_os_str().is_empty() { Err(PathError::Empty) } else { Ok(path) }
}

/// Why a file that a case names can't be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The path is not allowed.
    #[error("{0}")]
    Bad(#[from] PathError),
    /// There is no such file.
    #[error("no such file")]
    Missing,
    /// A symbolic link leads out of the directory.
    #[error("a symbolic link leads out of the directory")]
    Outside,
    /// It is a directory, a pipe or a device.
    #[error("not a file")]
    NotAFile,
    /// It is not a directory.
    #[error("not a directory")]
    NotADirectory,
    /// A directory contains a symbolic link.
    #[error("a symbolic link: `{0}`")]
    Link(String),
    /// A directory contains a file with a name that is not allowed.
    #[error("invalid file name: `{0}`")]
    Name(String),
    /// It exceeds the limit.
    #[error("the file is too large")]
    TooLarge,
    /// It can't be read.
    #[error("{0}")]
    Io(io::Error),
}

/// Finds a file below a directory, and resolves symbolic links.
pub(crate) fn find(root: &Path, text: &str) -> Result<PathBuf, FileError> {
    let path = relative(text)?;
    let root = root.canonicalize().map_err(FileError::Io)?;
    let path = root.join(path).canonicalize().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => FileError::Missing,
        _ => FileError::Io(error),
    })?;
    if path.starts_with(&root) { Ok(path) } else { Err(FileError::Outside) }
}

/// Reads a regular file up to a limit. Pipes and devices are not opened.
pub(crate) fn read(path: &Path, limit: usize) -> Result<Vec<u8>, FileError> {
    let missing = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => FileError::Missing,
        _ => FileError::Io(error),
    };
    if !fs::metadata(path).map_err(missing)?.is_file() {
        return Err(FileError::NotAFile);
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(missing)?;
    file.take(limit as u64 + 1).read_to_end(&mut bytes).map_err(FileError::Io)?;
    if bytes.len() > limit {
        return Err(FileError::TooLarge);
    }
    READ.with_borrow_mut(|recordings| {
        for recording in recordings {
            recording.push((path.to_owned(), blake3::hash(&bytes).to_hex().to_string()));
        }
    });
    Ok(bytes)
}

/// Reads a file, or all files of a directory, for the recording, and returns the number of bytes. Symbolic links are skipped.
pub(crate) fn read_all(path: &Path, limit: usize) -> Result<usize, FileError> {
    let kind = fs::symlink_metadata(path).map_err(FileError::Io)?;
    if !kind.is_dir() {
        return read(path, limit).map(|bytes| bytes.len());
    }
    let mut entries: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(path).map_err(FileError::Io)? {
        entries.push(entry.map_err(FileError::Io)?.path());
    }
    entries.sort();
    let mut total = 0;
    for entry in entries {
        let kind = fs::symlink_metadata(&entry).map_err(FileError::Io)?;
        if kind.is_dir() || kind.is_file() {
            total += read_all(&entry, limit - total)?;
        }
    }
    Ok(total)
}

/// Files that were read, each with its digest.
pub(crate) type Recording = Vec<(PathBuf, String)>;

thread_local! {
    // A thread-local instead of a parameter, so that no reader can forget to record a file.
    static READ: RefCell<Vec<Recording>> = const { RefCell::new(Vec::new()) };
}

/// Runs a reader and returns its result with all files that it read.
pub(crate) fn recorded<T>(reader: impl FnOnce() -> T) -> (T, Recording) {
    /// Ends the recording, also on panic.
    struct RecordingGuard;
    impl Drop for RecordingGuard {
        fn drop(&mut self) {
            READ.with_borrow_mut(Vec::pop);
        }
    }
    READ.with_borrow_mut(|recordings| recordings.push(Recording::new()));
    let guard = RecordingGuard;
    let result = reader();
    let recording = READ.with_borrow_mut(|recordings| recordings.last_mut().map(std::mem::take));
    drop(guard);
    (result, recording.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{FileError, PathError, find, read, relative};

    #[test]
    fn c5_relative_rejects_paths_out_of_the_directory() {
        assert_eq!(relative("./prompts/task.md"), Ok(PathBuf::from("prompts/task.md")));
        assert_eq!(relative("a/./b..c/.d"), Ok(PathBuf::from("a/b..c/.d")));
        for (text, bad) in [
            ("", PathError::Empty),
            (".", PathError::Empty),
            ("/etc/passwd", PathError::Absolute),
            ("C:\\x", PathError::Absolute),
            ("c:x", PathError::Absolute),
            ("\\\\host\\share", PathError::Absolute),
            ("~/x", PathError::Absolute),
            ("../x", PathError::Parent),
            ("a/../../x", PathError::Parent),
            ("a\\..\\x", PathError::Parent),
            ("a\0b", PathError::Control),
            ("a\nb", PathError::Control),
        ] {
            assert_eq!(relative(text), Err(bad), "{text:?}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn c5_find_rejects_links_out_of_the_directory() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("case");
        std::fs::create_dir_all(root.join("sub")).unwrap();
        std::fs::write(dir.path().join("secret"), "x").unwrap();
        std::fs::write(root.join("sub/in"), "x").unwrap();
        std::os::unix::fs::symlink(dir.path().join("secret"), root.join("out")).unwrap();
        std::os::unix::fs::symlink(dir.path(), root.join("up")).unwrap();
        std::os::unix::fs::symlink("sub/in", root.join("inside")).unwrap();
        assert!(matches!(find(&root, "out"), Err(FileError::Outside)));
        assert!(matches!(find(&root, "up/secret"), Err(FileError::Outside)));
        assert!(matches!(find(&root, "none"), Err(FileError::Missing)));
        assert!(matches!(find(&root, "sub/in/none"), Err(FileError::Missing)));
        assert_eq!(find(&root, "inside").unwrap(), root.canonicalize().unwrap().join("sub/in"));
        assert!(matches!(read(&root.join("sub"), 10), Err(FileError::NotAFile)));
        assert!(matches!(read(&root.join("sub/in"), 0), Err(FileError::TooLarge)));
    }
}
