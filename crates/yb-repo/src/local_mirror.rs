//! Mirrors of local repositories without `git fetch`, which takes seven processes: refs are read here, and git copies the objects.
//!
//! Git runs in the mirror and reads the objects of the other repository as those of an alternate. So no configuration, hook or
//! filter of that repository is ever used. `git fetch` does the rest: whatever is not an ordinary repository, and updates.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use yb_model::atomic_file::{Durability, write_atomic};

use super::error::{GitError, RepoError, blocking};
use super::files;
use super::git::Git;
use super::git_dir;
use super::mirror::REMOTE_HEAD;

/// The file with the id of the only commit that refs of the mirror point to, if there is only one.
const ONLY_TIP: &str = "youbencha-tip";
/// The most refs of a mirror that is created here.
const MAX_REFS: usize = 10_000;

/// The refs of a repository: branches, tags and HEAD.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LocalRefs {
    objects: PathBuf,
    refs: BTreeMap<String, String>,
}

impl LocalRefs {
    /// Reads the refs of an ordinary repository; `None` for one with links to other directories, a format other than the oldest, or
    /// an incomplete history.
    pub(crate) fn read(repository: &Path) -> Option<Self> {
        let dot_git = repository.join(".git");
        let git_dir = if dot_git.exists() { dot_git } else { repository.to_owned() };
        let config = fs::read_to_string(git_dir.join("config")).ok()?;
        let special = ["shallow", "info/grafts", "commondir", "reftable"];
        if !is_oldest_format(&config) || special.iter().any(|name| git_dir.join(name).exists()) {
            return None;
        }
        let objects = git_dir.join("objects");
        // Git separates alternates by colons, and quotes with these characters.
        let is_plain = |text: &str| !text.contains([':', '"', '\\', '\n']);
        if !objects.is_dir() || !objects.to_str().is_some_and(is_plain) {
            return None;
        }
        let mut refs = BTreeMap::new();
        for line in fs::read_to_string(git_dir.join("packed-refs")).unwrap_or_default().lines() {
            if line.starts_with(['#', '^']) {
                continue;
            }
            let (id, name) = line.split_once(' ')?;
            insert(&mut refs, name, id)?;
        }
        for below in ["refs/heads", "refs/tags"] {
            read_loose(&git_dir.join(below), below, &mut refs)?;
        }
        let head = fs::read_to_string(git_dir.join("HEAD")).ok()?;
        let head = match head.trim_end().strip_prefix("ref: ") {
            // An unborn branch has no commit.
            Some(branch) => refs.get(branch)?.clone(),
            None => head.trim_end().to_owned(),
        };
        if !git_dir::is_full_object_id(&head) || refs.len() > MAX_REFS {
            return None;
        }
        refs.insert(REMOTE_HEAD.to_owned(), head);
        Some(Self { objects, refs })
    }

    /// Whether a mirror has the same refs.
    pub(crate) fn are_in(&self, mirror: &Path) -> bool {
        let no_loose = ["refs/heads", "refs/tags"].iter().all(|below| {
            let mut loose = BTreeMap::new();
            read_loose(&mirror.join(below), below, &mut loose).is_some() && loose.is_empty()
        });
        let packed = fs::read_to_string(mirror.join("packed-refs")).unwrap_or_default();
        no_loose && !mirror.join(REMOTE_HEAD).exists() && packed == self.packed()
    }

    /// Copies all objects of the refs to a new mirror, and sets its refs. Every object is checked against its id.
    pub(crate) async fn copy_to(&self, git: &Git, mirror: &Path) -> Result<(), RepoError> {
        let tips: BTreeSet<&str> = self.refs.values().map(String::as_str).collect();
        let mut wanted = String::new();
        for tip in &tips {
            wanted.push_str(&format!("{tip}\n"));
        }
        let name = git
            .command("pack-objects")
            .git_dir(mirror)
            .alternate(&self.objects)
            // Both could omit objects, and are not checked.
            .setting("core.commitGraph=false")
            .setting("pack.useBitmaps=false")
            .args(["--revs", "--quiet", "--delta-base-offset"])
            .arg(mirror.join("objects/pack/pack"))
            .stdin(wanted.into_bytes())
            .text()
            .await?;
        let pack = mirror.join(format!("objects/pack/pack-{name}.pack"));
        git.command("index-pack").git_dir(mirror).arg("--verify").arg(pack).bytes().await?;
        let (packed, mirror) = (self.packed(), mirror.to_owned());
        let only = (tips.len() == 1).then(|| tips.into_iter().collect::<String>());
        blocking(move || {
            if let Some(only) = only {
                git_dir::write(&mirror.join(ONLY_TIP), &format!("{only}\n"))?;
            }
            write_atomic(&mirror.join("packed-refs"), packed.as_bytes(), Durability::Unsynced)
                .map_err(RepoError::io("write", mirror.join("packed-refs")))
        })
        .await
    }

