//! Unpacks the layers of an image into one directory. Archives are not trusted: no entry is written outside of the directory,
//! whatever its name and whatever links earlier entries made.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use sha2::{Digest as _, Sha256};
use tar::{Archive, EntryType};

use crate::ImageError;

/// Marks a removed entry, and a directory whose entries of lower layers are removed.
const WHITEOUT: &str = ".wh.";
const OPAQUE: &str = ".wh..wh..opq";
/// Maximum number of links to follow, as in the kernel.
const MAX_LINKS: usize = 40;
/// The largest image, unpacked.
const MAX_BYTES: u64 = 100 << 30;

/// Returns a digest as `sha256:…`.
pub(crate) fn digest_of(hasher: Sha256) -> String {
    let hex: String = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// Computes the digest of what is read.
struct Hashed<R> {
    inner: R,
    hasher: Sha256,
    bytes: u64,
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)?;
        self.hasher.update(&buffer[..length]);
        self.bytes += length as u64;
        if self.bytes > MAX_BYTES {
            return Err(io::Error::other("the layer is larger than 100 GB"));
        }
        Ok(length)
    }
}

/// Applies a layer to a directory, and compares the digest of its archive.
pub(crate) fn apply_layer(blob: &Path, root: &Path, diff_id: Option<&str>) -> Result<(), ImageError> {
    let io_error = |source| ImageError::Io { path: blob.to_owned(), source };
    let file = fs::File::open(blob).map_err(io_error)?;
    let mut file = io::BufReader::with_capacity(1 << 20, file);
    let mut magic = [0u8; 4];
    let length = io::BufRead::fill_buf(&mut file).map_err(io_error)?.len().min(4);
    magic[..length].copy_from_slice(&io::BufRead::fill_buf(&mut file).map_err(io_error)?[..length]);
    let plain: Box<dyn Read> = match magic {
        [0x1f, 0x8b, ..] => Box::new(flate2::bufread::MultiGzDecoder::new(file)),
        [0x28, 0xb5, 0x2f, 0xfd] => Box::new(
            ruzstd::decoding::StreamingDecoder::new(file)
                .map_err(|error| io_error(io::Error::other(error.to_string())))?,
        ),
        _ => Box::new(file),
    };
    let mut hashed = Hashed { inner: plain, hasher: Sha256::new(), bytes: 0 };
    unpack(&mut hashed, root).map_err(io_error)?;
    io::copy(&mut hashed, &mut io::sink()).map_err(io_error)?;
    let found = digest_of(hashed.hasher);
    match diff_id {
        Some(wanted) if wanted != found => {
            Err(ImageError::Digest { what: "layer".to_owned(), wanted: wanted.to_owned(), found })
        }
        _ => Ok(()),
    }
}

