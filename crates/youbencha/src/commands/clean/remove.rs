//! Removes a directory of the workspace without following links.

use std::fs;
use std::io;
use std::path::Path;

use yb_engine::run::{CACHE, LockAttempt, RUNS, RunDir, RunLock};
use yb_repo::remove_tree;

use super::select::CleanTarget;

/// Removes a run or the cache. Returns a message if a run that was killed had left processes behind.
pub(super) fn remove(root: &Path, target: &CleanTarget) -> io::Result<Option<String>> {
    let parent = if target.is_run { root.join(RUNS) } else { root.to_owned() };
    let inside = target.path.parent() == Some(&parent)
        && target.path.file_name().is_some_and(|name| target.is_run || name == CACHE)
        && fs::symlink_metadata(&target.path)?.is_dir();
    if !inside {
        return Err(io::Error::other("not inside the workspace directory"));
    }
    if !target.is_run {
        return remove_tree(&target.path).map(|()| None);
    }
    let run = RunDir::at(&target.path);
    let _lock = match RunLock::try_acquire(&run.lock())? {
        LockAttempt::Acquired(lock) => lock,
        _ => return Err(io::Error::other("the run is in use")),
    };
    let message = yb_engine::processes::end_leftovers_of_run(&run);
    // Without its plan it is no longer a run, even if the rest can't be removed.
    match fs::remove_file(run.plan()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    remove_tree(&target.path).map(|()| message)
}

/// Returns the size of all files below a path. Links are not followed, and unreadable entries are skipped.
pub(super) fn bytes_in(path: &Path) -> u64 {
    let (mut total, mut folders) = (0, vec![path.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(data) if data.is_dir() => folders.push(entry.path()),
                Ok(data) => total += data.len(),
                Err(_) => {}
            }
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[cfg(unix)]
    #[test]
    fn removal_follows_no_links_and_handles_read_only_directories() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let folder = tempfile::tempdir().unwrap();
        let (outside, tree) = (folder.path().join("outside"), folder.path().join("tree"));
        fs::create_dir_all(&outside).unwrap();
        fs::write(outside.join("precious"), vec![0; 5000]).unwrap();
        fs::create_dir_all(tree.join("sealed")).unwrap();
        fs::write(tree.join("sealed/file"), vec![0; 100]).unwrap();
        symlink(&outside, tree.join("sealed/link")).unwrap();
        symlink(&tree, tree.join("loop")).unwrap();
        fs::set_permissions(tree.join("sealed"), fs::Permissions::from_mode(0o500)).unwrap();
        let bytes = bytes_in(&tree);
        assert!((100..1000).contains(&bytes), "{bytes}");
        remove_tree(&tree).unwrap();
        assert!(!tree.exists() && outside.join("precious").exists());
    }

    #[test]
    fn paths_outside_the_workspace_are_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir_all(folder.path().join("elsewhere/run")).unwrap();
        fs::create_dir_all(root.join(RUNS)).unwrap();
        for (path, is_run) in [
            (folder.path().join("elsewhere/run"), true),
            (root.join(RUNS).join("..").join("..").join("elsewhere"), true),
            (root.join(RUNS), false),
        ] {
            let target = CleanTarget {
                path: path.clone(),
                label: String::new(),
                when: String::new(),
                name: String::new(),
                state: String::new(),
                bytes: 0,
                is_run,
            };
            assert!(remove(&root, &target).is_err(), "{}", path.display());
            assert!(path.exists());
        }
    }
}
