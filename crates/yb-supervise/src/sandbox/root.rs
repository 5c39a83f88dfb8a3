//! Another root: what a sandboxed process sees in place of the system of the host.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

use super::{OverlayMount, Sandbox};
use crate::error::SpawnError;
use crate::program;

/// Maximum number of links to follow, as in the kernel.
const MAX_LINKS: usize = 40;

/// An overlay that is the root directory of a sandbox, and the user inside.
///
/// The namespace has a single user and group: all files of the layers belong to the current user outside, and to this user
/// inside.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RootMount {
    /// The layers. `target` is an empty directory outside.
    pub overlay: OverlayMount,
    /// The user id inside. User 0 has the capabilities that installers need, for its own files only.
    pub uid: u32,
    /// The group id inside.
    pub gid: u32,
}

impl RootMount {
    /// Returns a root for the user 0.
    #[must_use]
    pub fn new(overlay: OverlayMount) -> Self {
        Self { overlay, uid: 0, gid: 0 }
    }

    /// Sets the user and the group inside.
    #[must_use]
    pub fn user(mut self, uid: u32, gid: u32) -> Self {
        (self.uid, self.gid) = (uid, gid);
        self
    }

    /// Returns the file of a layer at an absolute path inside. Links are not followed.
    pub(crate) fn layer_path(&self, path: &Path) -> Option<PathBuf> {
        let relative = path.strip_prefix("/").ok()?;
        if relative.as_os_str().is_empty() {
            return Some(self.overlay.lower.clone());
        }
        self.overlay.resolve(&self.overlay.target.join(relative))
    }

    /// Returns the file of a layer at an absolute path inside. Links are followed as they are inside.
    #[must_use]
    pub fn resolve(&self, path: &Path) -> Option<PathBuf> {
        if !path.is_absolute() {
            return None;
        }
        let mut rest: Vec<OsString> = names(path);
        let (mut at, mut links) = (PathBuf::from("/"), 0);
        while let Some(name) = rest.pop() {
            if name == ".." {
                at.pop();
                continue;
            }
            let next = at.join(&name);
            let found = self.layer_path(&next)?;
            if found.symlink_metadata().ok()?.is_symlink() {
                links += 1;
                let target = found.read_link().ok().filter(|_| links <= MAX_LINKS)?;
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                rest.extend(names(&target));
            } else {
                at = next;
            }
        }
        self.layer_path(&at)
    }
}

/// Returns the components of a path, last first.
fn names(path: &Path) -> Vec<OsString> {
    let names = path.components().rev().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    });
    names.collect()
}

impl Sandbox {
    /// Iterates over the overlays to mount.
    pub(crate) fn overlays(&self) -> impl Iterator<Item = &OverlayMount> {
        self.overlay.iter().chain(self.root.as_ref().map(|root| &root.overlay))
    }

    /// Returns the file of the host that is visible at a path inside, if it is part of an overlay or of another root, or of
    /// what is mounted in another root.
    pub(crate) fn locate(&self, path: &Path) -> Option<PathBuf> {
        if let Some(found) = self.overlay.as_ref().and_then(|overlay| overlay.resolve(path)) {
            return Some(found);
        }
        let root = self.root.as_ref()?;
        let mounted = self.writable.iter().chain(&self.read_only).filter(|one| path.starts_with(&one.path));
        match mounted.max_by_key(|one| one.path.components().count()) {
            Some(mapping) => {
                let below = path.strip_prefix(&mapping.path).unwrap_or(Path::new(""));
                let found = if below.as_os_str().is_empty() {
                    mapping.source.clone()
                } else {
                    mapping.source.join(below)
                };
                found.exists().then_some(found)
            }
            None => root.resolve(path),
        }
    }

    /// Returns the path inside of a program of another root.
    pub(crate) fn find_program(
        &self,
        name: &OsStr,
        cwd: &Path,
        env: &BTreeMap<OsString, OsString>,
    ) -> Result<PathBuf, SpawnError> {
        let path = Path::new(name);
        let search = env.get(OsStr::new("PATH")).map(OsString::as_os_str).unwrap_or_default();
        let searched: Vec<PathBuf> = if path.components().count() > 1 || path.is_absolute() {
            vec![cwd.join(path)]
        } else {
            std::env::split_paths(search).filter(|dir| dir.is_absolute()).map(|dir| dir.join(path)).collect()
        };
        let mut unusable = None;
        for path in &searched {
            match self.locate(path) {
                Some(found) if program::is_executable(&found) => return Ok(path.clone()),
                Some(found) if found.is_file() => unusable = Some(path.clone()),
                _ => {}
            }
        }
        Err(match unusable {
            Some(path) => SpawnError::NotExecutable { path },
            None => SpawnError::NotFound { program: name.to_string_lossy().into_owned(), searched },
        })
    }
}
