//! The index of a copied work tree. It has the times and inodes of the files that git wrote; without those of the copies, git
//! would take every file for changed until it has read it again.
//!
//! The format is described in git's `gitformat-index`. Only what `git read-tree` writes is understood: version 2 or 3, SHA-1.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use sha1::{Digest as _, Sha1};

use super::files::path_from_bytes;

/// The length of a checksum and of an object id.
const HASH: usize = 20;
const HEADER: usize = 12;
/// The length of an entry up to its path: ten numbers, the object id, the flags.
const FIXED: usize = 40 + HASH + 2;
/// The flags of an entry: more flags follow, and the length of the path.
const EXTENDED: u16 = 0x4000;
const PATH_LENGTH: u16 = 0x0fff;

/// Returns an index with the metadata of the files below `root`, or `None` if its format is not understood.
pub(crate) fn with_metadata_of(index: &[u8], root: &Path) -> Option<Vec<u8>> {
    let end = index.len().checked_sub(HASH)?;
    let is_intact = Sha1::digest(&index[..end]).as_slice() == &index[end..];
    let version = number(index, 4)?;
    if !is_intact || !index.starts_with(b"DIRC") || !(2..=3).contains(&version) {
        return None;
    }
    let mut updated = index[..end].to_vec();
    let mut at = HEADER;
    for _ in 0..number(index, 8)? {
        let flags = u16::from_be_bytes(index.get(at + 40 + HASH..at + FIXED)?.try_into().ok()?);
        let path_at = at + FIXED + if flags & EXTENDED == 0 { 0 } else { 2 };
        let length = match flags & PATH_LENGTH {
            PATH_LENGTH => index.get(path_at..end)?.iter().position(|byte| *byte == 0)?,
            length => length.into(),
        };
        let path = index.get(path_at..path_at + length)?;
        // A submodule is an empty directory.
        if let Some(metadata) =
            fs::symlink_metadata(root.join(path_from_bytes(path))).ok().filter(|it| !it.is_dir())
        {
            updated.get_mut(at..at + 40)?.copy_from_slice(&entry_numbers(&metadata, number(index, at + 24)?));
        }
        // Padded with one to eight zeros to a multiple of eight.
        at += (path_at + length - at + 8) & !7;
    }
    let checksum = Sha1::digest(&updated);
    updated.extend_from_slice(&checksum);
    Some(updated)
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "git stores the lower 32 bits")]
fn entry_numbers(file: &Metadata, mode: u32) -> [u8; 40] {
    let numbers = [
        file.ctime() as u32,
        file.ctime_nsec() as u32,
        file.mtime() as u32,
        file.mtime_nsec() as u32,
        file.dev() as u32,
        file.ino() as u32,
        mode,
        file.uid(),
        file.gid(),
        file.size() as u32,
    ];
    let mut bytes = [0; 40];
    for (place, number) in bytes.chunks_exact_mut(4).zip(numbers) {
        place.copy_from_slice(&number.to_be_bytes());
    }
    bytes
}
