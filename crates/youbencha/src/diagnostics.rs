//! Terminal rendering of diagnostics about a file: message, location with source line, expectation, hint.

use yb_engine::diagnostic::{Diagnostic, Severity};
use yb_figures::visible_line;

use crate::printer::{Style, StyledText};

/// Renders a diagnostic as lines, without a trailing line break.
pub(crate) fn render(found: &Diagnostic, severity: Severity) -> StyledText {
    let label = match severity {
        Severity::Error => StyledText::new().styled(Style::BoldRed, "error:"),
        Severity::Warning => StyledText::new().styled(Style::BoldYellow, "warning:"),
    };
    let mut out = label.text(" ").text(&found.message);
    let number = found.line.to_string();
    let margin = " ".repeat(if found.snippet.is_some() { number.len() } else { 1 });
    out = out.newline().text(&margin).styled(Style::Blue, "-->").text(" ").text(found.location());
    if let Some(snippet) = &found.snippet {
        let before: String = snippet.text.chars().take(snippet.start).collect();
        let marked: String = snippet.text.chars().skip(snippet.start).take(snippet.width).collect();
        // An escape in the line moves what follows it.
        let more = |text: &str| visible_line(text).chars().count() - text.chars().count();
        let (start, width) = (snippet.start + more(&before), snippet.width + more(&marked));
        let mark = format!("{}{}", " ".repeat(start), "^".repeat(width));
        out = out.newline().styled(Style::Blue, number).styled(Style::Blue, " | ").text(&snippet.text);
        out = out.newline().text(&margin).styled(Style::Blue, " | ").styled(Style::Red, mark);
    }
    let details = [
        (" key: `", (!found.key.is_empty()).then_some(&found.key), "`"),
        (" expected: ", found.expected.as_ref(), ""),
        (" with: ", found.with.as_ref(), ""),
    ];
    for (name, value, end) in details {
        if let Some(value) = value {
            out = out.newline().text(&margin).styled(Style::Blue, " =").text(name).text(value).text(end);
        }
    }
    if let Some(hint) = &found.hint {
        out = out.newline().styled(Style::BoldCyan, "hint:").text(" ").text(hint);
    }
    out
}
