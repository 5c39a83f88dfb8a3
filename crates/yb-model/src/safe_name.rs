//! Names that are safe in a path and in a git ref.

/// Converts a text to a name that is safe in a path and in a git ref: ASCII letters, digits, `-` and `_`.
#[must_use]
pub fn safe_name(text: &str) -> String {
    let safe: String = text
        .chars()
        .map(|c| if c.is_whitespace() { '-' } else { c })
        .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
        .collect();
    let safe: String = safe.trim_start_matches(['-', '_']).chars().take(100).collect();
    let safe = if safe.is_empty() { "workspace".to_owned() } else { safe };
    // Names in other scripts would all be the same. Names with a letter are as they always were, so that tapes are found.
    let lost = text.chars().any(|c| !c.is_ascii() && c.is_alphanumeric());
    if lost && !text.contains(|c: char| c.is_ascii_alphabetic()) {
        format!("{safe}-{}", &blake3::hash(text.as_bytes()).to_hex()[..8])
    } else {
        safe
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn safe_name_drops_unsafe_characters_and_limits_length() {
        for (text, expected) in [
            ("My case: v1.2", "My-case-v12"),
            ("--x", "x"),
            ("/..", "workspace"),
            ("größe", "gre"),
            ("a b", "a-b"),
        ] {
            assert_eq!(safe_name(text), expected);
        }
        assert_eq!(safe_name(&"x".repeat(200)).len(), 100);
    }

    #[test]
    fn safe_names_in_other_scripts_differ() {
        let names = ["漢字", "日本語", "漢字 1", "日本語 1", "имя"].map(safe_name);
        let distinct: std::collections::BTreeSet<&String> = names.iter().collect();
        assert_eq!(distinct.len(), names.len(), "{names:?}");
        assert!(names.iter().all(|name| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')));
    }
}
