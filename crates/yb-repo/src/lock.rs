//! File locks between tasks and processes; the system releases those of a dead process.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::Duration;

use super::error::{GitError, RepoError};
use super::git::Git;

const POLL_INTERVAL: Duration = Duration::from_millis(15);

/// An exclusive file lock, held until it is dropped.
#[derive(Debug)]
pub struct FileLock {
    _file: File,
}

impl FileLock {
    /// Acquires the lock, with the timeout and the cancellation token of `git`.
    pub async fn acquire(path: &Path, git: &Git) -> Result<Self, RepoError> {
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path)
            .map_err(RepoError::io("open the lock", path))?;
        let mut waited = Duration::ZERO;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self { _file: file }),
                Err(TryLockError::Error(error)) => return Err(RepoError::io("lock", path)(error)),
                Err(TryLockError::WouldBlock) => {}
            }
            if !git.deadline.is_zero() && waited > git.deadline {
                return Err(RepoError::Locked { path: path.to_owned(), after: waited });
            }
            tokio::select! {
                // Time while everything is paused does not count.
                () = tokio::time::sleep(POLL_INTERVAL) => {
                    if !git.pause.is_paused() {
                        waited += POLL_INTERVAL;
                    }
                }
                () = git.cancel.cancelled() => {
                    return Err(GitError::Cancelled { command: "fetch".to_owned() }.into());
                }
            }
        }
    }
}
