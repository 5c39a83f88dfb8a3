//! Watches how much a child leaves in a directory.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::report::End;

/// A directory and how many bytes it may hold.
#[derive(Debug, Clone)]
pub(crate) struct Quota {
    pub(crate) directory: PathBuf,
    pub(crate) limit: u64,
}

/// How often to look, at the most; a large tree is looked at less often, so that watching stays cheap.
const INTERVAL: Duration = Duration::from_millis(200);
const SHARE_OF_TIME: u32 = 10;

/// Returns when a quota is exceeded; never, if there is none.
pub(crate) async fn exceeded(quotas: &[Quota]) -> End {
    if quotas.is_empty() {
        std::future::pending::<()>().await;
    }
    loop {
        let began = Instant::now();
        for quota in quotas {
            let directory = quota.directory.clone();
            let used = tokio::task::spawn_blocking(move || disk_usage(&directory)).await.unwrap_or(0);
            if used > quota.limit {
                return End::OverQuota { directory: quota.directory.clone(), used, limit: quota.limit };
            }
        }
        tokio::time::sleep(INTERVAL.max(began.elapsed() * SHARE_OF_TIME)).await;
    }
}

/// Bytes on disk below a directory; links are not followed, and what vanishes meanwhile counts nothing.
fn disk_usage(directory: &Path) -> u64 {
    let mut total = 0;
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        let Ok(entries) = std::fs::read_dir(&directory) else { continue };
        for entry in entries.flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            total += allocated(&metadata);
            if metadata.is_dir() {
                open.push(entry.path());
            }
        }
    }
    total
}

#[cfg(unix)]
fn allocated(metadata: &std::fs::Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt;
    metadata.blocks() * 512
}

#[cfg(not(unix))]
fn allocated(metadata: &std::fs::Metadata) -> u64 {
    metadata.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_below_count_and_links_do_not() {
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
