//! The grammar of tool rules: a name, an MCP name pattern, or a name with a rule in parentheses.

/// The description of the expected format, for error messages.
pub(crate) const EXPECTED: &str = "expected a tool such as `Read`, `Bash(git *)` or `mcp__server__*`";

/// Returns whether the text is a tool name or a tool rule.
pub(crate) fn is_rule(text: &str) -> bool {
    match text.split_once('(') {
        None => is_name(text),
        Some((name, rest)) => {
            let rule = rest.strip_suffix(')').unwrap_or("");
            is_name(name) && !rule.trim().is_empty() && !rule.chars().any(char::is_control)
        }
    }
}

/// Never starts with a dash, so it can't be mistaken for a flag.
fn is_name(text: &str) -> bool {
    let pattern = text.starts_with("mcp__");
    text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && text.chars().all(|letter| {
            letter.is_ascii_alphanumeric() || "_-.:".contains(letter) || pattern && letter == '*'
        })
}

#[cfg(test)]
mod tests {
    use super::is_rule;

    #[test]
    fn rules_are_distinguished_from_flags_and_text() {
        for good in [
            "Read",
            "Bash(git *)",
            "Bash(git log:*)",
            "mcp__server",
            "mcp__a-b__*",
            "Skill(pdf)",
            "mcp__a__b(x, y)",
            "Read(./.env)",
            "Bash(echo \")\")",
        ] {
            assert!(is_rule(good), "{good}");
        }
        for bad in [
            "",
            " ",
            "-p",
            "--tools",
            "Bash(",
            "Bash()",
            "Bash( )",
            "Read,Write",
            "two words",
            "Ba*h",
            "(x)",
            "a\0",
            "Bash(a\nb)",
            "Bash)",
            "1x",
        ] {
            assert!(!is_rule(bad), "{bad}");
        }
    }
}