    /// The refs in the format of git's file `packed-refs`.
    fn packed(&self) -> String {
        let lines = self.refs.iter().map(|(name, id)| format!("{id} {name}\n"));
        std::iter::once("# pack-refs with: sorted \n".to_owned()).chain(lines).collect()
    }
}

/// Copies the pack of a mirror whose refs all point to this commit; returns false if there are others. The mirror then has exactly the
/// objects that are reachable from the commit.
pub(crate) fn copy_only_pack(mirror: &Path, target: &Path, commit: &str) -> Result<bool, RepoError> {
    if !fs::read_to_string(mirror.join(ONLY_TIP)).is_ok_and(|tip| tip.trim_end() == commit) {
        return Ok(false);
    }
    let (from, to) = (mirror.join("objects/pack"), target.join("objects/pack"));
    files::link_or_copy_dir(&from, &to)?;
    Ok(true)
}

/// Notes that a mirror is about to have further objects.
pub(crate) fn forget_only_tip(mirror: &Path) {
    let _ = fs::remove_file(mirror.join(ONLY_TIP));
}

/// Reads the id of a ref from the packed refs of a mirror.
pub(crate) fn packed_ref(mirror: &Path, name: &str) -> Option<String> {
    let packed = fs::read_to_string(mirror.join("packed-refs")).ok()?;
    packed.lines().find_map(|line| {
        let (id, found) = line.split_once(' ')?;
        (found == name && git_dir::is_full_object_id(id)).then(|| id.to_owned())
    })
}

/// Whether a repository has the oldest format, in which refs are files and ids are SHA-1.
fn is_oldest_format(config: &str) -> bool {
    let config = config.to_ascii_lowercase();
    let value = |line: &str| {
        let (name, value) = line.split_once('=')?;
        (name.trim() == "repositoryformatversion").then(|| value.trim() == "0")
    };
    !config.contains("[extensions")
        && !config.contains("[include")
        && config.lines().filter_map(value).all(|zero| zero)
}

fn read_loose(dir: &Path, prefix: &str, refs: &mut BTreeMap<String, String>) -> Option<()> {
    let Ok(entries) = fs::read_dir(dir) else { return Some(()) };
    for entry in entries {
        let entry = entry.ok()?;
        let name = format!("{prefix}/{}", entry.file_name().to_str()?);
        let kind = entry.file_type().ok()?;
        if kind.is_dir() {
            read_loose(&entry.path(), &name, refs)?;
        } else if !name.ends_with(".lock") {
            // A symbolic ref is left to git.
            let id = fs::read_to_string(entry.path()).ok().filter(|_| kind.is_file())?;
            insert(refs, &name, id.trim_end())?;
        }
    }
    Some(())
}

/// Adds a branch or tag; other refs are not mirrored.
fn insert(refs: &mut BTreeMap<String, String>, name: &str, id: &str) -> Option<()> {
    if name.starts_with("refs/heads/") || name.starts_with("refs/tags/") {
        if !git_dir::is_full_object_id(id) || !git_dir::is_ref_name(name) {
            return None;
        }
        refs.insert(name.to_owned(), id.to_owned());
    }
    Some(())
}

/// Whether an error may be due to how the repository is stored, so that `git fetch` should be tried.
pub(crate) fn is_git_failure(error: &RepoError) -> bool {
    matches!(error, RepoError::Git(GitError::Failed { .. } | GitError::BadOutput { .. }))
}
