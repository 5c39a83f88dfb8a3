//! A cut repository: one commit with its past, and nothing later. An agent that looks for the fix in the objects of
//! its repository does not find it, because it is not there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use yb_model::atomic_file::temporary_sibling;

use super::capture::{CaptureLimits, CaptureWarning};
use super::error::{RepoError, blocking};
use super::files;
use super::git::Git;
use super::import::{Import, Imported};
use super::lock::Lock;
use super::mirror::{Cache, Origin, Resolved, digest, remove_leftovers};
use super::rules::{Include, Rules};
use super::skeleton::{self, BARE};
use super::walk::Learn;

/// The files of the commit as `git ls-tree -r -z` shows them; written last.
const LISTING: &str = "youbencha-tree";
/// How git is asked for those files.
const LIST: [&str; 3] = ["-r", "-z", "--full-tree"];
/// The branch of a cut repository, which no workspace sees.
const BRANCH: &str = "cut";

/// How much of a commit's past an agent gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum History {
    /// All of it.
    #[default]
    Full,
    /// Only the commit itself, as a shallow repository.
    None,
}

/// A repository that holds one commit and its past, from which workspaces are copied.
#[derive(Debug, Clone)]
pub struct Cut {
    path: PathBuf,
    commit: String,
    listing: Vec<Listed>,
}

/// A file of the commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) mode: u32,
    pub(crate) path: Vec<u8>,
}

impl Cut {
    /// The commit.
    pub fn commit(&self) -> &str {
        &self.commit
    }

    /// Its git directory, in the cache; not for agents.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn listing(&self) -> &[Listed] {
        &self.listing
    }

    fn open(path: PathBuf, commit: &str) -> Result<Option<Self>, RepoError> {
        if !skeleton::is_whole(&path) {
            return Ok(None);
        }
        match fs::read(path.join(LISTING)) {
            Ok(bytes) => Ok(Some(Self { listing: parse_listing(&bytes), path, commit: commit.to_owned() })),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(RepoError::io("read", path.join(LISTING))(error)),
        }
    }
}

impl Cache {
    /// The cut repository of a commit; made by whoever comes first.
    pub async fn cut(&self, resolved: &Resolved, history: History) -> Result<Cut, RepoError> {
        let commit = resolved.commit.as_str();
        let (mirror, key) = match &resolved.origin {
            Origin::Mirror(mirror) => {
                let name = mirror.file_name().unwrap_or_default().to_string_lossy().into_owned();
                (Some(mirror), format!("{name} {commit} {history:?}"))
            }
            Origin::Directory(_) => (None, directory_key(commit)),
        };
        let place = self.cut_place(&key);
        if let Some(cut) = Cut::open(place.clone(), commit)? {
            return Ok(cut);
        }
        let Some(mirror) = mirror else {
            // The cache was emptied since; the directory may have changed as well.
            if let Origin::Directory(path) = &resolved.origin
                && self.import_directory(path).await?.0 == commit
                && let Some(cut) = Cut::open(place, commit)?
            {
                return Ok(cut);
            }
            let repository = "the directory, which has changed".to_owned();
            return Err(RepoError::NoRevision { what: "commit", name: commit.to_owned(), repository });
        };
        let _lock = Lock::take(&place.with_extension("lock"), &self.git).await?;
        if let Some(cut) = Cut::open(place.clone(), commit)? {
            return Ok(cut);
        }
        let half = self.begin(&place).await?;
        let made = make(&self.git, mirror, &half, commit, history).await;
        self.finish(half, place, commit, made).await
    }

    /// Imports a directory as one commit and gives its id, and what is not in it.
    pub(crate) async fn import_directory(
        &self,
        directory: &Path,
    ) -> Result<(String, Vec<CaptureWarning>), RepoError> {
        // Its place is known by its content only, so what is half-made lies under the directory's name.
        let scratch = self.cut_place(&format!("import {}", directory.to_string_lossy()));
        let _lock = Lock::take(&scratch.with_extension("lock"), &self.git).await?;
        let half = self.begin(&scratch).await?;
        let import = Import {
            message: "start",
            root: directory.to_owned(),
            tracked: BTreeSet::new(),
            rules: Rules::default(),
            learn: Learn::FromTree,
            include: Include::nothing(),
            limits: CaptureLimits { max_file_bytes: u64::MAX, max_files: u64::MAX },
        };
        let (commit, warnings, made) = match import.run(&self.git, &half).await {
            Ok(Imported { commit, warnings, .. }) => {
                let call = self.git.call("ls-tree").git_dir(&half).args(LIST).arg(&commit);
                let listed = call.bytes().await.map_err(RepoError::from);
                let made = listed
                    .and_then(|listing| write_listing(&half, &listing))
                    .and_then(|()| skeleton::set_branch(&half, BRANCH, &commit));
                (commit, warnings, made)
            }
            Err(error) => (String::new(), Vec::new(), Err(error)),
        };
        let place = self.cut_place(&directory_key(&commit));
        self.finish(half, place, &commit, made).await?;
        Ok((commit, warnings))
    }

