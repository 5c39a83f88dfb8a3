//! Appends to a tape file: each exchange and its bodies form one frame, written with one call.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

use super::BlobId;
use super::frame::FrameEncoder;
use super::record::{BlobContent, BlobRecord, CaseRecord, ExchangeRecord, TapeFooter, TapeHeader, TapeLine};
use super::reduce::BlobStore;
use super::seal::Chain;

/// A tape file open for appending.
pub(crate) struct TapeFile {
    file: File,
    known: HashSet<BlobId>,
    /// Lines of the current frame.
    lines: Vec<u8>,
    exchanges: u64,
    chain: Chain,
    encoder: FrameEncoder,
}

impl TapeFile {
    /// Creates a new tape, readable only by its owner.
    pub(crate) fn create(path: &Path, mut header: TapeHeader) -> io::Result<Self> {
        header.sealed = true;
        let mut options = OpenOptions::new();
        options.append(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path)?;
        let mut tape = Self {
            file,
            known: HashSet::new(),
            lines: Vec::new(),
            exchanges: 0,
            chain: Chain::default(),
            encoder: FrameEncoder::default(),
        };
        tape.write_line(&TapeLine::Header(header))?;
        tape.flush()?;
        Ok(tape)
    }

    /// Appends the texts of the case.
    pub(crate) fn append_case(&mut self, case: CaseRecord) -> io::Result<()> {
        self.write_line(&TapeLine::Case(case))?;
        self.flush()
    }

    /// Appends an exchange together with the blobs [stored](BlobStore::put) since the previous one.
    pub(crate) fn append(&mut self, exchange: ExchangeRecord) -> io::Result<()> {
        self.write_line(&TapeLine::Exchange(Box::new(exchange)))?;
        self.exchanges += 1;
        self.flush()
    }

    /// Writes the footer that marks the tape as finished, and syncs the file.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.write_line(&TapeLine::Footer(TapeFooter { exchanges: self.exchanges }))?;
        self.flush()?;
        self.file.sync_all()
    }

    fn write_line(&mut self, line: &TapeLine) -> io::Result<()> {
        serde_json::to_writer(&mut self.lines, line)?;
        self.lines.push(b'\n');
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let seal = TapeLine::Seal(self.chain.seal(&self.lines));
        self.write_line(&seal)?;
        self.chain.add_seal(&self.lines);
        let frame = self.encoder.encode(&self.lines);
        self.lines.clear();
        self.file.write_all(&frame)
    }
}

impl BlobStore for TapeFile {
    fn put(&mut self, bytes: &[u8]) -> BlobId {
        let id = BlobId::from_bytes(bytes);
        if self.known.insert(id.clone()) {
            let content = match std::str::from_utf8(bytes) {
                Ok(text) => BlobContent::Text(text.to_owned()),
                Err(_) => BlobContent::Hex(hex(bytes)),
            };
            // Serializing strings into memory can't fail.
            let _ = self.write_line(&TapeLine::Blob(BlobRecord { id: id.clone(), content }));
        }
        id
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the bytes of a blob, or `None` for invalid hex digits.
pub(crate) fn blob_bytes(content: BlobContent) -> Option<Vec<u8>> {
    match content {
        BlobContent::Text(text) => Some(text.into_bytes()),
        BlobContent::Hex(digits) => (0..digits.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok())
            .collect(),
    }
}
