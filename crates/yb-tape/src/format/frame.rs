//! Frames of a tape: compressed complete lines with a checksum.

use std::io::{self, Read as _};

use ruzstd::decoding::{FrameDecoder, StreamingDecoder};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

/// Limit for the decompressed size of a frame, larger than any exchange.
const MAX_FRAME_BYTES: u64 = 1 << 30;

pub(crate) fn encode(lines: &[u8]) -> Vec<u8> {
    compress_to_vec(lines, CompressionLevel::Fastest)
}

/// Decodes the first frame of `rest` and advances `rest` past it. On error, `rest` is unchanged.
pub(crate) fn decode(rest: &mut &[u8]) -> io::Result<Vec<u8>> {
    let invalid = |reason: &str| io::Error::new(io::ErrorKind::InvalidData, reason);
    let mut source = *rest;
    let mut decoder = FrameDecoder::new();
    let mut lines = Vec::new();
    let decoding = StreamingDecoder::new_with_decoder(&mut source, &mut decoder)
        .map_err(|_| invalid("invalid frame header"))?;
    let read = decoding
        .take(MAX_FRAME_BYTES + 1)
        .read_to_end(&mut lines)
        .map_err(|_| invalid("truncated or corrupt frame"))?;
    if u64::try_from(read).is_ok_and(|read| read > MAX_FRAME_BYTES) {
        return Err(invalid("frame too large"));
    }
    if !decoder.is_finished() {
        return Err(invalid("truncated frame"));
    }
    if decoder.get_checksum_from_data().is_some()
        && decoder.get_checksum_from_data() != decoder.get_calculated_checksum()
    {
        return Err(invalid("frame checksum mismatch"));
    }
    *rest = source;
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
