//! Frames of a tape: compressed complete lines with a checksum.

use std::io::{self, Read as _};

use ruzstd::decoding::{FrameDecoder, StreamingDecoder};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

/// Limit for the decompressed size of a frame, larger than any exchange.
const MAX_FRAME_BYTES: u64 = 1 << 30;
/// The decompressed size that any file may have, however small it is.
const FREE_BYTES: u64 = 64 << 20;
/// Beyond that, a file may decompress to this multiple of its size. JSON compresses to a tenth or so; a file that claims much
/// more is an attack on the memory of its reader.
const MAX_RATIO: u64 = 256;

/// The bytes that a file may still decompress to. Frames are decompressed one by one and stop at the limit, so that a small
/// file never takes much memory.
#[derive(Debug)]
pub(crate) struct DecodeBudget {
    left: u64,
}

impl DecodeBudget {
    /// Returns the budget of a file of this length.
    pub(crate) fn of_file(length: usize) -> Self {
        let length = u64::try_from(length).unwrap_or(u64::MAX);
        Self { left: length.saturating_mul(MAX_RATIO).max(FREE_BYTES) }
    }
}

/// Encodes frames so that any [budget](DecodeBudget) covers them: what compresses too well is stored as it is.
#[derive(Debug, Default)]
pub(crate) struct FrameEncoder {
    plain: u64,
    written: u64,
}

impl FrameEncoder {
    pub(crate) fn encode(&mut self, lines: &[u8]) -> Vec<u8> {
        let length = |bytes: &[u8]| u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.plain += length(lines);
        let mut frame = compress_to_vec(lines, CompressionLevel::Fastest);
        if self.plain > FREE_BYTES && self.plain > (self.written + length(&frame)).saturating_mul(MAX_RATIO) {
            frame = compress_to_vec(lines, CompressionLevel::Uncompressed);
        }
        self.written += length(&frame);
        frame
    }
}

/// Decodes the first frame of `rest` and advances `rest` past it. On error, `rest` is unchanged.
pub(crate) fn decode(rest: &mut &[u8], budget: &mut DecodeBudget) -> io::Result<Vec<u8>> {
    let invalid = |reason: &str| io::Error::new(io::ErrorKind::InvalidData, reason);
    let mut source = *rest;
    let mut decoder = FrameDecoder::new();
    let mut lines = Vec::new();
    let decoding = StreamingDecoder::new_with_decoder(&mut source, &mut decoder)
        .map_err(|_| invalid("invalid frame header"))?;
    let limit = budget.left.min(MAX_FRAME_BYTES);
    let read = decoding
        .take(limit + 1)
        .read_to_end(&mut lines)
        .map_err(|_| invalid("truncated or corrupt frame"))?;
    let read = u64::try_from(read).unwrap_or(u64::MAX);
    if read > limit {
        return Err(invalid("the frame decompresses to too many bytes"));
    }
    if !decoder.is_finished() {
        return Err(invalid("truncated frame"));
    }
    if decoder.get_checksum_from_data().is_some()
        && decoder.get_checksum_from_data() != decoder.get_calculated_checksum()
    {
        return Err(invalid("frame checksum mismatch"));
    }
    budget.left -= read;
    *rest = source;
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encode(lines: &[u8]) -> Vec<u8> {
        FrameEncoder::default().encode(lines)
    }

    fn decode(rest: &mut &[u8]) -> io::Result<Vec<u8>> {
        super::decode(rest, &mut DecodeBudget::of_file(rest.len()))
    }

    /// The error depends on the limit alone; that no more than it was decompressed follows from `take`.
    #[test]
    fn small_file_never_decompresses_to_much() {
        let bomb = compress_to_vec(vec![b' '; 100 << 20].as_slice(), CompressionLevel::Fastest);
        assert!(bomb.len() < 64 << 10, "{}", bomb.len());
        let error = decode(&mut bomb.as_slice()).unwrap_err();
        assert_eq!(error.to_string(), "the frame decompresses to too many bytes");
        // Neither do many frames, each of which is within the limit.
        let part = compress_to_vec(vec![b' '; 20 << 20].as_slice(), CompressionLevel::Fastest);
        let file = part.repeat(10);
        let (mut rest, mut budget) = (file.as_slice(), DecodeBudget::of_file(file.len()));
        let decoded = (0..10).take_while(|_| super::decode(&mut rest, &mut budget).is_ok()).count();
        assert_eq!(decoded, 3);
    }

    #[test]
    fn everything_that_is_written_can_be_read() {
        let mut encoder = FrameEncoder::default();
        let lines = vec![b' '; 30 << 20];
        let frames: Vec<Vec<u8>> = (0..3).map(|_| encoder.encode(&lines)).collect();
        assert!(frames[1].len() < 64 << 10 && frames[2].len() > 30 << 20);
        let file = frames.concat();
        let (mut rest, mut budget) = (file.as_slice(), DecodeBudget::of_file(file.len()));
        for _ in 0..3 {
            assert!(super::decode(&mut rest, &mut budget).unwrap() == lines);
        }
    }

    proptest! {
        #[test]
        fn decode_returns_encoded_frames_in_order(all in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..2000), 0..5)) {
            let file: Vec<u8> = all.iter().flat_map(|lines| encode(lines)).collect();
            let mut rest = file.as_slice();
            for lines in &all {
                prop_assert_eq!(&decode(&mut rest).unwrap(), lines);
            }
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn decode_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut rest = bytes.as_slice();
            let _ = decode(&mut rest);
        }
    }

    #[test]
    fn decode_rejects_truncated_and_corrupt_frames() {
        let lines = "{\"kind\":\"blob\"}\n".repeat(20);
        let frame = encode(lines.as_bytes());
        for end in 0..frame.len() {
            assert!(decode(&mut &frame[..end]).is_err(), "truncated at {end}");
        }
        for at in 0..frame.len() {
            let mut changed = frame.clone();
            changed[at] ^= 0x10;
            let result = decode(&mut changed.as_slice());
            assert!(result.as_ref().map_or(true, |read| read == lines.as_bytes()), "changed at {at}");
        }
    }
}
