//! The files of a build: those of its directory that `.dockerignore` does not name.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};
use sha2::{Digest as _, Sha256};

use crate::ImageError;

/// The files of a build.
pub(crate) struct BuildContext {
    root: PathBuf,
    /// The patterns in order, each with whether it excludes; the last match wins.
    patterns: Vec<(GlobMatcher, bool)>,
}

impl BuildContext {
    pub(crate) fn read(root: &Path) -> Result<Self, ImageError> {
        let root = root.canonicalize().map_err(ImageError::io(root))?;
        let text = fs::read_to_string(root.join(".dockerignore")).unwrap_or_default();
        let mut patterns = Vec::new();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (line, excludes) = line.strip_prefix('!').map_or((line, true), |line| (line, false));
            let pattern = line.trim_start_matches("./").trim_matches('/');
            for pattern in [pattern.to_owned(), format!("{pattern}/**")] {
                let glob = GlobBuilder::new(&pattern).literal_separator(true).build();
                let glob = glob
                    .map_err(|error| ImageError::io(".dockerignore")(io::Error::other(error.to_string())))?;
                patterns.push((glob.compile_matcher(), excludes));
            }
        }
        Ok(Self { root, patterns })
    }

    /// Returns whether a path below the directory is left out.
    pub(crate) fn is_ignored(&self, path: &Path) -> bool {
        let Ok(relative) = path.strip_prefix(&self.root) else { return true };
        let last = self.patterns.iter().rev().find(|(pattern, _)| pattern.is_match(relative));
        last.is_some_and(|(_, excludes)| *excludes)
    }

    /// Finds the files that a path or pattern names. Links out of the directory are not followed.
    pub(crate) fn find(&self, path: &str) -> io::Result<Vec<PathBuf>> {
        let mut found = find_in(&self.root, path)?;
        found.retain(|path| path.starts_with(&self.root) && (*path == self.root || !self.is_ignored(path)));
        Ok(found)
    }

    /// Returns the digest of all files.
    pub(crate) fn digest(&self) -> Result<Vec<u8>, ImageError> {
        let mut hasher = Sha256::new();
        self.add(&self.root, &mut hasher).map_err(ImageError::io(&self.root))?;
        Ok(hasher.finalize().to_vec())
    }

    fn add(&self, directory: &Path, hasher: &mut Sha256) -> io::Result<()> {
        let mut entries = fs::read_dir(directory)?.collect::<io::Result<Vec<_>>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            if self.is_ignored(&path) {
                continue;
            }
            let kind = entry.file_type()?;
            let relative = path.strip_prefix(&self.root).unwrap_or(&path);
            hasher.update(relative.as_os_str().as_encoded_bytes());
            hasher.update(b"\0");
            if kind.is_dir() {
                self.add(&path, hasher)?;
            } else if kind.is_symlink() {
                hasher.update(fs::read_link(&path)?.as_os_str().as_encoded_bytes());
            } else if kind.is_file() {
                #[cfg(unix)]
                hasher.update(
                    std::os::unix::fs::PermissionsExt::mode(&entry.metadata()?.permissions()).to_le_bytes(),
                );
                io::copy(&mut fs::File::open(&path)?, hasher)?;
            }
        }
        Ok(())
    }
}

/// Finds the files below a root that a path or pattern names.
pub(crate) fn find_in(root: &Path, path: &str) -> io::Result<Vec<PathBuf>> {
    let plain: PathBuf =
        Path::new(path).components().filter(|part| matches!(part, std::path::Component::Normal(_))).collect();
    if plain.as_os_str().is_empty() {
        return Ok(vec![root.to_owned()]);
    }
    if !path.contains(['*', '?', '[']) {
        return Ok(match crate::unpack::inside(root, &plain, false) {
            Ok(found) => vec![found],
            Err(_) => Vec::new(),
        });
    }
    let parent = plain.parent().unwrap_or(Path::new("")).to_owned();
    let name = plain.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let glob = GlobBuilder::new(&name).literal_separator(true).build();
    let glob = glob.map_err(|error| io::Error::other(error.to_string()))?.compile_matcher();
    let parent = crate::unpack::inside(root, &parent, false)?;
    let mut found: Vec<PathBuf> = fs::read_dir(&parent)?
        .flatten()
        .filter(|entry| glob.is_match(entry.file_name()))
        .map(|entry| entry.path())
        .collect();
    found.sort();
    Ok(found)
}
