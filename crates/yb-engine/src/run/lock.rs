//! One process at a time works on a run; the system lets go of a dead one's lock.

use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::Path;

/// Held until it is dropped.
#[derive(Debug)]
pub struct RunLock {
    _file: File,
}

/// What trying to lock a run came to.
#[derive(Debug)]
#[non_exhaustive]
pub enum Locked {
    /// It is ours.
    Ours(RunLock),
    /// Somebody else works on it.
    Theirs {
        /// Its process, if it said.
        pid: Option<u32>,
    },
}

impl RunLock {
    /// Takes the lock, unless somebody has it.
    ///
    /// # Errors
    /// When the file can't be opened or locked.
    pub fn take(path: &Path) -> io::Result<Locked> {
        let mut file = File::options().create(true).truncate(false).read(true).write(true).open(path)?;
        match file.try_lock() {
            Ok(()) => {
                file.set_len(0)?;
                file.rewind()?;
                write!(file, "{}", std::process::id())?;
                Ok(Locked::Ours(Self { _file: file }))
            }
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                let _ = file.read_to_string(&mut text);
                Ok(Locked::Theirs { pid: text.trim().parse().ok() })
            }
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Whether somebody works on the run now. Looking takes the lock for a moment at most.
    #[must_use]
    pub fn is_held(path: &Path) -> bool {
        File::open(path).is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_told_who_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.lock");
        assert!(!RunLock::is_held(&path));
        let Locked::Ours(first) = RunLock::take(&path).unwrap() else { panic!("nobody has it") };
        assert!(RunLock::is_held(&path));
        let Locked::Theirs { pid } = RunLock::take(&path).unwrap() else { panic!("it is taken") };
        assert_eq!(pid, Some(std::process::id()));
        drop(first);
        assert!(!RunLock::is_held(&path));
        assert!(matches!(RunLock::take(&path).unwrap(), Locked::Ours(_)));
    }
}
