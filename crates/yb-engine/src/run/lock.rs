//! The lock of a run: one process at a time executes it. The system releases the lock of a dead process.

use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::Path;

/// An exclusive lock on a run, released when dropped.
#[derive(Debug)]
pub struct RunLock {
    _file: File,
}

/// The result of trying to lock a run.
#[derive(Debug)]
#[non_exhaustive]
pub enum LockAttempt {
    /// The lock was acquired.
    Acquired(RunLock),
    /// Another process holds the lock.
    InUse {
        /// The id of that process, if known.
        pid: Option<u32>,
    },
}

impl RunLock {
    /// Tries to acquire the lock without blocking.
    ///
    /// # Errors
    /// Returns an error when the file can't be opened or locked.
    pub fn try_acquire(path: &Path) -> io::Result<LockAttempt> {
        let mut file = File::options().create(true).truncate(false).read(true).write(true).open(path)?;
        match file.try_lock() {
            Ok(()) => {
                file.set_len(0)?;
                file.rewind()?;
                write!(file, "{}", std::process::id())?;
                Ok(LockAttempt::Acquired(Self { _file: file }))
            }
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                let _ = file.read_to_string(&mut text);
                Ok(LockAttempt::InUse { pid: text.trim().parse().ok() })
            }
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Whether another process holds the lock. The check itself may hold it for a moment.
    #[must_use]
    pub fn is_held(path: &Path) -> bool {
        File::open(path).is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_lock_attempt_reports_the_holder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.lock");
        assert!(!RunLock::is_held(&path));
        let LockAttempt::Acquired(first) = RunLock::try_acquire(&path).unwrap() else {
            panic!("the lock is free")
        };
        assert!(RunLock::is_held(&path));
        let LockAttempt::InUse { pid } = RunLock::try_acquire(&path).unwrap() else {
            panic!("the lock is held")
        };
        assert_eq!(pid, Some(std::process::id()));
        drop(first);
        assert!(!RunLock::is_held(&path));
        assert!(matches!(RunLock::try_acquire(&path).unwrap(), LockAttempt::Acquired(_)));
    }
}
