//! Shared checkouts: one work tree per commit in the cache, which the workspaces of many trials are overlays of.
//!
//! Nothing that runs in a trial can write to one. Whether something else did is checked with a digest of the times, sizes and modes
//! of all its files: the kernel changes the change time of a file with every change, and no call sets it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use yb_model::atomic_file::temporary_sibling;
use yb_supervise::OverlayMount;

use super::base_tree::{SteadyClock, is_large};
use super::error::{RepoError, blocking};
use super::files;
use super::git::Git;
use super::lock::FileLock;
use super::mirror::{digest, remove_leftovers};
use super::pruned::PrunedRepo;
use super::workspace::{Objects, UnsupportedFeature, Workspace, WorkspaceOptions};

/// The files of a checkout, and the file that is written last.
const FILES: &str = "files";
const STATE: &str = "state";
/// The directory for changed files in the layer of a workspace.
pub const UPPER_DIR: &str = "upper";
/// The file in the layer of a workspace with the path of the checkout below it.
pub(crate) const LOWER_FILE: &str = "lower";
/// The directory in the layer of a workspace that the kernel needs while the overlay is mounted.
pub const WORK_DIR: &str = "work";
/// A check that is not older is not repeated: it takes as long as a short trial in a large repository.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// A checkout that is shared by all trials that start with it.
#[derive(Debug, Clone)]
pub struct SharedCheckout {
    directory: PathBuf,
    pruned: PrunedRepo,
    /// The digest of the metadata of all files.
    state: Arc<str>,
    checked: Arc<Mutex<LastCheck>>,
    clock: SteadyClock,
}

/// The last check of a checkout.
#[derive(Debug)]
struct LastCheck {
    at: Instant,
    /// Whether a trial ended since then.
    is_outdated: bool,
}

/// Files that are laid over a checkout.
#[derive(Debug, Clone, Copy)]
pub struct LaidFiles<'a, F> {
    /// Identifies the files; empty if there are none.
    pub key: &'a str,
    /// Writes them to the directory of the checkout.
    pub write: F,
}

impl PrunedRepo {
    /// Whether the commit is so large that trials should share a checkout of it.
    #[must_use]
    pub fn is_large(&self) -> bool {
        let bytes = self.listing().iter().filter_map(|file| file.size).sum();
        is_large(self.listing().len(), bytes)
    }

    /// Returns the shared checkout of the commit with files laid over it, and creates it if the cache does not have it, or if it was
    /// changed.
    pub async fn shared_checkout<E, F>(
        &self,
        git: &Git,
        options: &WorkspaceOptions,
        laid: LaidFiles<'_, F>,
    ) -> Result<SharedCheckout, E>
    where
        E: From<RepoError> + Send + 'static,
        F: FnOnce(&Path) -> Result<(), E> + Send + 'static,
    {
        let name = self.path().file_name().unwrap_or_default().to_string_lossy();
        let parent = self.path().ancestors().nth(2).unwrap_or(self.path()).join("checkouts");
        fs::create_dir_all(&parent).map_err(RepoError::io("create the directory", &parent))?;
        let key = format!("{name} {options:?} {}", laid.key);
        let target = parent.join(digest(&key));
        if let Some(found) = SharedCheckout::open(&target, self).await? {
            return Ok(found);
        }
        let _lock = FileLock::acquire(&target.with_extension("lock"), git).await?;
        if let Some(found) = SharedCheckout::open(&target, self).await? {
            return Ok(found);
        }
        let partial = temporary_sibling(&target);
        let (leftover, stale) = (target.clone(), partial.clone());
        blocking(move || {
            remove_leftovers(&leftover)?;
            files::remove_dir(&leftover)?;
            files::remove_dir(&stale)
        })
        .await?;
        let created = self.create_checkout(git, options, &partial, laid.write).await;
        let (from, to) = (partial.clone(), target.clone());
        let moved = match created {
            Ok(()) => blocking(move || fs::rename(&from, &to).map_err(RepoError::io("move", from)))
                .await
                .map_err(E::from),
            Err(error) => Err(error),
        };
        if let Err(error) = moved {
            blocking(move || files::remove_dir(&partial)).await?;
            return Err(error);
        }
        let missing = || RepoError::io("read", &target)(io::ErrorKind::NotFound.into());
        Ok(SharedCheckout::open(&target, self).await?.ok_or_else(missing)?)
    }

