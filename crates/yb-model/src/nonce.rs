//! Unpredictable identifiers.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

/// Returns an unpredictable identifier of 24 hexadecimal digits.
#[must_use]
pub fn nonce() -> String {
    let random = || RandomState::new().build_hasher().finish();
    let now = jiff::Timestamp::now().as_nanosecond();
    let text = format!("{:x}{:x}{now}", random(), random());
    blake3::hash(text.as_bytes()).to_hex().chars().take(24).collect()
}
