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
    if safe.is_empty() { "workspace".to_owned() } else { safe }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn safe_name_drops_unsafe_characters_and_limits_length() {
        for (text, expected) in
            [("My case: v1.2", "My-case-v12"), ("--x", "x"), ("ü/..", "workspace"), ("a b", "a-b")]
        {
            assert_eq!(safe_name(text), expected);
        }
        assert_eq!(safe_name(&"x".repeat(200)).len(), 100);
    }
}
