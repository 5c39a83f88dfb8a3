//! Compression of requests.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

/// Compresses bytes with gzip.
pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
    // Writing to memory does not fail.
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default()
}
