//! A writer of zip archives: deflated entries, and the same bytes for the same content.

use std::io::{self, Write as _};

use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};

/// 1 January 1980, the first day that the format knows.
const DATE: u16 = 0x21;
const DEFLATE: u16 = 8;
/// Names are UTF-8.
const UTF8: u16 = 1 << 11;
/// Version 2.0 of the format.
const VERSION: u16 = 20;

/// An archive that is being written.
#[derive(Default)]
pub(crate) struct ZipWriter {
    bytes: Vec<u8>,
    directory: Vec<u8>,
    entries: u16,
}

impl ZipWriter {
    /// Adds a file.
    ///
    /// # Errors
    /// If the archive would need the 64-bit format: more than 65,535 files or 4 GiB.
    pub(crate) fn add(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        let too_large = |_| io::Error::other("a zip archive has at most 65535 files and 4 GiB");
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(content)?;
        let packed = encoder.finish()?;
        let mut crc = Crc::new();
        crc.update(content);
        let offset = u32::try_from(self.bytes.len()).map_err(too_large)?;
        let name_length = u16::try_from(name.len()).map_err(too_large)?;
        self.entries = self.entries.checked_add(1).ok_or_else(|| io::Error::other("too many files"))?;

        let mut shared = Vec::new();
        for number in [VERSION, UTF8, DEFLATE, 0, DATE] {
            shared.extend(number.to_le_bytes());
        }
        shared.extend(crc.sum().to_le_bytes());
        shared.extend(u32::try_from(packed.len()).map_err(too_large)?.to_le_bytes());
        shared.extend(u32::try_from(content.len()).map_err(too_large)?.to_le_bytes());
        shared.extend(name_length.to_le_bytes());
        // No extra field.
        shared.extend(0u16.to_le_bytes());

        self.bytes.extend(b"PK\x03\x04");
        self.bytes.extend(&shared);
        self.bytes.extend(name.as_bytes());
        self.bytes.extend(&packed);

        self.directory.extend(b"PK\x01\x02");
        self.directory.extend(VERSION.to_le_bytes());
        self.directory.extend(&shared);
        // No comment, the first disk, no attributes.
        self.directory.extend([0; 10]);
        self.directory.extend(offset.to_le_bytes());
        self.directory.extend(name.as_bytes());
        Ok(())
    }

    /// Returns the archive.
    ///
    /// # Errors
    /// If the archive would need the 64-bit format.
    pub(crate) fn finish(mut self) -> io::Result<Vec<u8>> {
        let too_large = |_| io::Error::other("a zip archive has at most 4 GiB");
        let offset = u32::try_from(self.bytes.len()).map_err(too_large)?;
        let length = u32::try_from(self.directory.len()).map_err(too_large)?;
        self.bytes.extend(&self.directory);
        self.bytes.extend(b"PK\x05\x06\0\0\0\0");
        self.bytes.extend(self.entries.to_le_bytes());
        self.bytes.extend(self.entries.to_le_bytes());
        self.bytes.extend(length.to_le_bytes());
        self.bytes.extend(offset.to_le_bytes());
        self.bytes.extend([0; 2]);
        Ok(self.bytes)
    }
}
