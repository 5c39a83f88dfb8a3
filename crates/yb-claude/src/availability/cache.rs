//! A per-process cache of positive results: a check takes half a second.

use std::collections::HashMap;
use std::ffi::OsString;
use std::hash::{BuildHasher as _, RandomState};
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::SystemTime;

use super::AvailableCli;

/// The maximum number of cached entries.
const CAPACITY: usize = 64;

/// Identifies the program file and holds a hash of the environment, not its values.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct CacheKey {
    path: PathBuf,
    modified: Option<SystemTime>,
    size: u64,
    environment: u64,
}

/// Randomly keyed, so that a hash reveals nothing about secrets.
static DIGEST: LazyLock<RandomState> = LazyLock::new(RandomState::new);
static CACHE: LazyLock<Mutex<HashMap<CacheKey, AvailableCli>>> = LazyLock::new(Mutex::default);

pub(crate) fn key(path: &Path, env: &[(OsString, OsString)]) -> CacheKey {
    let mut sorted: Vec<_> = env.iter().collect();
    sorted.sort();
    let metadata = std::fs::metadata(path).ok();
    CacheKey {
        path: path.to_owned(),
        modified: metadata.as_ref().and_then(|metadata| metadata.modified().ok()),
        size: metadata.map_or(0, |metadata| metadata.len()),
        environment: DIGEST.hash_one(sorted),
    }
}

pub(crate) fn get(key: &CacheKey) -> Option<AvailableCli> {
    CACHE.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
}

pub(crate) fn put(key: CacheKey, ready: AvailableCli) {
    let mut cache = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    if cache.len() < CAPACITY {
        cache.insert(key, ready);
    }
}
