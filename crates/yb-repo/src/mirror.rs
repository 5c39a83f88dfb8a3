//! The cache's mirrors: each repository is fetched once, by whichever process comes first, and then asked for commits.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use yb_model::atomic_file::temporary_sibling;

use super::call::Call;
use super::capture::CaptureWarning;
use super::error::{GitError, RepoError, blocking};
use super::files;
use super::git::Git;
use super::hosts;
use super::lock::Lock;
use super::skeleton;
use super::source::{Source, SourceError};
use yb_net::policy::HostPolicy;

/// Bare, and what is fetched stays packed as it came, which halves the time of a small fetch.
const CONFIG: &str = "\tbare = true\n[fetch]\n\tunpackLimit = 1\n[gc]\n\tauto = 0\n";
/// Written last into a new mirror, and after each fetch.
const FETCHED: &str = "youbencha-fetched";
/// Where the remote's HEAD is kept.
const REMOTE_HEAD: &str = "refs/youbencha/HEAD";

/// Which commit is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Revision {
    /// The head of the default branch.
    Default,
    /// The head of a branch.
    Branch(String),
    /// What a tag stands for.
    Tag(String),
    /// A commit, by its whole or shortened id.
    Commit(String),
    /// A branch, else a tag, else a commit.
    Any(String),
}

/// When a mirror that is there is fetched again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Refresh {
    /// For a revision that moves (a branch, the default branch), and for one that is missing.
    #[default]
    Moving,
    /// Only for one that is missing.
    Missing,
    /// Never: nothing leaves this machine.
    Never,
}

/// A commit that the cache has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// Its id.
    pub commit: String,
    /// What a directory has and its commit does not; of a repository, nothing.
    pub warnings: Vec<CaptureWarning>,
    pub(crate) origin: Origin,
}

impl Resolved {
    fn in_mirror(commit: String, mirror: PathBuf) -> Self {
        Self { commit, warnings: Vec::new(), origin: Origin::Mirror(mirror) }
    }
}

/// Where a resolved commit can be taken from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Mirror(PathBuf),
    Directory(PathBuf),
}

/// The cache of a workspace directory: `mirrors/` and `cut/`, shared by all runs and safe to use at the same time.
#[derive(Debug, Clone)]
pub struct Cache {
    pub(crate) root: PathBuf,
    pub(crate) git: Git,
    hosts: HostPolicy,
}

impl Cache {
    /// The cache in this directory, which is made where it is missing.
    pub fn new(root: impl AsRef<Path>, git: &Git) -> Result<Self, RepoError> {
        let root = std::path::absolute(root.as_ref())
            .map_err(RepoError::io("find the directory of", root.as_ref()))?;
        for sub in ["mirrors", "cut"] {
            let path = root.join(sub);
            fs::create_dir_all(&path).map_err(RepoError::io("make the directory", path))?;
        }
        Ok(Self { root, git: git.clone(), hosts: HostPolicy::default() })
    }

    /// Which hosts may be fetched from.
    #[must_use]
    pub fn hosts(mut self, hosts: HostPolicy) -> Self {
        self.hosts = hosts;
        self
    }

