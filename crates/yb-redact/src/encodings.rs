//! The byte strings to search for each secret: the secret without whitespace, and its usual encodings.

use std::collections::BTreeSet;

use crate::MIN_LENGTH;

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// Characters that percent-encoding keeps, beside letters and digits: none, RFC 3986, `encodeURIComponent`, `encodeURI`.
const KEPT_BY_URLS: [&[u8]; 4] = [b"", b"-_.~", b"-_.!~*'()", b"-_.!~*'();/?:@&=+$,#"];

/// Returns the patterns of a secret. Short values have no encoded forms: these would match ordinary text.
pub(crate) fn patterns(value: &[u8]) -> BTreeSet<Vec<u8>> {
    let bare: Vec<u8> = value.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    // The scanner drops backslashes where it decodes escapes.
    let unescaped: Vec<u8> = bare.iter().copied().filter(|byte| *byte != b'\\').collect();
    let mut found = BTreeSet::from([bare, unescaped]);
    if value.contains(&b'\\') {
        // Without its backslash, `\n` would be taken for a line break.
        let quoted = serde_json::Value::from(String::from_utf8_lossy(value)).to_string();
        let escaped = &quoted.as_bytes()[1..quoted.len() - 1];
        found.insert(escaped.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect());
    }
    if value.len() >= MIN_LENGTH {
        found.insert(hex(value, b"0123456789abcdef"));
        found.insert(hex(value, b"0123456789ABCDEF"));
        for digits in [STANDARD, URL_SAFE] {
            found.extend((0..3).map(|offset| base64(value, offset, digits)));
        }
        for kept in KEPT_BY_URLS {
            found.insert(percent(value, kept, b"0123456789abcdef"));
            found.insert(percent(value, kept, b"0123456789ABCDEF"));
        }
    }
    found.retain(|pattern| !pattern.is_empty());
    found
}

fn hex(value: &[u8], digits: &[u8; 16]) -> Vec<u8> {
    value.iter().flat_map(|byte| [digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]]).collect()
}

/// Returns the base64 digits that the value alone determines when it is preceded by `offset` other bytes (modulo 3).
fn base64(value: &[u8], offset: usize, digits: &[u8; 64]) -> Vec<u8> {
    let bit = |at: usize| value[at / 8] >> (7 - at % 8) & 1;
    // The first digit that begins within the value.
    let first = (6 - offset * 8 % 6) % 6;
    (first..)
        .step_by(6)
        .take_while(|start| start + 6 <= value.len() * 8)
        .map(|start| digits[usize::from((start..start + 6).fold(0, |all, at| all << 1 | bit(at)))])
        .collect()
}

fn percent(value: &[u8], kept: &[u8], digits: &[u8; 16]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    for byte in value {
        if byte.is_ascii_alphanumeric() || kept.contains(byte) {
            out.push(*byte);
        } else {
            out.extend([b'%', digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]]);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_the_usual_encodings() {
        let found = patterns(b"a b\\c/d?");
        let all: Vec<String> = found.iter().map(|one| String::from_utf8(one.clone()).unwrap()).collect();
        for expected in [
            "ab\\c/d?",
            "abc/d?",
            "6120625c632f643f",
            "6120625C632F643F",
            "YSBiXGMvZD",
            "YSBiXGMvZD",
            "a%20b%5Cc%2Fd%3F",
            "a%20b%5cc%2fd%3f",
            "a%20b%5Cc/d?",
        ] {
            assert!(all.iter().any(|one| one == expected), "{expected} in {all:?}");
        }
    }

    #[test]
    fn base64_digits_are_those_between_other_bytes() {
        // "xabcdefgh" is `eGFiY2RlZmdo`, "xyabcdefgh" is `eHlhYmNkZWZnaA==`, "abcdefgh" is `YWJjZGVmZ2g=`.
        let digits = |offset| String::from_utf8(base64(b"abcdefgh", offset, STANDARD)).unwrap();
        assert_eq!(digits(0), "YWJjZGVmZ2");
        assert_eq!(digits(1), "FiY2RlZmdo");
        assert_eq!(digits(2), "hYmNkZWZna");
    }

    #[test]
    fn short_values_are_searched_literally() {
        assert_eq!(patterns(b"short"), BTreeSet::from([b"short".to_vec()]));
        assert!(patterns(b" \n").is_empty());
    }
}
