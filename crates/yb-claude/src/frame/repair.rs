//! Repairs lone surrogates: JavaScript may split a string inside an emoji and write `\ud83d`, which is valid JSON but
//! not valid Unicode.

/// Replaces every lone surrogate escape with `\ufffd`; `None` if there is none.
pub(crate) fn lone_surrogates(json: &str) -> Option<String> {
    let bytes = json.as_bytes();
    let (mut repaired, mut copied) = (String::new(), 0);
    let mut at = 0;
    while let Some(found) = memchr::memchr(b'\\', &bytes[at..]) {
        at += found;
        match unit(bytes, at) {
            Some(0xD800..=0xDBFF) if matches!(unit(bytes, at + 6), Some(0xDC00..=0xDFFF)) => at += 12,
            Some(0xD800..=0xDFFF) => {
                repaired.push_str(json.get(copied..at)?);
                repaired.push_str("\\ufffd");
                at += 6;
                copied = at;
            }
            Some(_) => at += 6,
            None => at += 2,
        }
        if at >= bytes.len() {
            break;
        }
    }
    if copied == 0 {
        return None;
    }
    repaired.push_str(json.get(copied..)?);
    Some(repaired)
}

/// Returns the UTF-16 code unit of a `\uXXXX` escape at this position.
fn unit(bytes: &[u8], at: usize) -> Option<u16> {
    let escape = bytes.get(at..at.checked_add(6)?)?;
    let hex = escape.strip_prefix(b"\\u")?;
    if !hex.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u16::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lone_surrogates_are_replaced() {
        let check = |input: &str, expected: Option<&str>| {
            assert_eq!(lone_surrogates(input).as_deref(), expected, "{input}");
        };
        check(r#""plain""#, None);
        check(r#""\ud83d\ude00 whole""#, None);
        check(r#""cut \ud83d""#, Some(r#""cut \ufffd""#));
        check(r#""\ude00 first""#, Some(r#""\ufffd first""#));
        check(r#""\ud83d\ud83d\ude00""#, Some(r#""\ufffd\ud83d\ude00""#));
        check(r#""\\ud83d is text""#, None);
        check(r#""\\\ud83d""#, Some(r#""\\\ufffd""#));
        check("\\", None);
        check(r"\ud8", None);
    }
}
