//! Base trees: trees in the store that a directory is compared with, so that only files that may have changed are read.
//!
//! A file counts as unchanged if its [`Stamp`] is the one that was recorded while its content was known. The kernel sets the change
//! time of a file whenever its content or its attributes change, and no call sets it to a given value. All other files are read.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use yb_model::atomic_file::temporary_sibling;

use super::files::path_from_bytes;

/// Trees with fewer files and fewer bytes are read completely: that takes no longer.
const MIN_FILES: usize = 1000;
const MIN_BYTES: u64 = 8 << 20;

/// By how much the clock of the system and the monotonic clock may disagree, and the inverse of their largest difference in speed.
const MAX_CLOCK_DRIFT: Duration = Duration::from_secs(1);
const CLOCK_SLEW: u32 = 1000;

/// How long to wait until the file system gives files a later change time.
const MAX_WAIT: Duration = Duration::from_millis(50);

/// Whether a tree is large enough to be compared with a base tree.
pub(crate) fn is_large(files: usize, bytes: u64) -> bool {
    cfg!(target_os = "linux") && (files >= MIN_FILES || bytes >= MIN_BYTES)
}

/// The identity of a regular file and of its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    mode: u32,
    size: u64,
    modified: (i64, i64),
    pub(crate) changed: (i64, i64),
}

impl Stamp {
    /// Returns the stamp of a regular file without holes. Whether sparse files are kept depends on the other files.
    #[cfg(unix)]
    pub(crate) fn of(metadata: &Metadata) -> Option<Self> {
        use std::os::unix::fs::MetadataExt as _;
        let is_sparse = metadata.blocks().saturating_mul(512) < metadata.len() && metadata.len() > 4096;
        (metadata.is_file() && !is_sparse).then(|| Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            mode: metadata.mode(),
            size: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }

    #[cfg(not(unix))]
    pub(crate) fn of(_: &Metadata) -> Option<Self> {
        None
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Whether the owner may execute the file.
    pub(crate) fn is_executable(&self) -> bool {
        self.mode & 0o100 != 0
    }
}

/// All paths of a tree, with the stamps of the files whose content is known to be that of the tree.
pub(crate) type Stamps = BTreeMap<Vec<u8>, Option<Stamp>>;

/// A tree in the store, and which files of a directory are known to be equal to it.
#[derive(Debug, Clone)]
pub(crate) struct BaseTree {
    pub(crate) tree: String,
    pub(crate) files: Arc<Stamps>,
}

impl BaseTree {
    /// Whether a file is known to have the mode and content that it has in the tree.
    pub(crate) fn contains(&self, path: &[u8], metadata: &Metadata) -> bool {
        matches!(self.files.get(path), Some(Some(known)) if Stamp::of(metadata) == Some(*known))
    }
}

/// The stamps of the files of a start tree in one workspace, recorded before the agent.
#[derive(Debug, Clone)]
pub struct FileStamps {
    files: Arc<Stamps>,
    clock: SteadyClock,
}

impl FileStamps {
    /// Records the files of a tree. Returns `None` if a later change might not be recognized: a file was changed so recently that the
    /// file system would give a change the same time.
    pub(crate) fn record<'a>(
        root: &Path,
        paths: impl Iterator<Item = &'a Vec<u8>>,
        max_file_bytes: u64,
    ) -> Option<Self> {
        let clock = SteadyClock::start();
        let device = Stamp::of(&fs::symlink_metadata(probe(root)?.path()).ok()?)?.device;
        let mut files = Stamps::new();
        let mut latest = (i64::MIN, 0);
        for path in paths {
            let found = fs::symlink_metadata(root.join(path_from_bytes(path))).ok();
            let stamp = found.as_ref().and_then(Stamp::of);
            // A file that is replaced by a placeholder is reported each time.
            let stamp = stamp.filter(|stamp| stamp.device == device && stamp.size <= max_file_bytes);
            latest = latest.max(stamp.map_or(latest, |stamp| stamp.changed));
            files.insert(path.clone(), stamp);
        }
        wait_for_later_times(root, latest).then(|| Self { files: Arc::new(files), clock })
    }

    /// Returns the base for a capture, unless the clock was set in between.
    pub(crate) fn base(&self, tree: &str) -> Option<BaseTree> {
        self.clock.is_steady().then(|| BaseTree { tree: tree.to_owned(), files: Arc::clone(&self.files) })
    }
}

/// Waits until the file system gives changed files a later time than `latest`; returns false if that takes too long.
fn wait_for_later_times(root: &Path, latest: (i64, i64)) -> bool {
    let began = Instant::now();
    loop {
        let Some(probe) = probe(root) else { return false };
        let now = fs::symlink_metadata(probe.path()).ok().and_then(|file| Stamp::of(&file));
        match now {
            Some(now) if now.changed > latest => return true,
            Some(_) if began.elapsed() < MAX_WAIT => std::thread::sleep(Duration::from_millis(1)),
            _ => return false,
        }
    }
}

/// A new file beside a directory, which is removed when dropped.
struct Probe(std::path::PathBuf);

impl Probe {
    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn probe(root: &Path) -> Option<Probe> {
    let path = temporary_sibling(root);
    fs::OpenOptions::new().write(true).create_new(true).open(&path).ok()?;
    Some(Probe(path))
}

/// Recognizes that the clock of the system was set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SteadyClock {
    system: SystemTime,
    monotonic: Instant,
}

impl SteadyClock {
    pub(crate) fn start() -> Self {
        Self { system: SystemTime::now(), monotonic: Instant::now() }
    }

    /// Whether both clocks have advanced by the same time.
    pub(crate) fn is_steady(&self) -> bool {
        let elapsed = self.monotonic.elapsed();
        let tolerance = MAX_CLOCK_DRIFT + elapsed / CLOCK_SLEW;
        SystemTime::now()
            .duration_since(self.system)
            .is_ok_and(|passed| passed.abs_diff(elapsed) <= tolerance)
    }
}

/// Whether the file system of a directory changes the times of a file with every change of its content, whatever an unprivileged
/// program does. Ext4 does, except for the `ioctl` that exchanges blocks of two files, which sandboxes deny. Tmpfs does not if a file
/// is changed through shared memory, and XFS has more such calls.
#[cfg(target_os = "linux")]
pub fn has_reliable_change_times(directory: &Path) -> bool {
    /// `EXT4_SUPER_MAGIC`.
    const EXT4: rustix::fs::FsWord = 0xef53;
    rustix::fs::statfs(directory).is_ok_and(|found| found.f_type == EXT4)
}

/// Whether the file system of a directory changes the times of a file with every change of its content; not known here.
#[cfg(not(target_os = "linux"))]
pub fn has_reliable_change_times(_: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steady_clock_recognizes_that_the_clock_was_set() {
        let now = SteadyClock::start();
        assert!(now.is_steady());
        for hour in [now.system - Duration::from_secs(3600), now.system + Duration::from_secs(3600)] {
            assert!(!SteadyClock { system: hour, ..now }.is_steady());
        }
    }

    #[test]
    fn files_from_the_future_are_never_taken_for_unchanged() {
        let dir = tempfile::tempdir().unwrap();
        let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let seconds = i64::try_from(time.as_secs()).unwrap();
        assert!(wait_for_later_times(&dir.path().join("ws"), (seconds - 1, 0)));
        assert!(!wait_for_later_times(&dir.path().join("ws"), (seconds + 1000, 0)));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
