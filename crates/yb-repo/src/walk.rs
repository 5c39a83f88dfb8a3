//! Walks a work tree as plain files, whatever an agent made of it: no git, no attributes, no link followed.

use std::collections::BTreeSet;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::capture::{CaptureLimits, CaptureWarning, Warnings};
use super::files::{name_bytes, path_of};
use super::rules::{Include, Kind, Rules};

/// Larger `.gitignore` files are not rules that a person wrote.
const MAX_RULES: u64 = 1 << 20;

/// Something that goes into a tree.
pub(crate) enum Entry {
    File { path: Vec<u8>, full: PathBuf, executable: bool },
    Link { path: Vec<u8>, target: Vec<u8> },
}

/// Whether `.gitignore` files on the way become rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Learn {
    /// Before an agent ran.
    FromTree,
    /// Afterwards: what is on disk now may be there to hide something.
    Nothing,
}

/// What decides which files of a work tree are seen.
pub(crate) struct Walk<'a> {
    pub(crate) root: &'a Path,
    /// Seen even if a rule leaves them out, because they were there.
    pub(crate) tracked: &'a BTreeSet<Vec<u8>>,
    pub(crate) include: &'a Include,
    pub(crate) limits: CaptureLimits,
    pub(crate) learn: Learn,
}

impl Walk<'_> {
    /// Visits every entry, directory by directory.
    pub(crate) fn run(
        &self,
        rules: &mut Rules,
        warnings: &mut Warnings,
        mut visit: impl FnMut(Entry, &mut Warnings) -> ControlFlow<()>,
    ) {
        if !fs::symlink_metadata(self.root).is_ok_and(|root| root.is_dir()) {
            warnings.push(CaptureWarning::WorkspaceGone);
            return;
        }
        let mut left = self.limits.max_files;
        let mut waiting = vec![(self.root.to_owned(), Vec::new(), false)];
        while let Some((dir, path, ignored)) = waiting.pop() {
            if self.learn == Learn::FromTree && !ignored {
                learn(rules, &dir, &path);
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
                let full = dir.join(path_of(&name));
                let below = join(&path, &name);
                let kind = match fs::symlink_metadata(&full) {
                    Ok(metadata) => metadata,
                    Err(error) => {
                        warnings.push(CaptureWarning::unreadable(&below, &error));
                        continue;
                    }
                };
                if name.eq_ignore_ascii_case(b".git") {
                    if !path.is_empty() {
                        warnings.push(CaptureWarning::NestedRepository { path: lossy(&path) });
                    } else if name != b".git" {
                        warnings.push(CaptureWarning::ReservedName { path: lossy(&below) });
                    }
                    continue;
                }
                let sort = if kind.is_dir() { Kind::Directory } else { Kind::Other };
                let ignored = ignored || rules.ignores(&below, sort);
                if kind.is_dir() {
                    if !ignored || !self.include.is_empty() || self.tracks_below(&below) {
                        waiting.push((full, below, ignored));
                    }
                    continue;
                }
                if ignored && !self.tracked.contains(&below) && !self.include.matches(&below) {
                    continue;
                }
                let entry = if kind.is_symlink() {
                    if name.eq_ignore_ascii_case(b".gitmodules") {
                        warnings.push(CaptureWarning::ReservedName { path: lossy(&below) });
                        continue;
                    }
                    match fs::read_link(&full) {
                        Ok(target) => Entry::Link { path: below, target: name_bytes(target.as_os_str()) },
                        Err(error) => {
                            warnings.push(CaptureWarning::unreadable(&below, &error));
                            continue;
                        }
                    }
                } else if kind.is_file() {
                    Entry::File { path: below, full, executable: is_executable(&kind) }
                } else {
                    warnings.push(CaptureWarning::SpecialFile { path: lossy(&below), kind: special(&kind) });
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
            // Taken from the end, so that directories come in the order of their names.
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

fn learn(rules: &mut Rules, dir: &Path, path: &[u8]) {
    let file = dir.join(".gitignore");
    let plain = fs::symlink_metadata(&file).is_ok_and(|file| file.is_file() && file.len() <= MAX_RULES);
    if let (true, Ok(content)) = (plain, fs::read(&file)) {
        rules.add(path, &content);
    }
}

fn sorted_names(dir: &Path) -> std::io::Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir)? {
        names.push(name_bytes(&entry?.file_name()));
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

pub(crate) fn lossy(path: &[u8]) -> String {
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
fn special(metadata: &fs::Metadata) -> &'static str {
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
fn special(_: &fs::Metadata) -> &'static str {
    "special file"
}