/// Unpacks an archive over a directory.
pub(crate) fn unpack(archive: &mut impl Read, root: &Path) -> io::Result<()> {
    let mut archive = Archive::new(archive);
    let mut written = BTreeSet::new();
    let mut modes = Vec::new();
    for entry in archive.entries()? {
        let mut entry = entry?;
        let name = entry.path()?.into_owned();
        let Some(relative) = plain(&name)? else { continue };
        let parent = inside(root, relative.parent().unwrap_or(Path::new("")), true)?;
        let file_name = relative.file_name().unwrap_or_default().to_owned();
        let path = parent.join(&file_name);
        let text = file_name.to_string_lossy();
        if text == OPAQUE {
            for below in fs::read_dir(&parent)? {
                let below = below?.path();
                if !written.contains(&below) {
                    remove(&below)?;
                }
            }
            continue;
        }
        if let Some(removed) = text.strip_prefix(WHITEOUT) {
            let removed = parent.join(removed);
            if removed.file_name().is_none_or(|name| name != "..") && !written.contains(&removed) {
                remove(&removed)?;
            }
            continue;
        }
        let mode = entry.header().mode().unwrap_or(0o644) & 0o7777;
        let kind = entry.header().entry_type();
        let existing = fs::symlink_metadata(&path).ok();
        match kind {
            EntryType::Directory => {
                if !existing.as_ref().is_some_and(fs::Metadata::is_dir) {
                    // A link to a directory stays: archives of distributions list `bin/` where `bin` is a link.
                    let is_link_to_dir = existing.as_ref().is_some_and(fs::Metadata::is_symlink)
                        && inside(root, &relative, false).is_ok_and(|path| path.is_dir());
                    if is_link_to_dir {
                        continue;
                    }
                    remove(&path)?;
                    fs::create_dir(&path)?;
                }
                modes.push((path.clone(), mode | 0o700));
            }
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                remove(&path)?;
                let mut file = fs::File::create_new(&path)?;
                io::copy(&mut entry, &mut file)?;
                if let Ok(time) = entry.header().mtime() {
                    let _ = file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(time));
                }
                set_mode(&path, mode)?;
            }
            EntryType::Symlink => {
                let target = entry.link_name()?.ok_or_else(|| invalid(&name))?.into_owned();
                remove(&path)?;
                make_link(&target, &path)?;
            }
            EntryType::Link => {
                let target = entry.link_name()?.ok_or_else(|| invalid(&name))?.into_owned();
                let target = plain(&target)?.ok_or_else(|| invalid(&name))?;
                let above = inside(root, target.parent().unwrap_or(Path::new("")), false)?;
                let target = above.join(target.file_name().unwrap_or_default());
                if target != path {
                    remove(&path)?;
                    fs::hard_link(&target, &path)?;
                }
            }
            // Devices and pipes: the sandbox has its own devices.
            _ => continue,
        }
        written.insert(path);
    }
    // Last, because directories may be read-only.
    for (path, mode) in modes.into_iter().rev() {
        if fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir()) {
            set_mode(&path, mode)?;
        }
    }
    Ok(())
}

fn invalid(name: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("invalid entry: {}", name.display()))
}

/// Returns the path of an entry without `.` and the root; `None` for the root itself. Paths with `..` are rejected.
fn plain(name: &Path) -> io::Result<Option<PathBuf>> {
    let mut path = PathBuf::new();
    for part in name.components() {
        match part {
            Component::Normal(part) => path.push(part),
            Component::CurDir | Component::RootDir => {}
            Component::ParentDir | Component::Prefix(_) => return Err(invalid(name)),
        }
    }
    Ok(Some(path).filter(|path| !path.as_os_str().is_empty()))
}

/// Returns the real path of a directory below a root. Links are followed as if the root were `/`.
pub(crate) fn inside(root: &Path, relative: &Path, create: bool) -> io::Result<PathBuf> {
    let mut rest: Vec<std::ffi::OsString> = parts(relative);
    let (mut at, mut links) = (PathBuf::new(), 0);
    while let Some(name) = rest.pop() {
        if name == ".." {
            at.pop();
            continue;
        }
        let next = root.join(&at).join(&name);
        match fs::symlink_metadata(&next) {
            Ok(found) if found.is_symlink() => {
                links += 1;
                if links > MAX_LINKS {
                    return Err(invalid(relative));
                }
                let target = fs::read_link(&next)?;
                if target.is_absolute() {
                    at = PathBuf::new();
                }
                rest.extend(parts(&target));
            }
            Ok(found) if found.is_dir() || rest.is_empty() => at.push(&name),
            Ok(_) => return Err(invalid(relative)),
            Err(_) if create => {
                fs::create_dir(&next)?;
                at.push(&name);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(root.join(at))
}

/// Returns the components of a path, last first.
fn parts(path: &Path) -> Vec<std::ffi::OsString> {
    let parts = path.components().rev().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    });
    parts.collect()
}

/// Removes a file, a link or a directory, if it exists.
fn remove(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(_) => Ok(()),
    }
}

#[cfg(unix)]
fn make_link(target: &Path, path: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, path)
}

#[cfg(not(unix))]
fn make_link(_: &Path, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    #[cfg(unix)]
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode))?;
    #[cfg(not(unix))]
    let _ = (path, mode);
    Ok(())
}

