//! Overlays: a directory of a sandbox that shows a shared directory, and keeps all changes to it in a directory of its own.
//!
//! The child of the shim mounts it in a user and mount namespace of its own, right before it executes `bwrap`, which binds
//! it into the view. So the mount is visible to nothing else, and ends with the last process.

use std::path::{Component, Path, PathBuf};

use crate::command::{Command, Launch};
use crate::sandbox::{Sandbox, SandboxUnavailable};

/// The attribute of a directory that hides the one below it.
#[cfg(target_os = "linux")]
const OPAQUE: &str = "user.overlay.opaque";
/// What the probe does to the layers that it creates.
const PROBE_SCRIPT: &str = "rm file && rm -r dir && mkdir dir && echo new > dir/new";

/// An overlay of two directories. All paths are absolute. Files of both layers must belong to the current user and group.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OverlayMount {
    /// The directory that is never changed. Several overlays can share it.
    pub lower: PathBuf,
    /// Further directories below it that are never changed, from the top.
    pub below: Vec<PathBuf>,
    /// The directory that gets all changes. It must not be visible in the sandbox.
    pub upper: PathBuf,
    /// A directory on the same file system as `upper`, for files that the kernel needs while mounted. Each mount creates a
    /// directory in it.
    pub work: PathBuf,
    /// An empty directory: where the sandbox sees the overlay, and where other processes see nothing.
    pub target: PathBuf,
}

impl OverlayMount {
    /// Returns an overlay. It is mounted by [`Sandbox::overlay`].
    pub fn new(
        lower: impl Into<PathBuf>,
        upper: impl Into<PathBuf>,
        work: impl Into<PathBuf>,
        target: impl Into<PathBuf>,
    ) -> Self {
        Self {
            lower: lower.into(),
            below: Vec::new(),
            upper: upper.into(),
            work: work.into(),
            target: target.into(),
        }
    }

    /// Puts the overlay above further directories, from the top.
    #[must_use]
    pub fn above(mut self, below: Vec<PathBuf>) -> Self {
        self.below = below;
        self
    }

    /// Returns the file of a layer that is visible at a path of the overlay. Links are not followed. Returns `None` if there
    /// is none, or if the path is outside of the overlay.
    #[must_use]
    pub fn resolve(&self, path: &Path) -> Option<PathBuf> {
        let relative = path.strip_prefix(&self.target).ok()?;
        if relative.components().any(|part| !matches!(part, Component::Normal(_))) {
            return None;
        }
        // The directories of the layers that are merged at the current component, from the top.
        let mut layers: Vec<PathBuf> =
            [&self.upper, &self.lower].into_iter().chain(&self.below).cloned().collect();
        for component in relative.components() {
            let mut found = Vec::new();
            for path in layers.iter().map(|layer| layer.join(component)) {
                match path.symlink_metadata() {
                    Err(_) => {}
                    Ok(entry) if is_whiteout(&entry) => break,
                    Ok(entry) if entry.is_dir() => {
                        let is_opaque = is_opaque_dir(&path);
                        found.push(path);
                        if is_opaque {
                            break;
                        }
                    }
                    Ok(_) => {
                        // A file hides everything below it, and is hidden by a directory above it.
                        if found.is_empty() {
                            found.push(path);
                        }
                        break;
                    }
                }
            }
            layers = found;
        }
        layers.into_iter().next()
    }

    /// Mounts the overlay in the mount namespace of the calling process.
    #[cfg(target_os = "linux")]
    fn mount(&self, id: &str) -> std::io::Result<()> {
        use rustix::fs::{Mode, OFlags, open};
        use std::fmt::Write as _;
        use std::os::fd::AsRawFd as _;
        // A new directory each time: the kernel rejects that of a volatile mount that has ended.
        let work = self.work.join(id);
        std::fs::create_dir(&work)?;
        let open = |path: &Path| {
            open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
        };
        let (upper, work) = (open(&self.upper)?, open(&work)?);
        let layers = [&self.lower].into_iter().chain(&self.below);
        let lower = layers.map(|layer| open(layer)).collect::<Result<Vec<_>, _>>()?;
        // Descriptors, because paths would have to be escaped, and are shown in the sandbox.
        let mut options = "lowerdir=".to_owned();
        for (at, layer) in lower.iter().enumerate() {
            let separator = if at == 0 { "" } else { ":" };
            let _ = write!(options, "{separator}/proc/self/fd/{}", layer.as_raw_fd());
        }
        let _ = write!(
            options,
            ",upperdir=/proc/self/fd/{},workdir=/proc/self/fd/{},userxattr,volatile,index=off",
            upper.as_raw_fd(),
            work.as_raw_fd()
        );
        crate::sys::mount_overlay(&self.target, &options)
    }

