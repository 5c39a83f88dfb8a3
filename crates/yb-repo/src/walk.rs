//! Walks a work tree as plain files: without git or attributes, and without following links.

use std::collections::BTreeSet;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::capture::CaptureLimits;
use super::files::{os_str_bytes, path_from_bytes};
use super::rules::{IgnoreRules, PathGlobs, PathKind};
use super::warning::{CaptureWarning, Warnings};
use yb_supervise::{is_opaque_dir, is_whiteout};

/// Larger `.gitignore` files are skipped.
const MAX_GITIGNORE_BYTES: u64 = 1 << 20;

/// How much of a path that is too long is shown.
const SHOWN_PATH_BYTES: usize = 100;

/// A file or symlink to add to a tree, or what an upper layer says about the tree below it.
pub(crate) enum WalkEntry {
    File {
        path: Vec<u8>,
        full: PathBuf,
        executable: bool,
        metadata: Box<fs::Metadata>,
    },
    Link {
        path: Vec<u8>,
        target: Vec<u8>,
    },
    /// A directory of an upper layer; an opaque one hides that of the base.
    LayerDirectory {
        path: Vec<u8>,
        opaque: bool,
    },
    /// A path of an upper layer at which the tree has nothing, whatever the base has there.
    Removed {
        path: Vec<u8>,
    },
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
    /// If `root` is the upper layer of an overlay: the files of the base, which count against the limits too.
    pub(crate) base: Option<&'a BTreeSet<Vec<u8>>>,
}

/// What remains of the limits.
struct Remaining {
    files: u64,
    entries: u64,
    path_bytes: u64,
}

/// What a walk does with an entry of a directory.
enum Found {
    Visit(WalkEntry),
    Directory {
        ignored: bool,
        descend: bool,
    },
    Skip,
    /// A limit of the whole tree is exceeded.
    Stop,
}

