//! Errors and warnings in source files: position, expected value and hint.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::{SourceLayer, Span};

/// The maximum number of diagnostics for one file.
const MAX_DIAGNOSTICS: usize = 200;
/// The maximum length of a snippet.
const SHOWN_CHARS: usize = 100;
/// The minimum Jaro-Winkler similarity of a suggested name.
const MIN_SIMILARITY: f64 = 0.7;

/// The severity of a diagnostic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The file can be used.
    Warning,
    /// The file can't be used.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// An error or a warning about a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// The severity.
    pub severity: Severity,
    /// The file.
    pub file: PathBuf,
    /// The line, from 1; 0 means the whole file.
    pub line: usize,
    /// The column in characters, from 1; 0 means the whole file.
    pub column: usize,
    /// The key path, such as `evaluators[0].config.threshold`; empty for the whole document.
    pub key: String,
    /// The problem: a lower-case fragment with the value last.
    pub message: String,
    /// The expected value.
    pub expected: Option<String>,
    /// The only combination with the problem, such as one variant of a suite with its position.
    pub with: Option<String>,
    /// A hint for solving the problem.
    pub hint: Option<String>,
    /// The line with the problem.
    pub snippet: Option<Snippet>,
}

/// A line of a file with a marked range, without characters that a terminal would interpret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snippet {
    /// The line; a long one is cut around the marked range.
    pub text: String,
    /// The start of the marked range, in characters from 0.
    pub start: usize,
    /// The width of the marked range, in characters, at least 1.
    pub width: usize,
}

impl Diagnostic {
    /// Returns whether this is an error.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// Returns the position as `file:line:column`, which editors and terminals can open.
    #[must_use]
    pub fn location(&self) -> String {
        let file = self.file.display();
        if self.line == 0 { file.to_string() } else { format!("{file}:{}:{}", self.line, self.column) }
    }

    /// Sets the expected value.
    pub fn expected(&mut self, expected: impl Into<String>) -> &mut Self {
        self.expected = Some(expected.into());
        self
    }

    /// Sets the hint.
    pub fn hint(&mut self, hint: impl Into<String>) -> &mut Self {
        self.hint = Some(hint.into());
        self
    }

    /// Sets a hint with the most similar known name, if there is one.
    pub fn did_you_mean<'a>(&mut self, name: &str, known: impl IntoIterator<Item = &'a str>) -> &mut Self {
        match nearest(name, known) {
            Some(near) => self.hint(format!("did you mean `{near}`?")),
            None => self,
        }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}: {}", self.location(), self.severity, self.message)?;
        if let Some(expected) = &self.expected {
            write!(formatter, "; expected {expected}")?;
        }
        if let Some(with) = &self.with {
            write!(formatter, "; with {with}")?;
        }
        Ok(())
    }
}

/// Collects the diagnostics of one file, and of an overlay file if there is one.
#[derive(Debug)]
pub struct Diagnostics<'a> {
    base: SourceText<'a>,
    overlay: Option<SourceText<'a>>,
    diagnostics: Vec<Diagnostic>,
    /// Receives the changes to diagnostics over the limit.
    discarded: Diagnostic,
}

/// A file, with the key that contains the document.
#[derive(Debug)]
struct SourceText<'a> {
    file: &'a Path,
    text: &'a str,
    key_prefix: String,
}

impl<'a> Diagnostics<'a> {
    /// Creates an empty collection for a file with this text.
    #[must_use]
    pub fn new(file: &'a Path, text: &'a str) -> Self {
        let discarded = blank(Severity::Warning, file);
        let base = SourceText { file, text, key_prefix: String::new() };
        Self { base, overlay: None, diagnostics: Vec::new(), discarded }
    }

    /// Sets the key of the file that contains the document.
    #[must_use]
    pub fn with_key_prefix(mut self, key: impl Into<String>) -> Self {
        self.base.key_prefix = key.into();
        self
    }

    /// Sets the overlay file, and its key that overrides `agent`.
    #[must_use]
    pub fn with_overlay(mut self, file: &'a Path, text: &'a str, key: impl Into<String>) -> Self {
        self.overlay = Some(SourceText { file, text, key_prefix: key.into() });
        self
    }

    /// Adds an error.
    pub fn error(&mut self, at: Span, key: impl Into<String>, message: impl Into<String>) -> &mut Diagnostic {
        self.add(Severity::Error, at, key.into(), message.into())
    }

    /// Adds a warning.
    pub fn warning(
        &mut self,
        at: Span,
        key: impl Into<String>,
        message: impl Into<String>,
    ) -> &mut Diagnostic {
        self.add(Severity::Warning, at, key.into(), message.into())
    }

    /// Adds a diagnostic. Over the limit, only the first error is kept.
    pub fn add(&mut self, severity: Severity, at: Span, key: String, message: String) -> &mut Diagnostic {
        let errors_only = self.diagnostics.len() >= MAX_DIAGNOSTICS;
        if errors_only && (severity == Severity::Warning || self.has_errors()) {
            return &mut self.discarded;
        }
        let (source, key) = match (&self.overlay, at.layer) {
            (Some(overlay), SourceLayer::Overlay) => {
                let below = match key.strip_prefix("agent") {
                    Some("") => Some(""),
                    Some(rest) => rest.strip_prefix('.'),
                    None => None,
                };
                (overlay, below.map(str::to_owned).unwrap_or(key))
            }
            _ => (&self.base, key),
        };
        let key = if key.is_empty() || source.key_prefix.is_empty() {
            format!("{}{key}", source.key_prefix)
        } else {
            format!("{}.{key}", source.key_prefix)
        };
        let snippet = snippet(source.text, at);
        let diagnostic = Diagnostic {
            line: at.line,
            column: at.column,
            key,
            message,
            snippet,
            ..blank(severity, source.file)
        };
        self.diagnostics.push(diagnostic);
        let last = self.diagnostics.len() - 1;
        &mut self.diagnostics[last]
    }