    /// Checks whether this machine can mount overlays with layers in these directories, by mounting one.
    ///
    /// # Errors
    /// Returns the reason and a fix.
    pub async fn probe(lower: &Path, upper: &Path, shim: Option<&Path>) -> Result<(), SandboxUnavailable> {
        if !cfg!(target_os = "linux") {
            return Err(SandboxUnavailable::new("overlays need Linux", "use copies"));
        }
        Sandbox::probe()?;
        let name = format!(".overlay-probe-{}", crate::plan::unique_id());
        let (lower, upper) = (lower.join(&name), upper.join(format!("{name}-upper")));
        let result = Self::try_out(&lower, &upper, shim).await;
        for directory in [&lower, &upper] {
            open_up(&directory.join("work"));
            let _ = std::fs::remove_dir_all(directory);
        }
        result.map_err(|reason| {
            let fix =
                "Linux 5.11 or newer, with user namespaces, and layers on a file system like ext4 or xfs";
            SandboxUnavailable::new(format!("overlays can't be mounted: {reason}"), fix)
        })
    }

    async fn try_out(lower: &Path, upper: &Path, shim: Option<&Path>) -> Result<(), String> {
        let overlay = Self::new(lower, upper.join("upper"), upper.join("work"), upper.join("target"));
        let create = || {
            std::fs::create_dir_all(lower.join("dir"))?;
            std::fs::write(lower.join("file"), "")?;
            std::fs::write(lower.join("dir/file"), "")?;
            [&overlay.upper, &overlay.work, &overlay.target].into_iter().try_for_each(std::fs::create_dir_all)
        };
        create().map_err(|error| error.to_string())?;
        let changes = overlay.upper.clone();
        let mut command = Command::new("/bin/sh")
            .args(["-c", PROBE_SCRIPT])
            .current_dir(&overlay.target)
            .launch(Launch::Contained)
            .sandbox(Sandbox::new().overlay(overlay));
        if let Some(shim) = shim {
            command = command.shim(shim);
        }
        let report = command.run().await;
        if !report.success() {
            return Err(report.end.to_string());
        }
        let is_removed = changes.join("file").symlink_metadata().is_ok_and(|found| is_whiteout(&found));
        if is_removed && is_opaque_dir(&changes.join("dir")) && changes.join("dir/new").is_file() {
            Ok(())
        } else {
            Err("the changes are not in the upper layer".to_owned())
        }
    }
}

/// Mounts overlays in new namespaces of the calling process, which must have a single thread.
#[cfg(target_os = "linux")]
pub(crate) fn mount_overlays(overlays: &[OverlayMount], id: &str) -> std::io::Result<()> {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    crate::sys::unshare_mounts()?;
    // Files of other users have no owner in the namespace, and can't be changed.
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    std::fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    overlays.iter().enumerate().try_for_each(|(at, overlay)| overlay.mount(&format!("{id}-{at}")))
}

/// Lets the directories that the kernel created with mode 000 be removed. Other processes must not be using them.
fn open_up(work: &Path) {
    #[cfg(unix)]
    for entry in std::fs::read_dir(work).into_iter().flatten().flatten() {
        use std::os::unix::fs::PermissionsExt as _;
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let _ = std::fs::set_permissions(entry.path(), std::fs::Permissions::from_mode(0o700));
            open_up(&entry.path());
        }
    }
    #[cfg(not(unix))]
    let _ = work;
}

/// Returns whether an entry of an upper layer says that there is none.
#[cfg(unix)]
#[must_use]
pub fn is_whiteout(metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
    metadata.file_type().is_char_device() && metadata.rdev() == 0
}

/// Returns whether an entry of an upper layer says that there is none.
#[cfg(not(unix))]
#[must_use]
pub fn is_whiteout(_: &std::fs::Metadata) -> bool {
    false
}

/// Returns whether a directory of an upper layer hides the one below it.
#[cfg(target_os = "linux")]
#[must_use]
pub fn is_opaque_dir(directory: &Path) -> bool {
    let mut value = [0u8; 2];
    rustix::fs::lgetxattr(directory, OPAQUE, &mut value).is_ok_and(|length| value.get(..length) == Some(b"y"))
}

/// Returns whether a directory of an upper layer hides the one below it.
#[cfg(not(target_os = "linux"))]
#[must_use]
pub fn is_opaque_dir(_: &Path) -> bool {
    false
}
