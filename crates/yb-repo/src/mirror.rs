//! Mirrors in the cache: each repository is fetched once, and commits are resolved in its mirror.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use yb_model::atomic_file::temporary_sibling;

use super::consolidate::remove_old_temporary_packs;
use super::error::{GitError, RepoError, blocking};
use super::files;
use super::git::Git;
use super::git_command::GitCommand;
use super::git_dir;
use super::hosts;
use super::local_mirror::{LocalRefs, forget_only_tip, is_git_failure, packed_ref};
use super::lock::FileLock;
use super::source::{Source, SourceError};
use super::warning::CaptureWarning;
use yb_net::policy::HostPolicy;

/// The configuration of a mirror. Fetched packs are not unpacked, which halves the time of a small fetch.
const CONFIG: &str = "\tbare = true\n[fetch]\n\tunpackLimit = 1\n[gc]\n\tauto = 0\n";
/// The file that is written last into a new mirror, and after each fetch.
const FETCHED: &str = "youbencha-fetched";
/// From this age on, a temporary pack is taken for that of a killed git.
const TEMPORARY_PACK_AGE: Duration = Duration::from_secs(24 * 3600);
/// The ref that holds the HEAD of the remote.
pub(crate) const REMOTE_HEAD: &str = "refs/youbencha/HEAD";

/// A revision of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Revision {
    /// The head of the default branch.
    Default,
    /// The head of a branch.
    Branch(String),
    /// The commit of a tag.
    Tag(String),
    /// A commit, by its full or abbreviated id.
    Commit(String),
    /// A branch, else a tag, else a commit.
    Any(String),
}

/// When an existing mirror is fetched again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Refresh {
    /// For a revision that can change (a branch, the default branch) or is missing.
    #[default]
    Moving,
    /// Only for a missing revision.
    Missing,
    /// Never: the network is not used.
    Never,
}

/// A commit in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedCommit {
    /// The commit id.
    pub commit: String,
    /// Differences between a directory and its commit; empty for a repository.
    pub warnings: Vec<CaptureWarning>,
    pub(crate) origin: Origin,
}

impl ResolvedCommit {
    fn in_mirror(commit: String, mirror: PathBuf) -> Self {
        Self { commit, warnings: Vec::new(), origin: Origin::Mirror(mirror) }
    }
}

/// The origin of a resolved commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Mirror(PathBuf),
    Directory(PathBuf),
}

/// The repository cache: mirrors in `mirrors/` and pruned repositories in `cut/`. Runs can use it concurrently.
#[derive(Debug, Clone)]
pub struct Cache {
    pub(crate) root: PathBuf,
    pub(crate) git: Git,
    hosts: HostPolicy,
}

impl Cache {
    /// Opens the cache in a directory, or creates it.
    pub fn new(root: impl AsRef<Path>, git: &Git) -> Result<Self, RepoError> {
        let root =
            std::path::absolute(root.as_ref()).map_err(RepoError::io("resolve the path", root.as_ref()))?;
        for sub in ["mirrors", "cut"] {
            let path = root.join(sub);
            fs::create_dir_all(&path).map_err(RepoError::io("create the directory", path))?;
        }
        Ok(Self { root, git: git.clone(), hosts: HostPolicy::default() })
    }

    /// Sets the hosts that may be fetched from.
    #[must_use]
    pub fn hosts(mut self, hosts: HostPolicy) -> Self {
        self.hosts = hosts;
        self
    }

