//! Watches the disk usage of directories.

#[cfg(unix)]
mod usage;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::report::End;

/// A set of directories and the number of bytes that they may hold together.
#[derive(Debug, Clone)]
pub(crate) struct Quota {
    directories: Vec<PathBuf>,
    limit: u64,
    /// Usage at the start, which does not count; `None` before the first measurement.
    before: Option<u64>,
}

impl Quota {
    pub(crate) fn new(directory: PathBuf, limit: u64) -> Self {
        Self { directories: vec![directory], limit, before: Some(0) }
    }

    /// Limits the growth since the start.
    pub(crate) fn growth(directories: Vec<PathBuf>, before: Option<u64>, limit: u64) -> Self {
        Self { directories, limit, before }
    }
}

/// Minimum interval between measurements. Slow measurements extend it, so that watching a large tree stays
/// cheap.
const MIN_INTERVAL: Duration = Duration::from_millis(200);
const IDLE_FACTOR: u32 = 10;

/// Returns when a quota is exceeded; never returns if there is none.
pub(crate) async fn exceeded(mut quotas: Vec<Quota>) -> End {
    if quotas.is_empty() {
        std::future::pending::<()>().await;
    }
    // Skip the first measurement for short-lived children.
    if quotas.iter().all(|quota| quota.before.is_some()) {
        tokio::time::sleep(MIN_INTERVAL).await;
    }
    loop {
        let started = Instant::now();
        for quota in &mut quotas {
            let directories = quota.directories.clone();
            let measured = tokio::task::spawn_blocking(move || {
                let used = directories.into_iter().map(|directory| (disk_usage(&directory), directory));
                used.collect::<Vec<_>>()
            });
            let measured = measured.await.unwrap_or_default();
            let now: u64 = measured.iter().map(|(used, _)| used).sum();
            let used = now.saturating_sub(*quota.before.get_or_insert(now));
            if used > quota.limit {
                let directory =
                    measured.into_iter().max_by_key(|(used, _)| *used).map(|(_, directory)| directory);
                let directory = directory.unwrap_or_default();
                return End::OverQuota { directory, used, limit: quota.limit };
            }
        }
        tokio::time::sleep(MIN_INTERVAL.max(started.elapsed() * IDLE_FACTOR)).await;
    }
}

/// Returns the bytes on disk below a directory. Links are not followed; files that vanish during the scan
/// count as zero. Missing permissions are added for the time of the scan.
pub fn disk_usage(directory: &Path) -> u64 {
    #[cfg(unix)]
    return usage::disk_usage(directory);
    #[cfg(not(unix))]
    {
        let mut total = 0;
        let mut open = vec![directory.to_owned()];
        while let Some(directory) = open.pop() {
            let Ok(entries) = std::fs::read_dir(&directory) else { continue };
            for entry in entries.flatten() {
                let Ok(metadata) = entry.metadata() else { continue };
                total += metadata.len();
                if metadata.is_dir() {
                    open.push(entry.path());
                }
            }
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disk_usage_counts_nested_files_but_not_links() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("big"), vec![1; 1 << 20]).unwrap();
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("sub")).unwrap();
        std::fs::write(directory.path().join("sub/file"), vec![1; 64 << 10]).unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(outside.path(), directory.path().join("link")).unwrap();
        let used = disk_usage(directory.path());
        assert!((64 << 10..512 << 10).contains(&used), "{used}");
    }
}