/// An entry of a directory.
struct DirectoryEntry<'a> {
    parent: &'a [u8],
    parent_ignored: bool,
    name: &'a [u8],
    path: &'a [u8],
    full: &'a Path,
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
        let mut remaining = self.remaining();
        let mut waiting = vec![(self.root.to_owned(), Vec::new(), false)];
        while let Some((dir, path, ignored)) = waiting.pop() {
            if self.ignore_source == IgnoreSource::FromTree && !ignored {
                add_gitignore(rules, &dir, &path);
            }
            let names = match sorted_names(&dir).and_then(|names| self.check_search(&dir).map(|()| names)) {
                Ok(names) => names,
                Err(error) => {
                    warnings.push(CaptureWarning::unreadable(&path, &error));
                    if self.base.is_some() && visit(WalkEntry::Removed { path }, warnings).is_break() {
                        return;
                    }
                    continue;
                }
            };
            let first_new = waiting.len();
            for name in names {
                let full = dir.join(path_from_bytes(&name));
                let below = join(&path, &name);
                let entry = DirectoryEntry {
                    parent: &path,
                    parent_ignored: ignored,
                    name: &name,
                    path: &below,
                    full: &full,
                };
                let visited = match self.find(&entry, rules, &mut remaining, warnings) {
                    Found::Stop => return,
                    Found::Visit(entry) => visit(entry, warnings),
                    Found::Directory { ignored, descend } => {
                        let visited = if let Some(base) = self.base {
                            let opaque = is_opaque_dir(&full);
                            if opaque {
                                remaining.give_back(base, &below);
                            }
                            visit(WalkEntry::LayerDirectory { path: below.clone(), opaque }, warnings)
                        } else {
                            ControlFlow::Continue(())
                        };
                        if descend {
                            waiting.push((full, below, ignored));
                        }
                        visited
                    }
                    Found::Skip => match self.base {
                        Some(base) => {
                            remaining.give_back(base, &below);
                            visit(WalkEntry::Removed { path: below }, warnings)
                        }
                        None => ControlFlow::Continue(()),
                    },
                };
                if visited.is_break() {
                    return;
                }
            }
            // Directories are popped from the end, so they are visited in the order of their names.
            if let Some(new) = waiting.get_mut(first_new..) {
                new.reverse();
            }
        }
    }

    fn remaining(&self) -> Remaining {
        let (files, path_bytes) = self.base.map_or((0, 0), |base| {
            (base.len() as u64, base.iter().map(|path| path.len() as u64).sum::<u64>())
        });
        Remaining {
            files: self.limits.max_files.saturating_sub(files),
            entries: self.limits.max_entries.saturating_sub(files),
            path_bytes: self.limits.max_all_path_bytes.saturating_sub(path_bytes),
        }
    }

    /// Without the permission to search a directory, its entries of the base are out of reach too, though they could be read.
    fn check_search(&self, directory: &Path) -> std::io::Result<()> {
        #[cfg(unix)]
        if self.base.is_some() {
            rustix::fs::access(directory, rustix::fs::Access::EXEC_OK)?;
        }
        #[cfg(not(unix))]
        let _ = directory;
        Ok(())
    }

    /// Decides what to do with an entry.
    fn find(
        &self,
        entry: &DirectoryEntry<'_>,
        rules: &IgnoreRules,
        remaining: &mut Remaining,
        warnings: &mut Warnings,
    ) -> Found {
        let DirectoryEntry { parent, parent_ignored, name, path, full } = *entry;
        if remaining.entries == 0 {
            let limit = self.limits.max_entries;
            warnings.push(CaptureWarning::TooManyEntries { path: lossy_path(path), limit });
            return Found::Stop;
        }
        remaining.entries -= 1;
        let metadata = match fs::symlink_metadata(full) {
            Ok(metadata) => metadata,
            Err(error) => {
                warnings.push(CaptureWarning::unreadable(path, &error));
                return Found::Skip;
            }
        };
        if self.base.is_some() && is_whiteout(&metadata) {
            return Found::Skip;
        }
        if name.eq_ignore_ascii_case(b".git") {
            if !parent.is_empty() {
                warnings.push(CaptureWarning::NestedRepository { path: lossy_path(parent) });
            } else if name != b".git" {
                warnings.push(CaptureWarning::ReservedName { path: lossy_path(path) });
            }
            return Found::Skip;
        }
        let kind = if metadata.is_dir() { PathKind::Directory } else { PathKind::Other };
        let ignored = parent_ignored || rules.ignores(path, kind);
        let is_skipped =
            !metadata.is_dir() && ignored && !self.tracked.contains(path) && !self.include.matches(path);
        if !is_skipped && path.len() > self.limits.max_path_bytes {
            let path = format!("{}…", lossy_path(&path[..path.len().min(SHOWN_PATH_BYTES)]));
            let limit = self.limits.max_path_bytes as u64;
            warnings.push(CaptureWarning::PathTooLong { path, limit });
            return Found::Skip;
        }
        if metadata.is_dir() {
            let descend = !ignored || !self.include.is_empty() || self.tracks_below(path);
            return Found::Directory { ignored, descend };
        }
        if is_skipped {
            return Found::Skip;
        }
        let is_new = self.base.is_none_or(|base| !base.contains(path));
        let size = path.len() as u64;
        if is_new && size > remaining.path_bytes {
            let limit = self.limits.max_all_path_bytes;
            warnings.push(CaptureWarning::PathsTooLong { path: lossy_path(path), limit });
            return Found::Stop;
        }
        let entry = if metadata.is_symlink() {
            if name.eq_ignore_ascii_case(b".gitmodules") {
                warnings.push(CaptureWarning::ReservedName { path: lossy_path(path) });
                return Found::Skip;
            }
            match fs::read_link(full) {
                Ok(target) => {
                    WalkEntry::Link { path: path.to_vec(), target: os_str_bytes(target.as_os_str()) }
                }
                Err(error) => {
                    warnings.push(CaptureWarning::unreadable(path, &error));
                    return Found::Skip;
                }
            }
        } else if metadata.is_file() {
            let executable = is_executable(&metadata);
            let (path, full) = (path.to_vec(), full.to_owned());
            WalkEntry::File { path, full, executable, metadata: Box::new(metadata) }
        } else {
            let kind = special_file_kind(&metadata);
            warnings.push(CaptureWarning::SpecialFile { path: lossy_path(path), kind });
            return Found::Skip;
        };
        if is_new {
            if remaining.files == 0 {
                warnings.push(CaptureWarning::TooManyFiles { limit: self.limits.max_files });
                return Found::Stop;
            }
            remaining.files -= 1;
            remaining.path_bytes -= size;
        }
        Found::Visit(entry)
    }

    fn tracks_below(&self, dir: &[u8]) -> bool {
        let prefix = join(dir, b"");
        self.tracked.range(prefix.clone()..).next().is_some_and(|path| path.starts_with(&prefix))
    }
}

impl Remaining {
    /// Counts the files of the base that are not in the tree.
    fn give_back(&mut self, base: &BTreeSet<Vec<u8>>, path: &[u8]) {
        for path in paths_at(base, path) {
            self.files = self.files.saturating_add(1);
            self.path_bytes = self.path_bytes.saturating_add(path.len() as u64);
        }
    }
}

/// The path itself and the paths below it.
pub(crate) fn paths_at<'a>(
    paths: &'a BTreeSet<Vec<u8>>,
    path: &[u8],
) -> impl Iterator<Item = &'a Vec<u8>> + use<'a> {
    let prefix = if path.is_empty() { Vec::new() } else { join(path, b"") };
    let below = paths.range(prefix.clone()..).take_while(move |path| path.starts_with(&prefix));
    paths.get(path).into_iter().chain(below)
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