    /// Resolves a revision to a commit, and fetches if needed. A directory has a single commit, regardless of the revision.
    pub async fn resolve(
        &self,
        source: &Source,
        revision: &Revision,
        refresh: Refresh,
    ) -> Result<ResolvedCommit, RepoError> {
        if let Source::Directory(path) = source {
            let (commit, warnings) = self.import_directory(path).await?;
            return Ok(ResolvedCommit { commit, warnings, origin: Origin::Directory(path.clone()) });
        }
        revision.check()?;
        if let (Source::Remote(url), Refresh::Moving | Refresh::Missing) = (source, refresh) {
            // The policy also applies if the mirror exists, so the result does not depend on the state of the cache. Without a
            // network, the mirror is still used.
            match hosts::check_host(url, self.hosts).await {
                Ok(_) | Err(SourceError::Unresolved { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let mirror = self.root.join("mirrors").join(format!("{}.git", digest(&mirror_key(source))));
        let before = fetched_at(&mirror);
        let missing = || RepoError::NoRevision {
            what: revision.what(),
            name: revision.name().to_owned(),
            repository: source.to_string(),
        };
        let fetch_first = refresh == Refresh::Moving && revision.moves();
        if !fetch_first
            && is_complete(&mirror)
            && let Some(commit) = self.look_up(&mirror, revision).await?
        {
            return Ok(ResolvedCommit::in_mirror(commit, mirror));
        }
        if refresh == Refresh::Never {
            return Err(missing());
        }
        let _lock = FileLock::acquire(&mirror.with_extension("lock"), &self.git).await?;
        if is_complete(&mirror) {
            // Another process may have fetched while this one waited for the lock.
            if !(fetch_first && fetched_at(&mirror) == before)
                && let Some(commit) = self.look_up(&mirror, revision).await?
            {
                return Ok(ResolvedCommit::in_mirror(commit, mirror));
            }
            self.fetch_all(&mirror, source).await?;
        } else {
            self.create_mirror(&mirror, source).await?;
        }
        let commit = match self.look_up(&mirror, revision).await? {
            Some(commit) => commit,
            None => {
                // A commit that is not reachable from a branch or tag can be fetched by its full id.
                let (Revision::Commit(id) | Revision::Any(id)) = revision else { return Err(missing()) };
                if !git_dir::is_full_object_id(id) || !self.fetch_one(&mirror, source, id).await? {
                    return Err(missing());
                }
                self.look_up(&mirror, revision).await?.ok_or_else(missing)?
            }
        };
        Ok(ResolvedCommit::in_mirror(commit, mirror))
    }

    /// Creates a mirror under a temporary name, and renames it when it is complete.
    async fn create_mirror(&self, mirror: &Path, source: &Source) -> Result<(), RepoError> {
        let (path, partial) = (mirror.to_owned(), temporary_sibling(mirror));
        let new = partial.clone();
        blocking(move || {
            remove_leftovers(&path)?;
            files::remove_dir(&path)?;
            git_dir::create(&new, "none", CONFIG)
        })
        .await?;
        let fetched = match self.copy_local(&partial, source).await {
            Some(copied) => copied,
            None => self.fetch_all(&partial, source).await,
        };
        let path = mirror.to_owned();
        blocking(move || {
            let done =
                fetched.and_then(|()| fs::rename(&partial, &path).map_err(RepoError::io("move", &partial)));
            if done.is_err() {
                files::remove_dir(&partial)?;
            }
            done
        })
        .await
    }

    /// Copies an ordinary local repository without fetching; `None` for other sources, and if that fails: then the mirror is empty.
    async fn copy_local(&self, mirror: &Path, source: &Source) -> Option<Result<(), RepoError>> {
        let Source::Local(path) = source else { return None };
        let copied = LocalRefs::read(path)?.copy_to(&self.git, mirror).await;
        match copied.and_then(|()| git_dir::write(&mirror.join(FETCHED), "1\n")) {
            Err(error) if is_git_failure(&error) => {
                // Nothing of what was not verified may stay.
                let git_dir = mirror.to_owned();
                let again = move || {
                    files::remove_dir(&git_dir)?;
                    git_dir::create(&git_dir, "none", CONFIG)
                };
                blocking(again).await.err().map(Err)
            }
            copied => Some(copied),
        }
    }

    /// Fetches all branches and tags.
    async fn fetch_all(&self, mirror: &Path, source: &Source) -> Result<(), RepoError> {
        if let Source::Local(path) = source
            && is_complete(mirror)
            && LocalRefs::read(path).is_some_and(|refs| refs.are_in(mirror))
        {
            remove_old_temporary_packs(mirror, TEMPORARY_PACK_AGE);
            return git_dir::write(&mirror.join(FETCHED), "1\n");
        }
        let head = format!("+HEAD:{REMOTE_HEAD}");
        let refs = ["+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"];
        let all = [refs[0], refs[1], &head];
        match self.fetch(mirror, source, &all).await {
            // A repository with an unborn or dangling HEAD may still have branches.
            Err(RepoError::Git(GitError::Failed { stderr, .. })) if stderr.contains("remote ref HEAD") => {
                let _ = fs::remove_file(mirror.join(REMOTE_HEAD));
                self.fetch(mirror, source, &refs).await?;
            }
            done => done?,
        }
        git_dir::write(&mirror.join(FETCHED), "1\n")
    }

    /// Fetches one commit by id; returns false if the remote does not have it.
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
        let git_dir = mirror.to_owned();
        blocking(move || {
            files::remove_stale_locks(&git_dir);
            forget_only_tip(&git_dir);
            // A run may be packing a commit of this mirror at the same time.
            remove_old_temporary_packs(&git_dir, TEMPORARY_PACK_AGE);
            Ok(())
        })
        .await?;
        let call = self.git.command("fetch").git_dir(mirror).args([
            "--quiet",
            "--no-tags",
            "--prune",
            "--force",
            "--no-write-fetch-head",
            "--no-auto-maintenance",
            "--no-recurse-submodules",
            "--no-show-forced-updates",
        ]);
        let call: GitCommand<'_> = match source {
            Source::Remote(url) => {
                let pinned = hosts::check_host(url, self.hosts).await?;
                let mut call = pinned.settings.into_iter().fold(call.remote(), GitCommand::setting);
                if let Some(password) = url.password() {
                    call = call.secret("REPOSITORY_PASSWORD", password);
                }
                call.args(["--end-of-options", url.as_str()])
            }
            // Checkouts in CI are often shallow.
            Source::Local(path) | Source::Directory(path) => {
                call.local().args(["--update-shallow", "--end-of-options"]).arg(path)
            }
        };
        call.args(refspecs).bytes().await?;
        Ok(())
    }

    async fn look_up(&self, mirror: &Path, revision: &Revision) -> Result<Option<String>, RepoError> {
        if let Some(commit) = revision.read_ref(mirror) {
            return Ok(Some(commit));
        }
        let mut request = String::new();
        for candidate in revision.candidates() {
            request.push_str(&format!("{candidate}^{{commit}}\n"));
        }
        if request.is_empty() {
            return Ok(None);
        }
        let call = self.git.command("cat-file").git_dir(mirror);
        let answer =
            call.arg("--batch-check=%(objectname) %(objecttype)").stdin(request.into_bytes()).text().await?;
        Ok(answer.lines().find_map(|line| {
            let (id, kind) = line.split_once(' ')?;
            (kind == "commit" && git_dir::is_full_object_id(id)).then(|| id.to_owned())
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

    /// Whether the revision can refer to another commit later.
    fn moves(&self) -> bool {
        match self {
            Self::Default | Self::Branch(_) => true,
            Self::Any(name) => !git_dir::is_full_object_id(name),
            Self::Tag(_) | Self::Commit(_) => false,
        }
    }

    /// Reads the head of a branch, without running git.
    fn read_ref(&self, mirror: &Path) -> Option<String> {
        let reference = match self {
            Self::Default => REMOTE_HEAD.to_owned(),
            Self::Branch(name) | Self::Any(name) => format!("refs/heads/{name}"),
            Self::Tag(_) | Self::Commit(_) => return None,
        };
        match fs::read_to_string(mirror.join(&reference)) {
            Ok(content) => {
                let id = content.trim_end();
                git_dir::is_full_object_id(id).then(|| id.to_owned())
            }
            Err(_) => packed_ref(mirror, &reference),
        }
    }

    /// Validates the name, which becomes part of revision expressions of git.
    fn check(&self) -> Result<(), RepoError> {
        let good = match self {
            Self::Default => true,
            Self::Commit(id) => git_dir::is_object_id(id),
            Self::Branch(name) | Self::Tag(name) | Self::Any(name) => git_dir::is_ref_name(name),
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
                all.extend(git_dir::is_object_id(name).then(|| name.clone()));
                all
            }
        }
    }
}

/// The file name of a cache entry.
pub(crate) fn digest(key: &str) -> String {
    blake3::hash(key.as_bytes()).to_hex().chars().take(32).collect()
}

/// The key of a mirror. It has no credentials, since reading the cache requires none.
fn mirror_key(source: &Source) -> String {
    match source {
        Source::Remote(_) => format!("remote {source}"),
        Source::Local(path) | Source::Directory(path) => format!("local {}", path.to_string_lossy()),
    }
}

fn is_complete(mirror: &Path) -> bool {
    mirror.join(FETCHED).is_file() && git_dir::is_complete(mirror)
}

/// The time of the last fetch. It is only compared for equality, because the clock may have been set back.
fn fetched_at(mirror: &Path) -> Option<SystemTime> {
    fs::metadata(mirror.join(FETCHED)).and_then(|file| file.modified()).ok()
}

/// Removes temporary directories that dead processes left next to a cache entry, whose lock must be held.
pub(crate) fn remove_leftovers(path: &Path) -> Result<(), RepoError> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
    let prefix = format!("{}.tmp-", name.to_string_lossy());
    for entry in fs::read_dir(parent).map_err(RepoError::io("read the directory", parent))?.flatten() {
        if entry.file_name().to_string_lossy().starts_with(&prefix) {
            files::remove_dir(&entry.path())?;
        }
    }
    Ok(())
}
