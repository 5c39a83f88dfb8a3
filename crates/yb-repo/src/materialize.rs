//! Writes the files of a workspace that was an overlay to a directory, for people and programs outside of a sandbox.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use yb_model::atomic_file::temporary_sibling;
use yb_supervise::{is_opaque_dir, is_whiteout};

use super::checkout::{LOWER_FILE, UPPER_DIR};
use super::error::RepoError;
use super::files;
use super::remove::remove_tree;
use super::tree::copy_tree;

/// Returns the directory with the changed files of a workspace, if `layer` is that of an overlay.
#[must_use]
pub fn changed_files(layer: &Path) -> Option<PathBuf> {
    let upper = layer.join(UPPER_DIR);
    (layer.join(LOWER_FILE).is_file() && upper.is_dir()).then_some(upper)
}

/// Writes all files of a workspace to a directory that does not exist. `layer` has what was changed.
pub fn materialize(layer: &Path, target: &Path) -> Result<(), RepoError> {
    let record = layer.join(LOWER_FILE);
    let lower = fs::read(&record).map_err(RepoError::io("read", &record))?;
    let lower = files::path_from_bytes(&lower);
    if !lower.is_dir() {
        return Err(RepoError::CheckoutGone { path: lower });
    }
    let partial = temporary_sibling(target);
    let written = copy_tree(&lower, &partial)
        .and_then(|()| merge(&layer.join(UPPER_DIR), &partial))
        .and_then(|()| fs::rename(&partial, target));
    written.map_err(|error| {
        let _ = remove_tree(&partial);
        RepoError::io("write", target)(error)
    })
}

/// Applies an upper layer to a directory. No link is followed, because every parent is made a directory first.
fn merge(upper: &Path, target: &Path) -> io::Result<()> {
    let mut waiting = vec![(upper.to_owned(), target.to_owned())];
    while let Some((upper, target)) = waiting.pop() {
        for entry in fs::read_dir(&upper)? {
            let entry = entry?;
            let (source, target) = (entry.path(), target.join(entry.file_name()));
            let metadata = entry.metadata()?;
            let is_merged = metadata.is_dir()
                && !is_opaque_dir(&source)
                && fs::symlink_metadata(&target).is_ok_and(|found| found.is_dir());
            if !is_merged {
                remove_tree(&target)?;
            }
            if is_whiteout(&metadata) {
                continue;
            }
            if metadata.is_dir() {
                if !is_merged {
                    fs::create_dir(&target)?;
                }
                fs::set_permissions(&target, readable(&metadata))?;
                waiting.push((source, target));
            } else if metadata.is_file() {
                fs::copy(&source, &target)?;
            } else if metadata.is_symlink() {
                #[cfg(unix)]
                std::os::unix::fs::symlink(fs::read_link(&source)?, &target)?;
            }
        }
    }
    Ok(())
}

/// The mode of a directory, with which its owner can list and change it.
fn readable(metadata: &fs::Metadata) -> fs::Permissions {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        fs::Permissions::from_mode(metadata.permissions().mode() | 0o700)
    }
    #[cfg(not(unix))]
    metadata.permissions()
}
