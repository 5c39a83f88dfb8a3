//! A tree of files for one evaluator: what the start was prepared to, the result over it, hidden files on top. It is made
//! from our own store; nothing of the agent's `.git` plays a part.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::held::{Held, hold};
use super::{GradeError, Preparation, Subject, prepared};
use yb_case::HiddenFile;
use yb_repo::{TreeFile, copy_tree, path_from_bytes, remove_path, write_entry};

/// What a grading tree has beside the result.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extras<'a> {
    /// Files that only grading sees.
    pub(crate) hidden: &'a [HiddenFile],
    /// Globs of files that are as they were at the start; the usual ones if none are named.
    pub(crate) restore: Option<&'a [String]>,
}

/// What was laid out.
#[derive(Debug)]
pub(crate) struct LaidOut {
    /// Files that are not as the agent left them.
    pub(crate) put_back: Vec<String>,
    /// Hidden files, by their whole path: what runs in the tree may not change them.
    pub(crate) locked: Vec<PathBuf>,
}

/// Lays a fresh tree out in a directory that is not there yet.
pub(crate) async fn lay_out(
    subject: &Subject,
    root: &Path,
    extras: Extras<'_>,
) -> Result<LaidOut, GradeError> {
    let prepared = prepared(&Preparation::of(subject)).await?;
    let start = subject.store.list(&subject.start).await?;
    let Held { files, put_back } = hold(extras.restore, &start, subject.files().await?)?;
    let (to, from) = (root.to_owned(), prepared);
    let kept: HashSet<Vec<u8>> = files.iter().map(|file| file.path.clone()).collect();
    blocking(move || base(&to, from.as_deref(), &start, &kept)).await?;
    subject.store.check_out(&files, root).await?;
    let (to, hidden) = (root.to_owned(), extras.hidden.to_vec());
    let locked = blocking(move || {
        let mut placed = Vec::new();
        hidden.iter().try_for_each(|file| hide(&to, file, &mut placed))?;
        Ok(placed.into_iter().map(|path| to.join(path)).collect())
    });
    Ok(LaidOut { put_back, locked: locked.await? })
}

/// A copy of what the start was prepared to, without the files of the start that the result does not have.
fn base(
    root: &Path,
    prepared: Option<&Path>,
    start: &[TreeFile],
    kept: &HashSet<Vec<u8>>,
) -> Result<(), GradeError> {
    let Some(prepared) = prepared else {
        return std::fs::create_dir_all(root).map_err(GradeError::io(root));
    };
    copy_tree(prepared, root).map_err(GradeError::io(root))?;
    for file in start.iter().filter(|file| !kept.contains(&file.path)) {
        let path = root.join(path_from_bytes(&file.path));
        // What was prepared may have put a link where a directory was; nothing is removed through it.
        let through_link =
            |folder: &Path| std::fs::symlink_metadata(folder).is_ok_and(|found| found.is_symlink());
        if path.ancestors().skip(1).take_while(|above| *above != root).any(through_link) {
            continue;
        }
        remove_path(&path).map_err(GradeError::io(&path))?;
        // Directories that only held it go as well; one that is not empty stays.
        let mut above = path.parent();
        while let Some(folder) = above.filter(|folder| *folder != root) {
            if std::fs::remove_dir(folder).is_err() {
                break;
            }
            above = folder.parent();
        }
    }
    Ok(())
}

/// Puts a hidden file into a tree. A directory takes the place of what was there, with all that an agent put into it.
fn hide(root: &Path, hidden: &HiddenFile, placed: &mut Vec<PathBuf>) -> Result<(), GradeError> {
    let mut known = HashSet::new();
    let to = PathBuf::from(hidden.to.trim_start_matches("./"));
    let from = &hidden.from;
    let found = std::fs::symlink_metadata(from).map_err(GradeError::io(from))?;
    if !found.is_dir() {
        hide_file(root, &to, from, &mut known)?;
        placed.push(to);
        return Ok(());
    }
    let target = root.join(&to);
    // Writing a file there first makes way through links; then it is gone again.
    write_entry(root, &to, 0o100_644, b"", &mut known).map_err(GradeError::io(&target))?;
    remove_path(&target).map_err(GradeError::io(&target))?;
    std::fs::create_dir(&target).map_err(GradeError::io(&target))?;
    let mut folders = vec![(from.clone(), to)];
    while let Some((folder, to)) = folders.pop() {
        for entry in std::fs::read_dir(&folder).map_err(GradeError::io(&folder))? {
            let entry = entry.map_err(GradeError::io(&folder))?;
            let kind = entry.file_type().map_err(GradeError::io(entry.path()))?;
            let to = to.join(entry.file_name());
            if kind.is_dir() {
                folders.push((entry.path(), to));
            } else if kind.is_file() {
                hide_file(root, &to, &entry.path(), &mut known)?;
                placed.push(to);
            }
        }
    }
    Ok(())
}

fn hide_file(root: &Path, to: &Path, from: &Path, known: &mut HashSet<PathBuf>) -> Result<(), GradeError> {
    let content = std::fs::read(from).map_err(GradeError::io(from))?;
    write_entry(root, to, mode_of(from), &content, known).map_err(GradeError::io(root.join(to)))
}

#[cfg(unix)]
fn mode_of(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    let executable = std::fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o111 != 0);
    if executable { 0o100_755 } else { 0o100_644 }
}

#[cfg(not(unix))]
fn mode_of(_: &Path) -> u32 {
    0o100_644
}

/// Work on files, off the threads that wait for others.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, GradeError> + Send + 'static,
) -> Result<T, GradeError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| GradeError::other("it crashed; this is a bug"))?
}