    async fn create_checkout<E, F>(
        &self,
        git: &Git,
        options: &WorkspaceOptions,
        partial: &Path,
        write: F,
    ) -> Result<(), E>
    where
        E: From<RepoError> + Send + 'static,
        F: FnOnce(&Path) -> Result<(), E> + Send + 'static,
    {
        let root = partial.join(FILES);
        self.check_out(git, &root, options, Objects::Shared).await?;
        let partial = partial.to_owned();
        let written = blocking(move || {
            if let Err(error) = write(&root) {
                return Ok(Err(error));
            }
            let state = scan(&root).map_err(RepoError::io("read the directory", &root))?;
            fs::write(partial.join(STATE), state).map_err(RepoError::io("write", partial.join(STATE)))?;
            Ok(Ok(()))
        });
        written.await?
    }
}

impl SharedCheckout {
    /// Opens a checkout that is complete and unchanged.
    async fn open(directory: &Path, pruned: &PrunedRepo) -> Result<Option<Self>, RepoError> {
        let (directory, pruned) = (directory.to_owned(), pruned.clone());
        blocking(move || {
            let Ok(state) = fs::read_to_string(directory.join(STATE)) else { return Ok(None) };
            let clock = SteadyClock::start();
            let checked = LastCheck { at: Instant::now(), is_outdated: false };
            let (state, checked) = (Arc::from(state), Arc::new(Mutex::new(checked)));
            let found = Self { directory, pruned, state, checked, clock };
            Ok(found.is_unchanged().then_some(found))
        })
        .await
    }

    /// The directory with the files, which must not be changed.
    #[must_use]
    pub fn files(&self) -> PathBuf {
        self.directory.join(FILES)
    }

    /// Returns the checkout as a workspace in which nothing can run, to capture its tree.
    #[must_use]
    pub fn as_workspace(&self) -> Workspace {
        let nowhere = self.directory.join("nowhere");
        let overlay = OverlayMount::new(self.files(), nowhere.clone(), nowhere.clone(), nowhere.clone());
        self.pruned.opened(nowhere, Vec::new(), self.clock, Some(overlay))
    }

    /// Creates a workspace with these files: an overlay that is mounted wherever a process is started in it. `directory` is where
    /// processes see it, and `layer` is for the files that they change. Both must not exist, or be empty.
    pub async fn workspace(&self, directory: &Path, layer: &Path) -> Result<Workspace, RepoError> {
        let absolute =
            |path: &Path| std::path::absolute(path).map_err(RepoError::io("resolve the path", path));
        let (target, layer) = (absolute(directory)?, absolute(layer)?);
        let overlay = OverlayMount::new(self.files(), layer.join(UPPER_DIR), layer.join(WORK_DIR), target);
        let (created, pruned, lower) = (overlay.clone(), self.pruned.clone(), self.files());
        let unsupported: Vec<UnsupportedFeature> = blocking(move || {
            for directory in [&created.upper, &created.work, &created.target] {
                fs::create_dir_all(directory).map_err(RepoError::io("create the directory", directory))?;
            }
            let record = layer.join(LOWER_FILE);
            fs::write(&record, files::os_str_bytes(created.lower.as_os_str()))
                .map_err(RepoError::io("write", record))?;
            // The kernel shows the mode of the upper layer.
            let mode = fs::metadata(&created.lower).map(|found| found.permissions());
            mode.and_then(|mode| fs::set_permissions(&created.upper, mode))
                .map_err(RepoError::io("set the mode of", &created.upper))?;
            Ok(pruned.unsupported(&lower))
        })
        .await?;
        Ok(self.pruned.opened(overlay.target.clone(), unsupported, self.clock, Some(overlay)))
    }