    /// Finds the commit that a revision stands for now, fetching as far as needed. A directory has one commit,
    /// whatever revision is asked for.
    pub async fn resolve(
        &self,
        source: &Source,
        revision: &Revision,
        refresh: Refresh,
    ) -> Result<Resolved, RepoError> {
        if let Source::Directory(path) = source {
            let (commit, warnings) = self.import_directory(path).await?;
            return Ok(Resolved { commit, warnings, origin: Origin::Directory(path.clone()) });
        }
        revision.check()?;
        if let (Source::Remote(url), Refresh::Moving | Refresh::Missing) = (source, refresh) {
            // Refused even if the mirror is there: the answer must not depend on what was cached before. Without a
            // network what is cached still serves.
            match hosts::check(url, self.hosts).await {
                Ok(_) | Err(SourceError::Unresolved { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let mirror = self.root.join("mirrors").join(format!("{}.git", digest(&key(source))));
        let before = fetched_at(&mirror);
        let missing = || RepoError::NoRevision {
            what: revision.what(),
            name: revision.name().to_owned(),
            repository: source.to_string(),
        };
        let fetch_first = refresh == Refresh::Moving && revision.moves();
        if !fetch_first
            && is_whole(&mirror)
            && let Some(commit) = self.look_up(&mirror, revision).await?
        {
            return Ok(Resolved::in_mirror(commit, mirror));
        }
        if refresh == Refresh::Never {
            return Err(missing());
        }
        let _lock = Lock::take(&mirror.with_extension("lock"), &self.git).await?;
        if is_whole(&mirror) {
            // Whoever held the lock may have fetched while we waited for it.
            if !(fetch_first && fetched_at(&mirror) == before)
                && let Some(commit) = self.look_up(&mirror, revision).await?
            {
                return Ok(Resolved::in_mirror(commit, mirror));
            }
            self.fetch_all(&mirror, source).await?;
        } else {
            self.make(&mirror, source).await?;
        }
        let commit = match self.look_up(&mirror, revision).await? {
            Some(commit) => commit,
            None => {
                // A commit that no branch or tag leads to can still be asked for by its whole id.
                let (Revision::Commit(id) | Revision::Any(id)) = revision else { return Err(missing()) };
                if !skeleton::is_whole_id(id) || !self.fetch_one(&mirror, source, id).await? {
                    return Err(missing());
                }
                self.look_up(&mirror, revision).await?.ok_or_else(missing)?
            }
        };
        Ok(Resolved::in_mirror(commit, mirror))
    }

    /// Makes a mirror beside its place and moves it there when it is whole.
    async fn make(&self, mirror: &Path, source: &Source) -> Result<(), RepoError> {
        let (place, half) = (mirror.to_owned(), temporary_sibling(mirror));
        let new = half.clone();
        blocking(move || {
            remove_leftovers(&place)?;
            files::remove_dir(&place)?;
            skeleton::create(&new, "none", CONFIG)
        })
        .await?;
        let fetched = self.fetch_all(&half, source).await;
        let place = mirror.to_owned();
        blocking(move || {
            let done = fetched.and_then(|()| fs::rename(&half, &place).map_err(RepoError::io("move", &half)));
            if done.is_err() {
                files::remove_dir(&half)?;
            }
            done
        })
        .await
    }

    /// Brings all branches and tags up to date.
    async fn fetch_all(&self, mirror: &Path, source: &Source) -> Result<(), RepoError> {
        let head = format!("+HEAD:{REMOTE_HEAD}");
        let refs = ["+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"];
        let all = [refs[0], refs[1], &head];
        match self.fetch(mirror, source, &all).await {
            // A repository whose HEAD leads nowhere may still have branches.
            Err(RepoError::Git(GitError::Failed { stderr, .. })) if stderr.contains("remote ref HEAD") => {
                let _ = fs::remove_file(mirror.join(REMOTE_HEAD));
                self.fetch(mirror, source, &refs).await?;
            }
            done => done?,
        }
        skeleton::write(&mirror.join(FETCHED), "1\n")
    }

    /// Fetches one commit by its id; false if the other side does not have it.
    async fn fetch_one(&self, mirror: &Path, source: &Source, id: &str) -> Result<bool, RepoError> {
        let refspec = format!("+{id}:refs/youbencha/commits/{id}");
        match self.fetch(mirror, source, &[&refspec]).await {
            Ok(()) => Ok(true),
            Err(RepoError::Git(GitError::Failed { stderr, .. }))
                if ["not our ref", "remote ref", "unadvertised object"]
                    .iter()
                    .any(|w| stderr.contains(w)) =>
            {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    async fn fetch(&self, mirror: &Path, source: &Source, refspecs: &[&str]) -> Result<(), RepoError> {
        let dead = mirror.to_owned();
        blocking(move || {
            files::remove_dead_locks(&dead);
            Ok(())
        })
        .await?;
        let call = self.git.call("fetch").git_dir(mirror).args([
            "--quiet",
            "--no-tags",
            "--prune",
            "--force",
            "--no-write-fetch-head",
            "--no-auto-maintenance",
            "--no-recurse-submodules",
            "--no-show-forced-updates",
        ]);
        let call: Call<'_> = match source {
            Source::Remote(url) => {
                let pinned = hosts::check(url, self.hosts).await?;
                let mut call = pinned.settings.into_iter().fold(call.remote(), Call::setting);
                if let Some(password) = url.password() {
                    call = call.secret("REPOSITORY_PASSWORD", password);
                }
                call.args(["--end-of-options", url.as_str()])
            }
            // What CI checks out is often shallow.
            Source::Local(path) | Source::Directory(path) => {
                call.local().args(["--update-shallow", "--end-of-options"]).arg(path)
            }
        };
        call.args(refspecs).bytes().await?;
        Ok(())
    }

    async fn look_up(&self, mirror: &Path, revision: &Revision) -> Result<Option<String>, RepoError> {
        if let Some(commit) = revision.read_from(mirror) {
            return Ok(Some(commit));
        }
        let mut asked = String::new();
        for candidate in revision.candidates() {
            asked.push_str(&format!("{candidate}^{{commit}}\n"));
        }
        if asked.is_empty() {
            return Ok(None);
        }
        let call = self.git.call("cat-file").git_dir(mirror);
        let answer =
            call.arg("--batch-check=%(objectname) %(objecttype)").stdin(asked.into_bytes()).text().await?;
        Ok(answer.lines().find_map(|line| {
            let (id, kind) = line.split_once(' ')?;
            (kind == "commit" && skeleton::is_whole_id(id)).then(|| id.to_owned())
        }))
    }
}

impl Revision {
    fn name(&self) -> &str {
        match self {
            Self::Default => "HEAD",
            Self::Branch(name) | Self::Tag(name) | Self::Commit(name) | Self::Any(name) => name,
        }
    }

    fn what(&self) -> &'static str {
        match self {
            Self::Default => "default branch",
            Self::Branch(_) => "branch",
            Self::Tag(_) => "tag",
            Self::Commit(_) => "commit",
            Self::Any(_) => "branch, tag or commit",
        }
    }

    fn moves(&self) -> bool {
        match self {
            Self::Default | Self::Branch(_) => true,
            Self::Any(name) => !skeleton::is_whole_id(name),
            Self::Tag(_) | Self::Commit(_) => false,
        }
    }

    /// The head of a branch without asking git: a file that it wrote a moment ago, and always a commit.
    fn read_from(&self, mirror: &Path) -> Option<String> {
        let reference = match self {
            Self::Default => REMOTE_HEAD.to_owned(),
            Self::Branch(name) | Self::Any(name) => format!("refs/heads/{name}"),
            Self::Tag(_) | Self::Commit(_) => return None,
        };
        let content = fs::read_to_string(mirror.join(reference)).ok()?;
        let id = content.trim_end();
        skeleton::is_whole_id(id).then(|| id.to_owned())
    }

    /// Names end up in expressions that git interprets.
    fn check(&self) -> Result<(), RepoError> {
        let good = match self {
            Self::Default => true,
            Self::Commit(id) => skeleton::is_object_id(id),
            Self::Branch(name) | Self::Tag(name) | Self::Any(name) => skeleton::is_ref_name(name),
        };
        if good {
            Ok(())
        } else {
            Err(RepoError::BadName { what: self.what(), name: self.name().to_owned() })
        }
    }

    fn candidates(&self) -> Vec<String> {
        let (branch, tag) =
            (|name: &str| format!("refs/heads/{name}"), |name: &str| format!("refs/tags/{name}"));
        match self {
            Self::Default => vec![REMOTE_HEAD.to_owned()],
            Self::Branch(name) => vec![branch(name)],
            Self::Tag(name) => vec![tag(name)],
            Self::Commit(id) => vec![id.clone()],
            Self::Any(name) => {
                let mut all = vec![branch(name), tag(name)];
                all.extend(skeleton::is_object_id(name).then(|| name.clone()));
                all
            }
        }
    }
}

/// The name of a cache entry.
pub(crate) fn digest(key: &str) -> String {
    blake3::hash(key.as_bytes()).to_hex().chars().take(32).collect()
}

/// Credentials are no part of it: whoever may read the cache needs none.
fn key(source: &Source) -> String {
    match source {
        Source::Remote(_) => format!("remote {source}"),
        Source::Local(path) | Source::Directory(path) => format!("local {}", path.to_string_lossy()),
    }
}

fn is_whole(mirror: &Path) -> bool {
    mirror.join(FETCHED).is_file() && skeleton::is_whole(mirror)
}

/// Only ever compared with itself: the clock may have been set back since.
fn fetched_at(mirror: &Path) -> Option<SystemTime> {
    fs::metadata(mirror.join(FETCHED)).and_then(|file| file.modified()).ok()
}

/// Removes what processes that died have left beside a cache entry; its lock must be held.
pub(crate) fn remove_leftovers(place: &Path) -> Result<(), RepoError> {
    let (Some(parent), Some(name)) = (place.parent(), place.file_name()) else { return Ok(()) };
    let prefix = format!("{}.tmp-", name.to_string_lossy());
    for entry in fs::read_dir(parent).map_err(RepoError::io("read the directory", parent))?.flatten() {
        if entry.file_name().to_string_lossy().starts_with(&prefix) {
            files::remove_dir(&entry.path())?;
        }
    }
    Ok(())
}
