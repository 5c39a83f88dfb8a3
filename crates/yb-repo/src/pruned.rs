//! Pruned repositories: one commit with its history, and nothing later. An agent that searches the objects of its repository
//! can't find a later fix, because it is not there.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use yb_model::atomic_file::temporary_sibling;

use super::error::{RepoError, blocking};
use super::files;
use super::git::Git;
use super::git_dir::{self, BARE};
use super::import::{ImportResult, TreeImport};
use super::local_mirror::copy_only_pack;
use super::lock::FileLock;
use super::mirror::{Cache, Origin, ResolvedCommit, digest, remove_leftovers};
use super::warning::CaptureWarning;

/// The file with the output of `git ls-tree` for the commit; written last.
const LISTING: &str = "youbencha-tree";
/// The arguments of `git ls-tree` for the listing.
const LS_TREE_ARGS: [&str; 4] = ["-r", "-z", "-l", "--full-tree"];
/// The branch of a pruned repository, which workspaces do not have.
const BRANCH: &str = "cut";

/// How much of the history of a commit an agent gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum History {
    /// All of it.
    #[default]
    Full,
    /// Only the commit itself, as a shallow repository.
    None,
}

/// A cached repository with one commit and its history, from which workspaces are copied.
#[derive(Debug, Clone)]
pub struct PrunedRepo {
    path: PathBuf,
    commit: String,
    listing: Arc<Vec<ListedFile>>,
}

/// A file of the commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListedFile {
    pub(crate) mode: u32,
    /// The size of the content; caches of earlier versions do not have it.
    pub(crate) size: Option<u64>,
    pub(crate) path: Vec<u8>,
}

impl PrunedRepo {
    /// The commit.
    pub fn commit(&self) -> &str {
        &self.commit
    }

    /// The git directory, in the cache; never exposed to agents.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn listing(&self) -> &Arc<Vec<ListedFile>> {
        &self.listing
    }

    fn open(path: PathBuf, commit: &str) -> Result<Option<Self>, RepoError> {
        if !git_dir::is_complete(&path) {
            return Ok(None);
        }
        match fs::read(path.join(LISTING)) {
            Ok(bytes) => {
                Ok(Some(Self { listing: Arc::new(parse_listing(&bytes)), path, commit: commit.to_owned() }))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(RepoError::io("read", path.join(LISTING))(error)),
        }
    }
}

impl Cache {
    /// Returns the pruned repository of a commit; creates it if it is not in the cache.
    pub async fn pruned_repo(
        &self,
        resolved: &ResolvedCommit,
        history: History,
    ) -> Result<PrunedRepo, RepoError> {
        let commit = resolved.commit.as_str();
        let (mirror, key) = match &resolved.origin {
            Origin::Mirror(mirror) => {
                let name = mirror.file_name().unwrap_or_default().to_string_lossy().into_owned();
                (Some(mirror), format!("{name} {commit} {history:?}"))
            }
            Origin::Directory(_) => (None, directory_key(commit)),
        };
        let target = self.pruned_path(&key);
        if let Some(pruned) = PrunedRepo::open(target.clone(), commit)? {
            return Ok(pruned);
        }
        let Some(mirror) = mirror else {
            // The cache was cleared since the commit was resolved; the directory may have changed as well.
            if let Origin::Directory(directory) = &resolved.origin
                && self.import_directory(directory).await?.0 == commit
                && let Some(pruned) = PrunedRepo::open(target, commit)?
            {
                return Ok(pruned);
            }
            let repository = "the directory, which was changed".to_owned();
            return Err(RepoError::NoRevision { what: "commit", name: commit.to_owned(), repository });
        };
        let _lock = FileLock::acquire(&target.with_extension("lock"), &self.git).await?;
        if let Some(pruned) = PrunedRepo::open(target.clone(), commit)? {
            return Ok(pruned);
        }
        let partial = self.create_partial(&target).await?;
        let created = pack_history(&self.git, mirror, &partial, commit, history).await;
        self.finish(partial, target, commit, created).await
    }

    /// Imports a directory as one commit; returns its id and warnings about files that are left out.
    pub(crate) async fn import_directory(
        &self,
        directory: &Path,
    ) -> Result<(String, Vec<CaptureWarning>), RepoError> {
        // The path of the result depends on the content, so the partial repository is named after the directory.
        let scratch = self.pruned_path(&format!("import {}", directory.to_string_lossy()));
        let _lock = FileLock::acquire(&scratch.with_extension("lock"), &self.git).await?;
        let partial = self.create_partial(&scratch).await?;
        let import = TreeImport::of_directory("start", directory);
        let (commit, warnings, created) = match import.run(&self.git, &partial).await {
            Ok(ImportResult { commit, warnings, .. }) => {
                let call = self.git.command("ls-tree").git_dir(&partial).args(LS_TREE_ARGS).arg(&commit);
                let listed = call.bytes().await.map_err(RepoError::from);
                let created = listed
                    .and_then(|listing| write_listing(&partial, &listing))
                    .and_then(|()| git_dir::set_branch(&partial, BRANCH, &commit));
                (commit, warnings, created)
            }
            Err(error) => (String::new(), Vec::new(), Err(error)),
        };
        let target = self.pruned_path(&directory_key(&commit));
        self.finish(partial, target, &commit, created).await?;
        Ok((commit, warnings))
    }

