//! A tape as a file: zstd frames of JSON lines, appended one by one, so that a cut loses only what comes after it.

pub(crate) mod frame;
pub(crate) mod record;
pub(crate) mod reduce;
pub(crate) mod writer;

use std::fmt;

use serde::{Deserialize, Serialize};

/// The version that this program writes; it refuses newer ones.
pub(crate) const VERSION: u32 = 1;

/// What a body, or a part of one, is called: the beginning of its BLAKE3 hash.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Id(String);

impl Id {
    /// 128 bits are enough to tell bodies apart that nobody made to collide.
    const DIGITS: usize = 32;

    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut text = blake3::hash(bytes).to_hex().to_string();
        text.truncate(Self::DIGITS);
        Self(text)
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
