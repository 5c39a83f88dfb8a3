//! Steps that change files: write, append, delete, commit.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use super::content::Vars;
use super::scheduler::StepScheduler;
use super::script::{Commit, FileWrite};

/// Replaces a file atomically, so that no reader sees a partial file.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<(), String> {
    make_parent(path)?;
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(format!(".{}.tmp", std::process::id()));
    fs::write(&unfinished, bytes)
        .and_then(|()| fs::rename(&unfinished, path))
        .map_err(|error| format!("write {}: {error}", path.display()))
}

/// Appends to a file, repeatedly if requested.
pub(crate) fn append(
    path: &Path,
    step: &FileWrite,
    vars: &Vars,
    scheduler: &StepScheduler,
) -> Result<(), String> {
    make_parent(path)?;
    let bytes = step.content.bytes(vars)?;
    let file = fs::File::options().append(true).create(true).open(path);
    let mut file = file.map_err(|error| format!("open {}: {error}", path.display()))?;
    for round in 0..step.options.times.unwrap_or(1) {
        if round > 0 {
            scheduler.sleep(step.options.every_ms);
        }
        scheduler.wait_for_handler();
        file.write_all(&bytes).map_err(|error| format!("append to {}: {error}", path.display()))?;
    }
    Ok(())
}

/// Removes a file or a directory tree.
pub(crate) fn delete(path: &Path) -> Result<(), String> {
    let kind = fs::symlink_metadata(path).map_err(|error| format!("delete {}: {error}", path.display()))?;
    if kind.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
        .map_err(|error| format!("delete {}: {error}", path.display()))
}

/// Commits everything with real git.
pub(crate) fn commit(step: &Commit) -> Result<(), String> {
    let dir = Path::new(&step.dir);
    crate::git::run(dir, None, &["add", "--all"])?;
    crate::git::run(dir, None, &["commit", "--quiet", "--allow-empty", "-m", &step.message])?;
    Ok(())
}

fn make_parent(path: &Path) -> Result<(), String> {
    match path.parent() {
        Some(parent) => fs::create_dir_all(parent).map_err(|error| format!("{}: {error}", parent.display())),
        None => Ok(()),
    }
}
