//! Walks a work tree as plain files: without git or attributes, and without following links.

use std::collections::BTreeSet;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::capture::{CaptureLimits, CaptureWarning, Warnings};
use super::files::{os_str_bytes, path_from_bytes};
use super::rules::{IgnoreRules, PathGlobs, PathKind};

/// Larger `.gitignore` files are skipped.
const MAX_GITIGNORE_BYTES: u64 = 1 << 20;

/// How much of a path that is too long is shown.
const SHOWN_PATH_BYTES: usize = 100;

/// A file or symlink to add to a tree.
pub(crate) enum WalkEntry {
    File { path: Vec<u8>, full: PathBuf, executable: bool },
    Link { path: Vec<u8>, target: Vec<u8> },
}

/// The source of ignore rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IgnoreSource {
    /// The `.gitignore` files of the tree, before the agent ran.
    FromTree,
    /// Only the given rules, after the agent ran: it may have changed `.gitignore` files to hide files.
    Fixed,
}

/// A walk over the files of a work tree.
pub(crate) struct TreeWalk<'a> {
    pub(crate) root: &'a Path,
    /// Files that are visited even if they are ignored.
    pub(crate) tracked: &'a BTreeSet<Vec<u8>>,
    pub(crate) include: &'a PathGlobs,
    pub(crate) limits: CaptureLimits,
    pub(crate) ignore_source: IgnoreSource,
}

impl TreeWalk<'_> {
    /// Visits all entries, directory by directory.
    pub(crate) fn run(
        &self,
        rules: &mut IgnoreRules,
        warnings: &mut Warnings,
        mut visit: impl FnMut(WalkEntry, &mut Warnings) -> ControlFlow<()>,
    ) {
        if !fs::symlink_metadata(self.root).is_ok_and(|root| root.is_dir()) {
            warnings.push(CaptureWarning::WorkspaceGone);
            return;
        }
        let mut left = self.limits.max_files;
        let mut entries_left = self.limits.max_entries;
        let mut path_bytes_left = self.limits.max_all_path_bytes;
        let mut waiting = vec![(self.root.to_owned(), Vec::new(), false)];
        while let Some((dir, path, ignored)) = waiting.pop() {
            if self.ignore_source == IgnoreSource::FromTree && !ignored {
                add_gitignore(rules, &dir, &path);
            }
            let names = match sorted_names(&dir) {
                Ok(names) => names,
                Err(error) => {
                    warnings.push(CaptureWarning::unreadable(&path, &error));
                    continue;
                }
            };
            let first_new = waiting.len();
            for name in names {
                let full = dir.join(path_from_bytes(&name));
                let below = join(&path, &name);
                if entries_left == 0 {
                    let path = lossy_path(&below);
                    warnings.push(CaptureWarning::TooManyEntries { path, limit: self.limits.max_entries });
                    return;
                }
                entries_left -= 1;
                let metadata = match fs::symlink_metadata(&full) {
                    Ok(metadata) => metadata,
                    Err(error) => {
                        warnings.push(CaptureWarning::unreadable(&below, &error));
                        continue;
                    }
                };
                if name.eq_ignore_ascii_case(b".git") {
                    if !path.is_empty() {
                        warnings.push(CaptureWarning::NestedRepository { path: lossy_path(&path) });
                    } else if name != b".git" {
                        warnings.push(CaptureWarning::ReservedName { path: lossy_path(&below) });
                    }
                    continue;
                }
                let kind = if metadata.is_dir() { PathKind::Directory } else { PathKind::Other };
                let ignored = ignored || rules.ignores(&below, kind);
                let is_skipped = !metadata.is_dir()
                    && ignored
                    && !self.tracked.contains(&below)
                    && !self.include.matches(&below);
                if !is_skipped && below.len() > self.limits.max_path_bytes {
                    let path = format!("{}…", lossy_path(&below[..below.len().min(SHOWN_PATH_BYTES)]));
                    let limit = self.limits.max_path_bytes as u64;
                    warnings.push(CaptureWarning::PathTooLong { path, limit });
                    continue;
                }
                if metadata.is_dir() {
                    if !ignored || !self.include.is_empty() || self.tracks_below(&below) {
                        waiting.push((full, below, ignored));
                    }
                    continue;
                }
                if is_skipped {
                    continue;
                }
                let size = below.len() as u64;
                if size > path_bytes_left {
                    let limit = self.limits.max_all_path_bytes;
                    warnings.push(CaptureWarning::PathsTooLong { path: lossy_path(&below), limit });
                    return;
                }
                path_bytes_left -= size;
                let entry = if metadata.is_symlink() {
                    if name.eq_ignore_ascii_case(b".gitmodules") {
                        warnings.push(CaptureWarning::ReservedName { path: lossy_path(&below) });
                        continue;
                    }
                    match fs::read_link(&full) {
                        Ok(target) => {
                            WalkEntry::Link { path: below, target: os_str_bytes(target.as_os_str()) }
                        }
                        Err(error) => {
                            warnings.push(CaptureWarning::unreadable(&below, &error));
                            continue;
                        }
                    }
                } else if metadata.is_file() {
                    WalkEntry::File { path: below, full, executable: is_executable(&metadata) }
                } else {
                    let kind = special_file_kind(&metadata);
                    warnings.push(CaptureWarning::SpecialFile { path: lossy_path(&below), kind });
                    continue;
                };
                if left == 0 {
                    warnings.push(CaptureWarning::TooManyFiles { limit: self.limits.max_files });
                    return;
                }
                left -= 1;
                if visit(entry, warnings).is_break() {
                    return;
                }
            }
            // Directories are popped from the end, so they are visited in the order of their names.
            if let Some(new) = waiting.get_mut(first_new..) {
                new.reverse();
            }
        }
    }

    fn tracks_below(&self, dir: &[u8]) -> bool {
        let prefix = join(dir, b"");
        self.tracked.range(prefix.clone()..).next().is_some_and(|path| path.starts_with(&prefix))
    }
}

fn add_gitignore(rules: &mut IgnoreRules, dir: &Path, path: &[u8]) {
    let file = dir.join(".gitignore");
    let is_usable =
        fs::symlink_metadata(&file).is_ok_and(|file| file.is_file() && file.len() <= MAX_GITIGNORE_BYTES);
    if let (true, Ok(content)) = (is_usable, fs::read(&file)) {
        rules.add(path, &content);
    }
}

fn sorted_names(dir: &Path) -> std::io::Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir)? {
        names.push(os_str_bytes(&entry?.file_name()));
    }
    names.sort_unstable();
    Ok(names)
}

fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(dir.len() + 1 + name.len());
    path.extend_from_slice(dir);
    if !dir.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

pub(crate) fn lossy_path(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

#[cfg(unix)]
fn is_executable(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    metadata.permissions().mode() & 0o100 != 0
}

#[cfg(not(unix))]
fn is_executable(_: &fs::Metadata) -> bool {
    false
}

#[cfg(unix)]
fn special_file_kind(metadata: &fs::Metadata) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    let kind = metadata.file_type();
    if kind.is_socket() {
        "socket"
    } else if kind.is_fifo() {
        "fifo"
    } else {
        "device"
    }
}

#[cfg(not(unix))]
fn special_file_kind(_: &fs::Metadata) -> &'static str {
    "special file"
}
