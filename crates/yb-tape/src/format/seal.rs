//! Seals: the last line of each frame is a digest of everything before it, so that a reader
//! detects a changed, dropped or moved line.

use super::record::SealRecord;

/// The digest of a tape so far.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    hasher: blake3::Hasher,
    /// Bytes of the current frame that are part of the digest.
    added: usize,
}

impl Chain {
    /// Adds the lines of a frame and returns its seal.
    pub(crate) fn seal(&mut self, lines: &[u8]) -> SealRecord {
        self.hasher.update(lines);
        self.added = lines.len();
        SealRecord { digest: self.hasher.finalize().to_hex().to_string() }
    }

    /// Adds the rest of a frame: the line of its seal.
    pub(crate) fn add_seal(&mut self, frame: &[u8]) {
        self.hasher.update(frame.get(self.added..).unwrap_or_default());
        self.added = 0;
    }

    /// Adds a frame and returns whether it ends with the right seal.
    pub(crate) fn check(&mut self, frame: &[u8], found: Option<&SealRecord>) -> bool {
        let end = frame.strip_suffix(b"\n").unwrap_or(frame).iter().rposition(|byte| *byte == b'\n');
        let seal = self.seal(&frame[..end.map_or(0, |at| at + 1)]);
        self.add_seal(frame);
        found == Some(&seal)
    }
}
