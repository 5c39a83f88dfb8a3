//! Splitting bytes at UTF-8 character boundaries. Invalid bytes pass through unchanged.

/// Returns the length of an incomplete character at the end of `bytes` (0 to 3).
pub(crate) fn incomplete_tail(bytes: &[u8]) -> usize {
    for length in 1..=bytes.len().min(3) {
        let byte = bytes[bytes.len() - length];
        let needed = match byte {
            0xC2..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF4 => 4,
            // A continuation byte; the character starts further back.
            0x80..=0xBF => continue,
            _ => return 0,
        };
        return if needed > length { length } else { 0 };
    }
    0
}

/// Returns the longest prefix of at most `limit` bytes that does not end inside a character.
pub(crate) fn cut(bytes: &[u8], limit: usize) -> &[u8] {
    if bytes.len() <= limit {
        return bytes;
    }
    let head = &bytes[..limit];
    &head[..limit - incomplete_tail(head)]
}

/// Emits only complete characters of one pipe, before its bytes are interleaved with those of the other.
#[derive(Debug, Default)]
pub(crate) struct Utf8Chunker {
    pending: Vec<u8>,
}

impl Utf8Chunker {
    pub(crate) fn push(&mut self, chunk: &[u8], emit: &mut dyn FnMut(&[u8])) {
        let mut chunk = chunk;
        while !self.pending.is_empty() && !chunk.is_empty() {
            self.pending.push(chunk[0]);
            chunk = &chunk[1..];
            if incomplete_tail(&self.pending) != self.pending.len() {
                emit(&self.pending);
                self.pending.clear();
            }
        }
        let tail = incomplete_tail(chunk);
        let (whole, rest) = chunk.split_at(chunk.len() - tail);
        if !whole.is_empty() {
            emit(whole);
        }
        self.pending.extend_from_slice(rest);
    }

    pub(crate) fn finish(&mut self, emit: &mut dyn FnMut(&[u8])) {
        if !self.pending.is_empty() {
            emit(&std::mem::take(&mut self.pending));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn incomplete_tail_finds_partial_characters() {
        for character in ["é", "€", "🦀"] {
            let bytes = character.as_bytes();
            for length in 1..bytes.len() {
                assert_eq!(incomplete_tail(&bytes[..length]), length, "{character} at {length}");
            }
            assert_eq!(incomplete_tail(bytes), 0);
        }
        assert_eq!(incomplete_tail(b"\xff\x80"), 0);
        assert_eq!(incomplete_tail(b"\x80\x80\x80\x80"), 0);
    }

    #[test]
    fn cut_keeps_characters_whole() {
        assert_eq!(cut("a€b".as_bytes(), 3), b"a");
        assert_eq!(cut("a€b".as_bytes(), 4), "a€".as_bytes());
        assert_eq!(cut(b"abc", 9), b"abc");
    }

    proptest! {
        #[test]
        fn no_byte_is_lost_and_no_character_is_split(text in "\\PC{0,40}", noise in any::<Vec<u8>>(), step in 1usize..5) {
            for bytes in [text.as_bytes(), &noise] {
                let mut stage = Utf8Chunker::default();
                let (mut out, mut chunks) = (Vec::new(), Vec::new());
                let mut take = |chunk: &[u8]| {
                    out.extend_from_slice(chunk);
                    chunks.push(chunk.to_vec());
                };
                for chunk in bytes.chunks(step) {
                    stage.push(chunk, &mut take);
                }
                stage.finish(&mut take);
                prop_assert_eq!(&out, bytes);
                if bytes == text.as_bytes() {
                    prop_assert!(chunks.iter().all(|chunk| std::str::from_utf8(chunk).is_ok()));
                }
            }
        }
    }
}
