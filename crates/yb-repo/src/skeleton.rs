//! The bare bones of a git directory, written by hand: no template, no hooks, no excludes, no process.

use std::fs;
use std::path::Path;

use super::error::RepoError;

const CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n";

/// Makes a git directory whose HEAD stands on a branch, with further configuration.
pub(crate) fn create(dir: &Path, branch: &str, config: &str) -> Result<(), RepoError> {
    fs::create_dir_all(dir).map_err(RepoError::io("make the directory", dir))?;
    for sub in ["objects", "objects/pack", "refs", "refs/heads"] {
        let path = dir.join(sub);
        match fs::create_dir(&path) {
            Err(error) if !path.is_dir() => return Err(RepoError::io("make the directory", path)(error)),
            _ => {}
        }
    }
    write(&dir.join("config"), &format!("{CONFIG}{config}"))?;
    write(&dir.join("HEAD"), &format!("ref: refs/heads/{branch}\n"))
}

/// The configuration of a repository without a work tree.
pub(crate) const BARE: &str = "\tbare = true\n";

/// Points a branch at a commit.
pub(crate) fn set_branch(dir: &Path, branch: &str, commit: &str) -> Result<(), RepoError> {
    let path = dir.join("refs/heads").join(branch);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(RepoError::io("make the directory", parent))?;
    }
    write(&path, &format!("{commit}\n"))
}

/// Whether a directory was once made here as a whole.
pub(crate) fn is_whole(dir: &Path) -> bool {
    dir.join("objects").is_dir() && fs::read(dir.join("HEAD")).is_ok_and(|head| head.starts_with(b"ref: "))
}

pub(crate) fn write(path: &Path, content: &str) -> Result<(), RepoError> {
    fs::write(path, content).map_err(RepoError::io("write", path))
}

/// Whether git can have a branch, tag or ref component of this name.
pub(crate) fn is_ref_name(name: &str) -> bool {
    !name.is_empty()
        && name != "@"
        && !name.starts_with(['-', '/'])
        && !name.ends_with(['/', '.'])
        && !name.contains("..")
        && !name.contains("@{")
        && !name.contains("//")
        && !name.chars().any(|c| c.is_control() || " ~^:?*[\\\u{7f}".contains(c))
        && name.split('/').all(|part| !part.starts_with('.') && !part.ends_with(".lock"))
}

/// Whether this is a full or shortened object id.
pub(crate) fn is_object_id(text: &str) -> bool {
    (4..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether this is a whole object id.
pub(crate) fn is_whole_id(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && is_object_id(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_refs_can_have() {
        for good in ["main", "feature/a.b", "v1.0", "ünï", "a@b"] {
            assert!(is_ref_name(good), "{good}");
        }
        for bad in [
            "", "-x", "a..b", "a b", "a^{/x}", "x@{1}", "a.lock", "a/.b", "/a", "a/", "a//b", "a:b", "@",
            "a\n",
        ] {
            assert!(!is_ref_name(bad), "{bad}");
        }
    }
}
