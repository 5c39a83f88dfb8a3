//! Terminal rendering of diagnostics about a file: message, location with source line, expectation, hint.

use std::fmt::Write as _;

use owo_colors::OwoColorize as _;
use yb_engine::diagnostic::{Diagnostic, Severity};

/// Renders a diagnostic as lines, without a trailing line break.
pub(crate) fn render(found: &Diagnostic, severity: Severity) -> String {
    let mut out = String::new();
    let label = match severity {
        Severity::Error => "error:".red().bold().to_string(),
        Severity::Warning => "warning:".yellow().bold().to_string(),
    };
    let _ = write!(out, "{label} {}", found.message);
    let number = found.line.to_string();
    let margin = " ".repeat(if found.snippet.is_some() { number.len() } else { 1 });
    let _ = write!(out, "\n{margin}{} {}", "-->".blue(), found.location());
    if let Some(snippet) = &found.snippet {
        let bar = "|".blue().to_string();
        let mark = format!("{}{}", " ".repeat(snippet.start), "^".repeat(snippet.width));
        let _ = write!(out, "\n{} {bar} {}", number.blue(), snippet.text);
        let _ = write!(out, "\n{margin} {bar} {}", mark.red());
    }
    if !found.key.is_empty() {
        let _ = write!(out, "\n{margin} {} key: `{}`", "=".blue(), found.key);
    }
    if let Some(expected) = &found.expected {
        let _ = write!(out, "\n{margin} {} expected: {expected}", "=".blue());
    }
    if let Some(with) = &found.with {
        let _ = write!(out, "\n{margin} {} with: {with}", "=".blue());
    }
    if let Some(hint) = &found.hint {
        let _ = write!(out, "\n{} {hint}", "hint:".cyan().bold());
    }
    out
}
