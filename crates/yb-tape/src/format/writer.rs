//! Appends to a tape: the bodies of an exchange and the exchange itself in one frame and one write.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

use super::record::{Blob, Content, End, Exchange, Head, Line};
use super::reduce::Store;
use super::{Id, frame};

pub(crate) struct Writer {
    file: File,
    known: HashSet<Id>,
    /// Lines of the frame that is being made.
    lines: Vec<u8>,
    exchanges: u64,
}

impl Writer {
    /// Begins a tape where there is none yet; only its owner may read it.
    pub(crate) fn create(path: &Path, head: Head) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.append(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path)?;
        let mut writer = Self { file, known: HashSet::new(), lines: Vec::new(), exchanges: 0 };
        writer.line(&Line::Tape(head))?;
        writer.flush()?;
        Ok(writer)
    }

    /// Adds an exchange, and before it the bodies that were [put](Store::put) since the last one.
    pub(crate) fn append(&mut self, exchange: Exchange) -> io::Result<()> {
        self.line(&Line::Exchange(Box::new(exchange)))?;
        self.exchanges += 1;
        self.flush()
    }

    /// Says that nothing is missing, and waits for the disk.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.line(&Line::End(End { exchanges: self.exchanges }))?;
        self.flush()?;
        self.file.sync_all()
    }

    fn line(&mut self, line: &Line) -> io::Result<()> {
        serde_json::to_writer(&mut self.lines, line)?;
        self.lines.push(b'\n');
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let frame = frame::encode(&self.lines);
        self.lines.clear();
        self.file.write_all(&frame)
    }
}

impl Store for Writer {
    fn put(&mut self, bytes: &[u8]) -> Id {
        let id = Id::of(bytes);
        if self.known.insert(id.clone()) {
            let content = match std::str::from_utf8(bytes) {
                Ok(text) => Content::Text(text.to_owned()),
                Err(_) => Content::Hex(hex(bytes)),
            };
            // Writing into memory fails only for what JSON can't say, and a text is not such a thing.
            let _ = self.line(&Line::Blob(Blob { id: id.clone(), content }));
        }
        id
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of a blob; nothing when its digits are none.
pub(crate) fn bytes_of(content: Content) -> Option<Vec<u8>> {
    match content {
        Content::Text(text) => Some(text.into_bytes()),
        Content::Hex(digits) => (0..digits.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok())
            .collect(),
    }
}
