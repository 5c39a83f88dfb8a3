//! The grammar of tools and rules: a name, a pattern of MCP names, or a name with a rule in parentheses.

/// What a rule looks like, for messages.
pub(crate) const EXPECTED: &str = "expected a tool such as `Read`, `Bash(git *)` or `mcp__server__*`";

/// Whether a text is a tool's name or a rule for a tool.
pub(crate) fn is_rule(text: &str) -> bool {
    match text.split_once('(') {
        None => is_name(text),
        Some((name, rest)) => {
            let rule = rest.strip_suffix(')').unwrap_or("");
            is_name(name) && !rule.trim().is_empty() && !rule.chars().any(char::is_control)
        }
    }
}

/// Never begins with a dash, so that it can stand where a flag could.
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
    fn rules_are_told_from_flags_and_sentences() {
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
