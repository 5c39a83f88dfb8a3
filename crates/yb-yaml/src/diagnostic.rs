//! What is wrong or doubtful in a file that a person wrote: where, what was expected, and the way out.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::{Layer, Span};

/// More findings than this about one file help nobody.
const MAX_FINDINGS: usize = 200;
/// How much of a long line is shown.
const SHOWN_CHARS: usize = 100;
/// The farthest that a name may be from the one that was meant.
const NEAR: f64 = 0.7;

/// Whether a finding stops the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Something to look at.
    Warning,
    /// Nothing is started.
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

/// One thing that is wrong or doubtful in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Whether it stops the work.
    pub severity: Severity,
    /// The file.
    pub file: PathBuf,
    /// The line, from 1; 0 when it is about the whole file.
    pub line: usize,
    /// The column in characters, from 1; 0 when it is about the whole file.
    pub column: usize,
    /// The path of the key, such as `evaluators[0].config.threshold`; empty at the top.
    pub key: String,
    /// What is wrong: a fragment in lower case, with the value last.
    pub message: String,
    /// What belongs there.
    pub expected: Option<String>,
    /// What it arises with alone, such as one variant of a suite and its place.
    pub with: Option<String>,
    /// The way out.
    pub hint: Option<String>,
    /// The line of the file.
    pub snippet: Option<Snippet>,
}

/// A line of a file with the part that a finding is about, safe to show on a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snippet {
    /// The line, or the part of a long one around the mark.
    pub text: String,
    /// Where the mark begins, in characters from 0.
    pub start: usize,
    /// How long the mark is, in characters, at least 1.
    pub width: usize,
}

impl Diagnostic {
    /// Whether it stops the work.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// The place as `file:line:column`, which editors and terminals can open.
    #[must_use]
    pub fn place(&self) -> String {
        let file = self.file.display();
        if self.line == 0 { file.to_string() } else { format!("{file}:{}:{}", self.line, self.column) }
    }

    pub fn expected(&mut self, expected: impl Into<String>) -> &mut Self {
        self.expected = Some(expected.into());
        self
    }

    pub fn hint(&mut self, hint: impl Into<String>) -> &mut Self {
        self.hint = Some(hint.into());
        self
    }

    /// Names the nearest known name, if one is near.
    pub fn did_you_mean<'a>(&mut self, name: &str, known: impl IntoIterator<Item = &'a str>) -> &mut Self {
        match nearest(name, known) {
            Some(near) => self.hint(format!("did you mean `{near}`?")),
            None => self,
        }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}: {}", self.place(), self.severity, self.message)?;
        if let Some(expected) = &self.expected {
            write!(formatter, "; expected {expected}")?;
        }
        if let Some(with) = &self.with {
            write!(formatter, "; with {with}")?;
        }
        Ok(())
    }
}

/// Collects what is found in one file.
#[derive(Debug)]
pub struct Findings<'a> {
    own: Part<'a>,
    /// The file that is laid over it, where there is one.
    over: Option<Part<'a>>,
    found: Vec<Diagnostic>,
    overflow: Diagnostic,
}

/// A file, and the key in it below which everything is.
#[derive(Debug)]
struct Part<'a> {
    file: &'a Path,
    text: &'a str,
    key: String,
}

impl<'a> Findings<'a> {
    pub fn new(file: &'a Path, text: &'a str) -> Self {
        let overflow = blank(Severity::Warning, file);
        let own = Part { file, text, key: String::new() };
        Self { own, over: None, found: Vec::new(), overflow }
    }

    /// The same for what is below a key of the file.
    pub fn below(mut self, key: impl Into<String>) -> Self {
        self.own.key = key.into();
        self
    }

    /// The same, with what is below a key of another file laid over it: as its agent.
    pub fn under(mut self, file: &'a Path, text: &'a str, key: impl Into<String>) -> Self {
        self.over = Some(Part { file, text, key: key.into() });
        self
    }

    pub fn error(&mut self, at: Span, key: impl Into<String>, message: impl Into<String>) -> &mut Diagnostic {
        self.add(Severity::Error, at, key.into(), message.into())
    }

    pub fn warning(
        &mut self,
        at: Span,
        key: impl Into<String>,
        message: impl Into<String>,
    ) -> &mut Diagnostic {
        self.add(Severity::Warning, at, key.into(), message.into())
    }