    fn pruned_path(&self, key: &str) -> PathBuf {
        self.root.join("cut").join(format!("{}.git", digest(key)))
    }

    /// Creates an empty repository next to `target`.
    async fn create_partial(&self, target: &Path) -> Result<PathBuf, RepoError> {
        let (target, partial) = (target.to_owned(), temporary_sibling(target));
        blocking(move || {
            remove_leftovers(&target)?;
            git_dir::create(&partial, BRANCH, BARE)?;
            Ok(partial)
        })
        .await
    }

    /// Moves a complete repository to `target`, or removes it if its creation failed.
    async fn finish(
        &self,
        partial: PathBuf,
        target: PathBuf,
        commit: &str,
        created: Result<(), RepoError>,
    ) -> Result<PrunedRepo, RepoError> {
        let commit = commit.to_owned();
        blocking(move || {
            if let Err(error) = created {
                files::remove_dir(&partial)?;
                return Err(error);
            }
            if let Some(pruned) = PrunedRepo::open(target.clone(), &commit)? {
                files::remove_dir(&partial)?;
                return Ok(pruned);
            }
            files::remove_dir(&target)?;
            let renamed = fs::rename(&partial, &target);
            match (renamed, PrunedRepo::open(target, &commit)?) {
                (Ok(()), Some(pruned)) => Ok(pruned),
                // Another import, of a directory with the same files, was faster.
                (Err(_), Some(pruned)) => files::remove_dir(&partial).map(|()| pruned),
                (Err(error), None) => Err(RepoError::io("move", partial)(error)),
                (Ok(()), None) => {
                    Err(RepoError::io("read", partial)(std::io::Error::from(std::io::ErrorKind::NotFound)))
                }
            }
        })
        .await
    }
}

fn directory_key(commit: &str) -> String {
    format!("directory {commit}")
}

/// Packs exactly the objects reachable from the commit, from the mirror directly into the new repository.
async fn pack_history(
    git: &Git,
    mirror: &Path,
    partial: &Path,
    commit: &str,
    history: History,
) -> Result<(), RepoError> {
    let mut wanted = String::new();
    let shallow = match history {
        History::None => {
            wanted.push_str(&format!("--shallow {commit}\n"));
            format!("{commit}\n")
        }
        History::Full => shallow_boundary(git, mirror, commit).await?,
    };
    if !shallow.is_empty() {
        git_dir::write(&partial.join("shallow"), &shallow)?;
    }
    wanted.push_str(&format!("{commit}\n"));
    let (from, to, only) = (mirror.to_owned(), partial.to_owned(), commit.to_owned());
    let is_copied = history == History::Full && blocking(move || copy_only_pack(&from, &to, &only)).await?;
    let pack = async {
        if is_copied {
            return Ok(Vec::new());
        }
        let pack = git.command("pack-objects").git_dir(mirror);
        pack.args(["--revs", "--quiet", "--delta-base-offset"])
            .arg(partial.join("objects/pack/pack"))
            .stdin(wanted.into_bytes())
            .bytes()
            .await
    };
    let listing = git.command("ls-tree").git_dir(mirror).args(LS_TREE_ARGS).arg(commit).bytes();
    let (packed, listing) = tokio::join!(pack, listing);
    packed?;
    git_dir::set_branch(partial, BRANCH, commit)?;
    write_listing(partial, &listing?)
}

/// The commits where the history ends in a mirror of a shallow repository, as in git's file `shallow`.
async fn shallow_boundary(git: &Git, mirror: &Path, commit: &str) -> Result<String, RepoError> {
    let Ok(shallow) = fs::read_to_string(mirror.join("shallow")) else { return Ok(String::new()) };
    let call = git.command("rev-list").git_dir(mirror).args(["--max-parents=0", commit]);
    let roots = call.text().await?;
    let boundary = roots.lines().filter(|root| shallow.lines().any(|commit| commit == *root));
    Ok(boundary.map(|root| format!("{root}\n")).collect())
}

fn write_listing(partial: &Path, listing: &[u8]) -> Result<(), RepoError> {
    fs::write(partial.join(LISTING), listing).map_err(RepoError::io("write", partial.join(LISTING)))
}

/// Parses `<mode> <type> <id> <size>\t<path>\0` for each file; the size may be missing.
fn parse_listing(bytes: &[u8]) -> Vec<ListedFile> {
    bytes
        .split(|byte| *byte == 0)
        .filter_map(|line| {
            let tab = line.iter().position(|byte| *byte == b'\t')?;
            let mode = std::str::from_utf8(line.get(..6)?).ok()?;
            let size = std::str::from_utf8(&line[..tab]).ok()?.split_whitespace().nth(3);
            Some(ListedFile {
                mode: u32::from_str_radix(mode, 8).ok()?,
                size: size.and_then(|size| size.parse().ok()),
                path: line[tab + 1..].to_vec(),
            })
        })
        .collect()
}