    /// Creates a workspace with copies of these files in a directory that is empty or does not exist.
    pub async fn copied_workspace(&self, git: &Git, directory: &Path) -> Result<Workspace, RepoError> {
        let target = std::path::absolute(directory).map_err(RepoError::io("resolve the path", directory))?;
        let (pruned, from, to) = (self.pruned.clone(), self.files(), target.clone());
        let (unsupported, has_index) = blocking(move || {
            files::copy_work_tree(&from, &to)?;
            let has_index = refresh_index(&to)?;
            Ok((pruned.unsupported(&from), has_index))
        })
        .await?;
        if !has_index {
            let command = git.command("update-index").git_dir(&target.join(".git")).work_tree(&target);
            command.args(["-q", "--refresh"]).bytes().await?;
        }
        Ok(self.pruned.opened(target, unsupported, self.clock, None))
    }

    /// Checks after a trial that the files were not changed since they were checked out, unless that was checked a few seconds ago.
    pub async fn check(&self) -> Result<(), RepoError> {
        self.last_check().is_outdated = true;
        if self.last_check().at.elapsed() < CHECK_INTERVAL { Ok(()) } else { self.check_now().await }
    }

    /// Checks that the files were not changed since they were checked out, unless no trial ended since the last check.
    pub async fn check_now(&self) -> Result<(), RepoError> {
        if !self.last_check().is_outdated {
            return Ok(());
        }
        let this = self.clone();
        blocking(move || {
            let mut last = this.last_check();
            if last.is_outdated && !this.is_unchanged() {
                return Err(RepoError::CheckoutChanged { path: this.files() });
            }
            *last = LastCheck { at: Instant::now(), is_outdated: false };
            Ok(())
        })
        .await
    }

    fn last_check(&self) -> MutexGuard<'_, LastCheck> {
        self.checked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_unchanged(&self) -> bool {
        scan(&self.files()).is_ok_and(|found| *found == *self.state)
    }
}

/// Updates the index of a copied work tree. Returns whether that was possible.
#[cfg(unix)]
fn refresh_index(root: &Path) -> Result<bool, RepoError> {
    let path = root.join(".git/index");
    let index = fs::read(&path).map_err(RepoError::io("read", &path))?;
    let Some(updated) = super::index_file::with_metadata_of(&index, root) else { return Ok(false) };
    fs::write(&path, updated).map_err(RepoError::io("write", &path))?;
    Ok(true)
}

#[cfg(not(unix))]
fn refresh_index(_: &Path) -> Result<bool, RepoError> {
    Ok(false)
}

/// Returns a digest of the metadata of all files and directories.
#[cfg(unix)]
fn scan(root: &Path) -> io::Result<String> {
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::MetadataExt as _;
    let owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let mut hasher = blake3::Hasher::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(directory) = waiting.pop() {
        let mut found = Vec::new();
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            found.push((entry.file_name(), entry.metadata()?));
        }
        found.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        for (name, metadata) in found {
            // Such files can't be changed in an overlay: it has a single user.
            if (metadata.uid(), metadata.gid()) != owner {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            hasher.update(&(name.len() as u64).to_le_bytes()).update(name.as_bytes());
            hasher.update(&metadata.mode().to_le_bytes()).update(&metadata.ino().to_le_bytes());
            // A new hard link to a pack changes its change time.
            let is_linked = metadata.is_file() && metadata.nlink() > 1;
            let changed = if is_linked { (0, 0) } else { (metadata.ctime(), metadata.ctime_nsec()) };
            let times = [metadata.mtime(), metadata.mtime_nsec(), changed.0, changed.1];
            for time in times {
                hasher.update(&time.to_le_bytes());
            }
            hasher.update(&metadata.size().to_le_bytes());
            if metadata.is_dir() {
                waiting.push(directory.join(name));
            }
        }
        hasher.update(b"end");
    }
    Ok(hasher.finalize().to_hex().to_string())
}

/// Overlays exist on Linux only.
#[cfg(not(unix))]
fn scan(_: &Path) -> io::Result<String> {
    Err(io::ErrorKind::Unsupported.into())
}