#[cfg(all(test, unix))]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    enum Entry<'a> {
        Dir(&'a str),
        File(&'a str, &'a str),
        Link(&'a str, &'a str),
        Hard(&'a str, &'a str),
    }
    use Entry::{Dir, File, Hard, Link};

    fn archive(entries: &[Entry<'_>]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for entry in entries {
            let mut header = tar::Header::new_gnu();
            header.set_mode(0o755);
            let (name, kind, content, target) = match entry {
                Dir(name) => (*name, EntryType::Directory, "", None),
                File(name, content) => (*name, EntryType::Regular, *content, None),
                Link(name, target) => (*name, EntryType::Symlink, "", Some(*target)),
                Hard(name, target) => (*name, EntryType::Link, "", Some(*target)),
            };
            header.set_entry_type(kind);
            header.set_size(content.len() as u64);
            // As bytes, because the library refuses names that a hostile archive may have.
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            if let Some(target) = target {
                header.as_old_mut().linkname[..target.len()].copy_from_slice(target.as_bytes());
            }
            header.set_cksum();
            builder.append(&header, content.as_bytes()).unwrap();
        }
        builder.into_inner().unwrap()
    }

    fn apply(root: &Path, entries: &[Entry<'_>]) -> io::Result<()> {
        unpack(&mut archive(entries).as_slice(), root)
    }

    #[test]
    fn layers_add_replace_and_remove() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        apply(
            root,
            &[
                Dir("a/"),
                File("a/one", "1"),
                File("a/two", "2"),
                Dir("b/"),
                File("b/x", "x"),
                Hard("h", "a/one"),
            ],
        )
        .unwrap();
        apply(
            root,
            &[File("a/.wh.one", ""), File("a/two", "22"), File("b/new", "n"), File("b/.wh..wh..opq", "")],
        )
        .unwrap();
        assert!(!root.join("a/one").exists() && !root.join("b/x").exists());
        assert_eq!(fs::read_to_string(root.join("a/two")).unwrap(), "22");
        assert_eq!(fs::read_to_string(root.join("b/new")).unwrap(), "n");
        assert_eq!(fs::read_to_string(root.join("h")).unwrap(), "1");
    }

    #[test]
    fn links_are_followed_inside_of_the_root_only() {
        let dir = tempfile::tempdir().unwrap();
        let (root, outside) = (dir.path().join("root"), dir.path().join("outside"));
        fs::create_dir(&root).unwrap();
        fs::create_dir(&outside).unwrap();
        let absolute = outside.to_str().unwrap();
        apply(
            &root,
            &[Dir("usr/"), Dir("usr/bin/"), Link("bin", "usr/bin"), File("bin/sh", "s"), Dir("bin/")],
        )
        .unwrap();
        assert_eq!(fs::read_to_string(root.join("usr/bin/sh")).unwrap(), "s");
        assert!(fs::symlink_metadata(root.join("bin")).unwrap().is_symlink());
        apply(
            &root,
            &[
                Link("up", "../../outside"),
                File("up/evil", "x"),
                Link("abs", absolute),
                File("abs/evil", "x"),
            ],
        )
        .unwrap();
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
        apply(&root, &[Link("file", &format!("{absolute}/made")), File("file", "replaced")]).unwrap();
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
        assert_eq!(fs::read_to_string(root.join("file")).unwrap(), "replaced");
        for bad in [File("../evil", ""), File("a/../../evil", ""), Hard("x", "../outside/y")] {
            assert!(apply(&root, &[bad]).is_err());
        }
        apply(&root, &[File("/rooted", "r"), Link("loop", "loop")]).unwrap();
        assert!(root.join("rooted").exists() && apply(&root, &[File("loop/x", "")]).is_err());
        fs::write(outside.join("kept"), "k").unwrap();
        apply(&root, &[File("up/.wh.kept", ""), File("abs/.wh..wh..opq", "")]).unwrap();
        assert!(outside.join("kept").exists() && fs::read_dir(dir.path()).unwrap().count() == 2);
    }

    #[test]
    fn wrong_digest_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let blob = dir.path().join("layer");
        fs::write(&blob, archive(&[File("f", "f")])).unwrap();
        let error = apply_layer(&blob, dir.path(), Some("sha256:0")).unwrap_err();
        assert!(error.to_string().contains("sha256:0"), "{error}");
        assert!(apply_layer(&blob, dir.path(), None).is_ok());
    }
}
