//! What this process knows already: asking again costs half a second.

use std::collections::HashMap;
use std::ffi::OsString;
use std::hash::{BuildHasher as _, RandomState};
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::SystemTime;

use super::Ready;

/// More environments than this are not remembered.
const CAPACITY: usize = 64;

/// The program as it is now, and a digest of the environment: values are not kept.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    path: PathBuf,
    modified: Option<SystemTime>,
    size: u64,
    environment: u64,
}

/// Keyed at random, so that a digest says nothing about the secrets in it.
static DIGEST: LazyLock<RandomState> = LazyLock::new(RandomState::new);
static KNOWN: LazyLock<Mutex<HashMap<Key, Ready>>> = LazyLock::new(Mutex::default);

pub(crate) fn key(path: &Path, env: &[(OsString, OsString)]) -> Key {
    let mut sorted: Vec<_> = env.iter().collect();
    sorted.sort();
    let metadata = std::fs::metadata(path).ok();
    Key {
        path: path.to_owned(),
        modified: metadata.as_ref().and_then(|metadata| metadata.modified().ok()),
        size: metadata.map_or(0, |metadata| metadata.len()),
        environment: DIGEST.hash_one(sorted),
    }
}

pub(crate) fn get(key: &Key) -> Option<Ready> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
}

pub(crate) fn put(key: Key, ready: Ready) {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if known.len() < CAPACITY {
        known.insert(key, ready);
    }
}
