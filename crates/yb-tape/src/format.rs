//! The tape file format: independently compressed zstd frames of JSON lines. Truncation loses only the frames after it.

pub(crate) mod file;
pub(crate) mod frame;
pub(crate) mod record;
pub(crate) mod reduce;
pub(crate) mod seal;

use std::fmt;

use serde::{Deserialize, Serialize};

/// The format version that this crate writes; newer versions are rejected.
pub(crate) const VERSION: u32 = 1;

/// Content address of a body or a part of one: the truncated BLAKE3 hash.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct BlobId(String);

impl BlobId {
    /// 128 bits suffice without adversarial collisions.
    const DIGITS: usize = 32;

    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let mut text = blake3::hash(bytes).to_hex().to_string();
        text.truncate(Self::DIGITS);
        Self(text)
    }
}

impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
