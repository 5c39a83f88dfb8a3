//! Words that nobody could know before they were used.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

/// 24 hexadecimal digits.
pub fn nonce() -> String {
    let random = || RandomState::new().build_hasher().finish();
    let now = jiff::Timestamp::now().as_nanosecond();
    let text = format!("{:x}{:x}{now}", random(), random());
    blake3::hash(text.as_bytes()).to_hex().chars().take(24).collect()
}
