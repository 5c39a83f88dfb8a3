//! Locks of cache entries, between tasks and between processes; the system lets go of a dead process's.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::Duration;

use super::error::{GitError, RepoError};
use super::git::Git;

const PAUSE: Duration = Duration::from_millis(15);

/// Held until it is dropped.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Waits for the lock as long as a git command might take, and no longer than the caller wants.
    pub async fn take(path: &Path, git: &Git) -> Result<Self, RepoError> {
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
                // Counted in steps: the time in which everything is paused does not count.
                () = tokio::time::sleep(PAUSE) => {
                    if !git.pause.is_paused() {
                        waited += PAUSE;
                    }
                }
                () = git.cancel.cancelled() => {
                    return Err(GitError::Cancelled { command: "fetch".to_owned() }.into());
                }
            }
        }
    }
}
