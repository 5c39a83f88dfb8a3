//! Creates git directories without running git: no template, no hooks, no excludes.

use std::fs;
use std::path::Path;

use super::error::RepoError;

const CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n";

/// Creates a git directory whose HEAD is a branch, with additional configuration.
pub(crate) fn create(dir: &Path, branch: &str, config: &str) -> Result<(), RepoError> {
    fs::create_dir_all(dir).map_err(RepoError::io("create the directory", dir))?;
    for sub in ["objects", "objects/pack", "refs", "refs/heads"] {
        let path = dir.join(sub);
        match fs::create_dir(&path) {
            Err(error) if !path.is_dir() => return Err(RepoError::io("create the directory", path)(error)),
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
        fs::create_dir_all(parent).map_err(RepoError::io("create the directory", parent))?;
    }
    write(&path, &format!("{commit}\n"))
}

/// Whether a directory was created completely.
pub(crate) fn is_complete(dir: &Path) -> bool {
    dir.join("objects").is_dir() && fs::read(dir.join("HEAD")).is_ok_and(|head| head.starts_with(b"ref: "))
}

pub(crate) fn write(path: &Path, content: &str) -> Result<(), RepoError> {
    fs::write(path, content).map_err(RepoError::io("write", path))
}

/// Whether git allows this name for a branch, tag or ref component.
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

/// Whether a text is a full or abbreviated object id.
pub(crate) fn is_object_id(text: &str) -> bool {
    (4..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether a text is a full object id.
pub(crate) fn is_full_object_id(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && is_object_id(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_ref_name_follows_the_rules_of_git() {
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
