//! Checkouts for evaluators: the prepared start tree, then the end tree, then hidden files. They are made from the run's own
//! object store; the agent's `.git` is not used.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::protect::{ProtectedTree, restore_protected};
use super::{GradeError, Preparation, Subject, prepare};
use yb_repo::{TreeFile, copy_tree, path_from_bytes, remove_tree, write_entry};

/// Options of a checkout.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TreeOptions<'a> {
    /// Files that exist only in the checkout.
    pub(crate) hidden: &'a [HiddenFile],
    /// Globs of files that are restored from the start tree; the default ones if `None`.
    pub(crate) restore: Option<&'a [String]>,
}

/// A file or directory that exists only in the checkout, such as a test that the agent must not see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HiddenFile {
    /// Its path in the checkout.
    pub(crate) to: String,
    /// Its source, with all links resolved.
    pub(crate) from: PathBuf,
}

/// A checkout.
#[derive(Debug)]
pub(crate) struct GradingTree {
    /// The paths of files that differ from the end tree.
    pub(crate) restored: Vec<String>,
    /// The absolute paths of hidden files, which commands must not change.
    pub(crate) locked: Vec<PathBuf>,
}

/// Makes a checkout in a directory that does not exist yet.
pub(crate) async fn check_out(
    subject: &Subject,
    root: &Path,
    options: TreeOptions<'_>,
) -> Result<GradingTree, GradeError> {
    let prepared = prepare(&Preparation::of(subject)).await?;
    let start = subject.store.list(&subject.start).await?;
    let ProtectedTree { files, restored } =
        restore_protected(options.restore, &start, subject.files().await?)?;
    let (to, from) = (root.to_owned(), prepared);
    let kept: HashSet<Vec<u8>> = files.iter().map(|file| file.path.clone()).collect();
    blocking(move || copy_prepared(&to, from.as_deref(), &start, &kept)).await?;
    subject.store.check_out(&files, root).await?;
    let (to, hidden) = (root.to_owned(), options.hidden.to_vec());
    let locked = blocking(move || {
        let mut paths = Vec::new();
        hidden.iter().try_for_each(|file| add_hidden(&to, file, &mut paths))?;
        Ok(paths.into_iter().map(|path| to.join(path)).collect())
    });
    Ok(GradingTree { restored, locked: locked.await? })
}

/// Copies the prepared start tree, without the files of the start tree that are not in the end tree.
fn copy_prepared(
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
        // A command of `prepare` may have replaced a directory by a link: nothing is removed through links.
        let through_link =
            |folder: &Path| std::fs::symlink_metadata(folder).is_ok_and(|found| found.is_symlink());
        if path.ancestors().skip(1).take_while(|above| *above != root).any(through_link) {
            continue;
        }
        remove_tree(&path).map_err(GradeError::io(&path))?;
        // Directories that are empty now are removed too.
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

/// Adds a hidden file or directory to a checkout. A directory replaces an existing one with all its content.
fn add_hidden(root: &Path, hidden: &HiddenFile, paths: &mut Vec<PathBuf>) -> Result<(), GradeError> {
    let mut known = HashSet::new();
    let to = PathBuf::from(hidden.to.trim_start_matches("./"));
    let from = &hidden.from;
    let found = std::fs::symlink_metadata(from).map_err(GradeError::io(from))?;
    if !found.is_dir() {
        add_hidden_file(root, &to, from, &mut known)?;
        paths.push(to);
        return Ok(());
    }
    let target = root.join(&to);
    // Writing a file first replaces links on the way; then it is removed.
    write_entry(root, &to, 0o100_644, b"", &mut known).map_err(GradeError::io(&target))?;
    remove_tree(&target).map_err(GradeError::io(&target))?;
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
                add_hidden_file(root, &to, &entry.path(), &mut known)?;
                paths.push(to);
            }
        }
    }
    Ok(())
}

fn add_hidden_file(
    root: &Path,
    to: &Path,
    from: &Path,
    known: &mut HashSet<PathBuf>,
) -> Result<(), GradeError> {
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

/// Runs blocking file operations off the async threads.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, GradeError> + Send + 'static,
) -> Result<T, GradeError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| GradeError::other("a blocking task panicked; this is a bug"))?
}