    pub fn add(&mut self, severity: Severity, at: Span, key: String, message: String) -> &mut Diagnostic {
        let errors_only = self.found.len() >= MAX_FINDINGS;
        if errors_only && (severity == Severity::Warning || self.has_errors()) {
            return &mut self.overflow;
        }
        let (part, key) = match (&self.over, at.layer) {
            (Some(over), Layer::Over) => {
                let key = key.strip_prefix("agent").map(|rest| rest.trim_start_matches('.').to_owned());
                (over, key.unwrap_or_default())
            }
            _ => (&self.own, key),
        };
        let key = if key.is_empty() || part.key.is_empty() {
            format!("{}{key}", part.key)
        } else {
            format!("{}.{key}", part.key)
        };
        let snippet = snippet(part.text, at);
        let found = Diagnostic {
            line: at.line,
            column: at.column,
            key,
            message,
            snippet,
            ..blank(severity, part.file)
        };
        self.found.push(found);
        let last = self.found.len() - 1;
        &mut self.found[last]
    }

    pub fn has_errors(&self) -> bool {
        self.found.iter().any(Diagnostic::is_error)
    }

    /// What was found, in the order of the file.
    pub fn into_vec(mut self) -> Vec<Diagnostic> {
        self.found.sort_by_key(|found| (found.line, found.column));
        self.found
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
    let line = text.lines().nth(at.line.checked_sub(1)?)?;
    let start = at.column.checked_sub(1)?;
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

/// One column for each character, and nothing that a terminal obeys.
fn visible(letter: char) -> char {
    match letter {
        '\t' => ' ',
        letter if letter.is_control() || is_invisible(letter) => '\u{fffd}',
        letter => letter,
    }
}

/// Marks that reorder or hide text.
fn is_invisible(letter: char) -> bool {
    matches!(letter, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// A value as a message shows it: its first words, in backticks.
pub fn quoted(text: &str) -> String {
    const KEPT: usize = 60;
    let line: String = text.trim().chars().take(KEPT).map(visible).collect();
    let more = if text.trim().chars().nth(KEPT).is_some() { "…" } else { "" };
    format!("`{}{more}`", line.trim_end())
}

/// The known name that was probably meant.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |text: &str| text.to_lowercase().replace(['-', ' '], "_");
    let name = plain(name);
    // Comparing costs the product of both lengths.
    if name.chars().nth(100).is_some() {
        return None;
    }
    let scored = known.into_iter().map(|known| (strsim::jaro_winkler(&name, &plain(known)), known));
    let close = scored.filter(|(score, known)| {
        let longer = name.chars().count().max(known.chars().count()).max(1);
        let edits = strsim::osa_distance(&name, &plain(known));
        let begins = name.len() > 3 && plain(known).starts_with(&name);
        *score >= NEAR && (begins || edits * 5 <= longer * 2)
    });
    close.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::{nearest, quoted, snippet};
    use crate::Span;

    #[test]
    fn the_nearest_name_is_a_small_slip_away() {
        let known = ["assertions", "base_commit", "prompt", "prompt_file"];
        assert_eq!(nearest("asertions", known), Some("assertions"));
        assert_eq!(nearest("promptFile", known), Some("prompt_file"));
        assert_eq!(nearest("prompt-file", known), Some("prompt_file"));
        assert_eq!(nearest("base", known), Some("base_commit"));
        assert_eq!(nearest("zebra", known), None);
        assert_eq!(nearest(&"p".repeat(100_000), known), None);
    }

    #[test]
    fn a_snippet_shows_one_harmless_line_with_its_mark() {
        let shown = snippet("a: 1\nb:\t\u{1b}[31m\n", Span::new(2, 4, 2)).unwrap();
        assert_eq!((shown.text.as_str(), shown.start, shown.width), ("b: \u{fffd}[31m", 3, 2));
        let long = format!("k: {}X{}", "x".repeat(500), "y".repeat(500));
        let shown = snippet(&long, Span::new(1, 504, 1)).unwrap();
        assert_eq!(shown.text.chars().nth(shown.start), Some('X'));
        assert_eq!(snippet("a", Span::WHOLE), None);
    }

    #[test]
    fn a_long_value_is_cut() {
        assert_eq!(quoted("a\nb"), "`a\u{fffd}b`");
        assert!(quoted(&"x".repeat(99)).ends_with("x…`"));
    }
}
