//! Where text may be cut: never inside a character, as far as the bytes are characters at all.

/// How many bytes at the end of `bytes` are the beginning of a character that is not complete yet (0 to 3).
pub(crate) fn incomplete_tail(bytes: &[u8]) -> usize {
    for length in 1..=bytes.len().min(3) {
        let byte = bytes[bytes.len() - length];
        let needed = match byte {
            0xC2..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF4 => 4,
            // A continuation byte: look further back for its beginning.
            0x80..=0xBF => continue,
            _ => return 0,
        };
        return if needed > length { length } else { 0 };
    }
    0
}

/// The longest beginning of `bytes` of at most `limit` bytes that does not end inside a character.
pub(crate) fn cut(bytes: &[u8], limit: usize) -> &[u8] {
    if bytes.len() <= limit {
        return bytes;
    }
    let head = &bytes[..limit];
    &head[..limit - incomplete_tail(head)]
}

/// Keeps the characters of one pipe whole before its bytes are mixed with those of another.
#[derive(Debug, Default)]
pub(crate) struct WholeCharacters {
    held: Vec<u8>,
}

impl WholeCharacters {
    pub(crate) fn push(&mut self, piece: &[u8], emit: &mut dyn FnMut(&[u8])) {
        let mut piece = piece;
        while !self.held.is_empty() && !piece.is_empty() {
            self.held.push(piece[0]);
            piece = &piece[1..];
            if incomplete_tail(&self.held) != self.held.len() {
                emit(&self.held);
                self.held.clear();
            }
        }
        let tail = incomplete_tail(piece);
        let (whole, rest) = piece.split_at(piece.len() - tail);
        if !whole.is_empty() {
            emit(whole);
        }
        self.held.extend_from_slice(rest);
    }

    pub(crate) fn finish(&mut self, emit: &mut dyn FnMut(&[u8])) {
        if !self.held.is_empty() {
            emit(&std::mem::take(&mut self.held));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_incomplete_character_is_seen() {
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
    fn a_cut_gives_way_to_a_character() {
        assert_eq!(cut("a€b".as_bytes(), 3), b"a");
        assert_eq!(cut("a€b".as_bytes(), 4), "a€".as_bytes());
        assert_eq!(cut(b"abc", 9), b"abc");
    }

    proptest! {
        #[test]
        fn no_byte_is_lost_and_no_character_is_split(text in "\\PC{0,40}", noise in any::<Vec<u8>>(), step in 1usize..5) {
            for bytes in [text.as_bytes(), &noise] {
                let mut stage = WholeCharacters::default();
                let (mut out, mut pieces) = (Vec::new(), Vec::new());
                let mut take = |piece: &[u8]| {
                    out.extend_from_slice(piece);
                    pieces.push(piece.to_vec());
                };
                for chunk in bytes.chunks(step) {
                    stage.push(chunk, &mut take);
                }
                stage.finish(&mut take);
                prop_assert_eq!(&out, bytes);
                if bytes == text.as_bytes() {
                    prop_assert!(pieces.iter().all(|piece| std::str::from_utf8(piece).is_ok()));
                }
            }
        }
    }
}
