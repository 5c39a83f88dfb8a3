//! Escaping of untrusted text for Markdown, XML, HTML and CSV. All text from agents, cases and repositories in a report is
//! escaped here.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Removes control characters and makes invisible characters and bidirectional controls visible, with which a diff could show
/// other code than it contains.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    let odd = |c: char| (c.is_control() && !matches!(c, '\n' | '\t')) || is_invisible(c) || is_invalid_xml(c);
    if !text.contains(odd) {
        return Cow::Borrowed(text);
    }
    let mut cleaned = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if is_invisible(c) => {
                let _ = write!(cleaned, "⟨U+{:04X}⟩", u32::from(c));
            }
            c if odd(c) => {}
            c => cleaned.push(c),
        }
    }
    Cow::Owned(cleaned)
}

/// Joiners stay: emoji and several scripts need them.
fn is_invisible(c: char) -> bool {
    yb_figures::is_hidden(c) && !c.is_control() && !is_invalid_xml(c) && !matches!(c, '\u{200c}' | '\u{200d}')
}

fn is_invalid_xml(c: char) -> bool {
    matches!(c, '\u{fffe}' | '\u{ffff}')
}

/// Appends text escaped for HTML and XML, also within a quoted attribute.
pub(crate) fn markup(into: &mut String, text: &str) {
    let text = clean(text);
    let mut rest: &str = &text;
    while let Some(at) = rest.find(['&', '<', '>', '"', '\'']) {
        into.push_str(&rest[..at]);
        into.push_str(match rest.as_bytes()[at] {
            b'&' => "&amp;",
            b'<' => "&lt;",
            b'>' => "&gt;",
            b'"' => "&quot;",
            _ => "&#39;",
        });
        rest = &rest[at + 1..];
    }
    into.push_str(rest);
}

/// Escapes text within a line of Markdown, also in a table: no markup, no mentions.
pub(crate) fn escape_text(text: &str) -> String {
    let text = crate::text::one_line(&clean(text));
    let mut escaped = String::with_capacity(text.len() + 8);
    for (at, c) in text.chars().enumerate() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            // An invisible word joiner keeps `@name` from being a mention.
            '@' => escaped.push_str("@\u{2060}"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '#' | '$' => {
                escaped.push('\\');
                escaped.push(c);
            }
            '-' | '+' | '=' if at == 0 => {
                escaped.push('\\');
                escaped.push(c);
            }
            c => escaped.push(c),
        }
    }
    escaped
}

/// Formats inline code in Markdown; empty text stays empty.
pub(crate) fn code(text: &str) -> String {
    let text = crate::text::one_line(&clean(text));
    if text.is_empty() {
        return text;
    }
    let ticks = "`".repeat(longest_ticks(&text) + 1);
    let space = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{ticks}{space}{text}{space}{ticks}")
}

/// Formats inline code in a table cell, where a bar ends the cell unless it is escaped.
pub(crate) fn cell(text: &str) -> String {
    code(text).replace('|', "\\|")
}

/// Formats a fenced code block in Markdown.
pub(crate) fn fence(text: &str, language: &str) -> String {
    let text = clean(text);
    let ticks = "`".repeat(longest_ticks(&text).max(2) + 1);
    let end = if text.ends_with('\n') { "" } else { "\n" };
    format!("{ticks}{language}\n{text}{end}{ticks}\n")
}

fn longest_ticks(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

/// Escapes a CSV field (RFC 4180). A text that a spreadsheet would treat as a formula gets a leading apostrophe.
#[must_use]
pub fn csv_field(text: &str) -> String {
    let risky = text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']) && text.parse::<f64>().is_err();
    // `cat` shows a CSV file on a terminal.
    let text = yb_figures::visible(text);
    let text = if risky { format!("'{text}") } else { text.into_owned() };
    if text.contains([',', '"', '\n', '\r', ';']) || text.starts_with(' ') || text.ends_with(' ') {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An injection attempt, as it could occur in a name, prompt, diff or tool result.
    const HOSTILE: &str = "</script><img src=x onerror=alert(1)>";

    fn html(text: &str) -> String {
        let mut escaped = String::new();
        markup(&mut escaped, text);
        escaped
    }

    #[test]
    fn markup_escapes_html_and_controls() {
        assert_eq!(html(HOSTILE), "&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;");
        assert_eq!(html("\"' onload='x"), "&quot;&#39; onload=&#39;x");
        assert_eq!(html("a\u{1b}[31m\u{0}b\n"), "a[31mb\n");
        assert_eq!(html("x\u{202e}y\u{ffff}"), "x⟨U+202E⟩y");
        assert_eq!(html("ünïcödé 🎉"), "ünïcödé 🎉");
    }

    #[test]
    fn markdown_is_escaped() {
        assert_eq!(escape_text("a|b `c` <d> *e*\nf"), r"a\|b \`c\` &lt;d&gt; \*e\* f");
        assert_eq!(escape_text("- @all [x](y) ![z](q)"), "\\- @\u{2060}all \\[x\\](y) !\\[z\\](q)");
        assert_eq!((code("a|b"), cell("a|b")), ("`a|b`".to_owned(), "`a\\|b`".to_owned()));
        assert_eq!(code("``x`"), "``` ``x` ```");
        assert_eq!(code(""), "");
        assert_eq!(fence("```\nx\n```", "diff"), "````diff\n```\nx\n```\n````\n");
    }

    #[test]
    fn csv_fields_are_no_formulas() {
        assert_eq!(csv_field("=1+1"), "'=1+1");
        assert_eq!(csv_field("@SUM(A1)"), "'@SUM(A1)");
        assert_eq!(csv_field("-2+3,\"x\""), "\"'-2+3,\"\"x\"\"\"");
        assert_eq!(csv_field("\tx"), "'\tx");
        assert_eq!(csv_field("-1.5"), "-1.5");
        assert_eq!(csv_field("a\nb"), "\"a\nb\"");
        assert_eq!(csv_field("plain"), "plain");
        assert_eq!(csv_field("\u{1b}[2J\u{9b}1A\rx\0"), r"\u{1b}[2J\u{9b}1A\rx\u{0}");
    }
}