    /// Returns whether there is an error.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }

    /// Returns the diagnostics in file order.
    #[must_use]
    pub fn into_vec(mut self) -> Vec<Diagnostic> {
        self.diagnostics.sort_by_key(|diagnostic| (diagnostic.line, diagnostic.column));
        self.diagnostics
    }
}

fn blank(severity: Severity, file: &Path) -> Diagnostic {
    Diagnostic {
        severity,
        file: file.to_owned(),
        line: 0,
        column: 0,
        key: String::new(),
        message: String::new(),
        expected: None,
        with: None,
        hint: None,
        snippet: None,
    }
}

fn snippet(text: &str, at: Span) -> Option<Snippet> {
    let line = lines(text).nth(at.line.checked_sub(1)?)?;
    let start = at.column.checked_sub(1)?;
    // The text of a file that is not UTF-8 is unknown.
    if text.is_empty() || start > line.chars().count() {
        return None;
    }
    let shown_from = if start > SHOWN_CHARS / 2 && line.chars().nth(SHOWN_CHARS).is_some() {
        start - SHOWN_CHARS / 2
    } else {
        0
    };
    let shown: String = line.chars().skip(shown_from).take(SHOWN_CHARS).map(visible).collect();
    let start = start - shown_from;
    let room = shown.trim_end().chars().count().saturating_sub(start);
    Some(Snippet { text: shown.trim_end().to_owned(), start, width: at.width.clamp(1, room.max(1)) })
}

/// Splits a text into lines as YAML does: a lone CR ends one, too.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.split('\n').flat_map(|line| line.strip_suffix('\r').unwrap_or(line).split('\r'))
}

/// Replaces characters that a terminal would interpret, keeping one column for each character.
fn visible(letter: char) -> char {
    match letter {
        '\t' | '\n' | '\r' => ' ',
        letter if letter.is_control() || is_invisible(letter) => '\u{fffd}',
        letter => letter,
    }
}

/// Returns whether a character reorders or hides text.
fn is_invisible(letter: char) -> bool {
    matches!(letter, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// Formats a value for a message: in backticks and truncated.
#[must_use]
pub fn quoted(text: &str) -> String {
    const KEPT: usize = 60;
    let line: String = text.trim().chars().take(KEPT).map(visible).collect();
    let more = if text.trim().chars().nth(KEPT).is_some() { "…" } else { "" };
    format!("`{}{more}`", line.trim_end())
}

/// Returns the most similar known name, if one is similar enough to be suggested.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |text: &str| text.to_lowercase().replace(['-', ' '], "_");
    let name = plain(name);
    // The time of a comparison is the product of both lengths.
    if name.chars().nth(100).is_some() {
        return None;
    }
    let scored = known.into_iter().map(|known| (strsim::jaro_winkler(&name, &plain(known)), known));
    let close = scored.filter(|(score, known)| {
        let longer = name.chars().count().max(known.chars().count()).max(1);
        let edits = strsim::osa_distance(&name, &plain(known));
        let begins = name.len() > 3 && plain(known).starts_with(&name);
        (*score >= MIN_SIMILARITY || edits == 1) && (begins || edits * 5 <= longer * 2)
    });
    close.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::{nearest, quoted, snippet};
    use crate::Span;

    #[test]
    fn nearest_suggests_only_similar_names() {
        let known = ["assertions", "base_commit", "prompt", "prompt_file"];
        assert_eq!(nearest("asertions", known), Some("assertions"));
        assert_eq!(nearest("promptFile", known), Some("prompt_file"));
        assert_eq!(nearest("prompt-file", known), Some("prompt_file"));
        assert_eq!(nearest("base", known), Some("base_commit"));
        assert_eq!(nearest("zebra", known), None);
        assert_eq!(nearest("sya", ["say", "tools"]), Some("say"));
        assert_eq!(nearest(&"p".repeat(100_000), known), None);
    }

    #[test]
    fn snippet_has_no_control_characters_and_keeps_its_mark() {
        let shown = snippet("a: 1\nb:\t\u{1b}[31m\n", Span::new(2, 4, 2)).unwrap();
        assert_eq!((shown.text.as_str(), shown.start, shown.width), ("b: \u{fffd}[31m", 3, 2));
        let long = format!("k: {}X{}", "x".repeat(500), "y".repeat(500));
        let shown = snippet(&long, Span::new(1, 504, 1)).unwrap();
        assert_eq!(shown.text.chars().nth(shown.start), Some('X'));
        assert_eq!(snippet("a", Span::WHOLE), None);
    }

    #[test]
    fn snippet_counts_lines_as_the_parser_does() {
        let text = "a: {\rb: 1\r\nc: 2\n";
        let shown = |line| snippet(text, Span::new(line, 1, 1)).map(|shown| shown.text);
        assert_eq!((snippet("", Span::new(1, 1, 1)), snippet("a", Span::new(1, 9, 1))), (None, None));
        assert_eq!([1, 2, 3].map(shown), ["a: {", "b: 1", "c: 2"].map(|line| Some(line.to_owned())));
    }

    #[test]
    fn quoted_truncates_long_values() {
        assert_eq!(quoted("a\nb\u{1b}"), "`a b\u{fffd}`");
        assert!(quoted(&"x".repeat(99)).ends_with("x…`"));
    }
}
