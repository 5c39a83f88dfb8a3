//! The file of an agent's frames, plain or compressed: `frames.jsonl`, or `frames.jsonl.zst` if it is large.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write as _};
use std::path::{Path, PathBuf};

use ruzstd::decoding::StreamingDecoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

/// The suffix of a compressed file.
const SUFFIX: &str = ".zst";
/// How much is compressed at once: each piece is a zstd frame, so that neither writing nor reading needs more memory.
const PIECE: u64 = 1 << 20;
/// The largest window of a piece that is read.
const MAX_WINDOW: u64 = 8 << 20;

/// Opens a file of frames, as text.
///
/// # Errors
/// When the file can't be opened.
pub fn open(path: &Path) -> io::Result<Box<dyn BufRead + Send>> {
    let file = BufReader::new(File::open(path)?);
    if !path.to_string_lossy().ends_with(SUFFIX) {
        return Ok(Box::new(file));
    }
    Ok(Box::new(BufReader::new(Pieces { state: State::Between(file) })))
}

/// Compresses a file of at least this size, in bounded memory, and removes it. Returns the path of the file that is there then.
///
/// # Errors
/// When reading or writing fails. The file is unchanged then.
pub fn compress_large(path: &Path, min_size: u64) -> io::Result<PathBuf> {
    if fs::metadata(path)?.len() < min_size {
        return Ok(path.to_owned());
    }
    let with = |suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    let (target, partial) = (with(SUFFIX), with(".tmp"));
    let written = write_pieces(path, &partial).and_then(|()| fs::rename(&partial, &target));
    if let Err(error) = written {
        let _ = fs::remove_file(&partial);
        return Err(error);
    }
    fs::remove_file(path)?;
    Ok(target)
}

fn write_pieces(from: &Path, to: &Path) -> io::Result<()> {
    let (mut input, mut output) = (File::open(from)?, BufWriter::new(File::create(to)?));
    let mut piece = Vec::new();
    loop {
        piece.clear();
        Read::by_ref(&mut input).take(PIECE).read_to_end(&mut piece)?;
        if piece.is_empty() {
            return output.flush();
        }
        output.write_all(&compress_to_vec(piece.as_slice(), CompressionLevel::Fastest))?;
    }
}

/// Reads the pieces of a compressed file as one text.
struct Pieces {
    state: State,
}

enum State {
    Between(BufReader<File>),
    Inside(Box<StreamingDecoder<BufReader<File>, ruzstd::decoding::FrameDecoder>>),
    End,
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match std::mem::replace(&mut self.state, State::End) {
                State::End => return Ok(0),
                State::Between(mut file) => {
                    if file.fill_buf()?.is_empty() {
                        return Ok(0);
                    }
                    let decoder = StreamingDecoder::new_with_max_window_size(file, MAX_WINDOW)
                        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
                    self.state = State::Inside(Box::new(decoder));
                }
                State::Inside(mut decoder) => match decoder.read(buffer)? {
                    0 if !buffer.is_empty() => self.state = State::Between(decoder.into_inner()),
                    length => {
                        self.state = State::Inside(decoder);
                        return Ok(length);
                    }
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_file_is_compressed_and_read_like_a_plain_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("frames.jsonl");
        let lines: String =
            (0..90_000).map(|line| format!("{{\"type\":\"message\",\"n\":{line}}}\n")).collect();
        fs::write(&path, &lines).unwrap();
        let read = |path: &Path| {
            let mut text = String::new();
            open(path).unwrap().read_to_string(&mut text).unwrap();
            text
        };
        assert_eq!(compress_large(&path, u64::MAX).unwrap(), path);
        assert_eq!(read(&path), lines);
        let compressed = compress_large(&path, 1).unwrap();
        assert_eq!(compressed, dir.path().join("frames.jsonl.zst"));
        assert!(fs::metadata(&compressed).unwrap().len() * 3 < lines.len() as u64);
        assert_eq!(read(&compressed), lines);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        fs::write(&compressed, "not compressed").unwrap();
        assert!(open(&compressed).unwrap().read_to_string(&mut String::new()).is_err());
    }
}