    fn cut_place(&self, key: &str) -> PathBuf {
        self.root.join("cut").join(format!("{}.git", digest(key)))
    }

    async fn begin(&self, place: &Path) -> Result<PathBuf, RepoError> {
        let (place, half) = (place.to_owned(), temporary_sibling(place));
        blocking(move || {
            remove_leftovers(&place)?;
            skeleton::create(&half, BRANCH, BARE)?;
            Ok(half)
        })
        .await
    }

    async fn finish(
        &self,
        half: PathBuf,
        place: PathBuf,
        commit: &str,
        made: Result<(), RepoError>,
    ) -> Result<Cut, RepoError> {
        let commit = commit.to_owned();
        blocking(move || {
            if let Err(error) = made {
                files::remove_dir(&half)?;
                return Err(error);
            }
            if let Some(cut) = Cut::open(place.clone(), &commit)? {
                files::remove_dir(&half)?;
                return Ok(cut);
            }
            files::remove_dir(&place)?;
            let renamed = fs::rename(&half, &place);
            match (renamed, Cut::open(place, &commit)?) {
                (Ok(()), Some(cut)) => Ok(cut),
                // Two directories with the same files: somebody else was faster.
                (Err(_), Some(cut)) => files::remove_dir(&half).map(|()| cut),
                (Err(error), None) => Err(RepoError::io("move", half)(error)),
                (Ok(()), None) => {
                    Err(RepoError::io("read", half)(std::io::Error::from(std::io::ErrorKind::NotFound)))
                }
            }
        })
        .await
    }
}

fn directory_key(commit: &str) -> String {
    format!("directory {commit}")
}

/// Packs exactly what the commit leads to, straight from the mirror into the new repository.
async fn make(
    git: &Git,
    mirror: &Path,
    half: &Path,
    commit: &str,
    history: History,
) -> Result<(), RepoError> {
    let mut wanted = String::new();
    let shallow = match history {
        History::None => {
            wanted.push_str(&format!("--shallow {commit}\n"));
            format!("{commit}\n")
        }
        History::Full => boundary(git, mirror, commit).await?,
    };
    if !shallow.is_empty() {
        skeleton::write(&half.join("shallow"), &shallow)?;
    }
    wanted.push_str(&format!("{commit}\n"));
    let pack = git
        .call("pack-objects")
        .git_dir(mirror)
        .args(["--revs", "--quiet", "--delta-base-offset"])
        .arg(half.join("objects/pack/pack"))
        .stdin(wanted.into_bytes())
        .bytes();
    let listing = git.call("ls-tree").git_dir(mirror).args(LIST).arg(commit).bytes();
    let (packed, listing) = tokio::join!(pack, listing);
    packed?;
    skeleton::set_branch(half, BRANCH, commit)?;
    write_listing(half, &listing?)
}

/// Where the commit's past ends in a mirror of a shallow repository.
async fn boundary(git: &Git, mirror: &Path, commit: &str) -> Result<String, RepoError> {
    let Ok(shallow) = fs::read_to_string(mirror.join("shallow")) else { return Ok(String::new()) };
    let call = git.call("rev-list").git_dir(mirror).args(["--max-parents=0", commit]);
    let roots = call.text().await?;
    let ends = roots.lines().filter(|root| shallow.lines().any(|end| end == *root));
    Ok(ends.map(|root| format!("{root}\n")).collect())
}

fn write_listing(half: &Path, listing: &[u8]) -> Result<(), RepoError> {
    fs::write(half.join(LISTING), listing).map_err(RepoError::io("write", half.join(LISTING)))
}

/// `<mode> <type> <id>\t<path>\0`, again and again.
fn parse_listing(bytes: &[u8]) -> Vec<Listed> {
    bytes
        .split(|byte| *byte == 0)
        .filter_map(|line| {
            let tab = line.iter().position(|byte| *byte == b'\t')?;
            let mode = std::str::from_utf8(line.get(..6)?).ok()?;
            Some(Listed { mode: u32::from_str_radix(mode, 8).ok()?, path: line[tab + 1..].to_vec() })
        })
        .collect()
}
