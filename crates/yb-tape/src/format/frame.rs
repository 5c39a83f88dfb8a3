//! One frame of a tape: whole lines, compressed, with a checksum; half a frame is no frame.

use std::io::{self, Read as _};

use ruzstd::decoding::{FrameDecoder, StreamingDecoder};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

/// More than any exchange takes; a frame that claims more is not ours.
const MAX_FRAME_BYTES: u64 = 1 << 30;

pub(crate) fn encode(lines: &[u8]) -> Vec<u8> {
    compress_to_vec(lines, CompressionLevel::Fastest)
}

/// Takes the first frame off `rest`. An error leaves `rest` somewhere in the frame that could not be read.
pub(crate) fn decode(rest: &mut &[u8]) -> io::Result<Vec<u8>> {
    let broken = |reason: &str| io::Error::new(io::ErrorKind::InvalidData, reason);
    let mut source = *rest;
    let mut decoder = FrameDecoder::new();
    let mut lines = Vec::new();
    let decoding = StreamingDecoder::new_with_decoder(&mut source, &mut decoder)
        .map_err(|_| broken("no frame of a tape begins like this"))?;
    let read = decoding
        .take(MAX_FRAME_BYTES + 1)
        .read_to_end(&mut lines)
        .map_err(|_| broken("a frame is cut off or was changed"))?;
    if u64::try_from(read).is_ok_and(|read| read > MAX_FRAME_BYTES) {
        return Err(broken("a frame is too large"));
    }
    if !decoder.is_finished() {
        return Err(broken("a frame has no end"));
    }
    if decoder.get_checksum_from_data().is_some()
        && decoder.get_checksum_from_data() != decoder.get_calculated_checksum()
    {
        return Err(broken("a frame's checksum is wrong"));
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
        fn frames_come_back_one_by_one(all in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..2000), 0..5)) {
            let file: Vec<u8> = all.iter().flat_map(|lines| encode(lines)).collect();
            let mut rest = file.as_slice();
            for lines in &all {
                prop_assert_eq!(&decode(&mut rest).unwrap(), lines);
            }
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn what_is_no_frame_is_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut rest = bytes.as_slice();
            // Whatever comes: an answer, and no panic.
            let _ = decode(&mut rest);
        }
    }

    #[test]
    fn a_frame_that_is_cut_or_changed_anywhere_is_an_error() {
        let lines = "{\"kind\":\"blob\"}\n".repeat(20);
        let frame = encode(lines.as_bytes());
        for end in 0..frame.len() {
            assert!(decode(&mut &frame[..end]).is_err(), "cut at {end}");
        }
        for at in 0..frame.len() {
            let mut changed = frame.clone();
            changed[at] ^= 0x10;
            let result = decode(&mut changed.as_slice());
            assert!(result.as_ref().map_or(true, |read| read == lines.as_bytes()), "changed at {at}");
        }
    }
}
