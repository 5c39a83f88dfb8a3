//! Text for the terminal, by type: the printer takes nothing else, and there is no way to put an escape code into it. Text is
//! made visible when it is added; color is a [`Style`], never a part of the text.

use std::fmt::Display;

use yb_figures::{char_width, visible, visible_line, width};

/// Begins each line of a text but the first, so that a line break in foreign text never begins a line of our own.
const CONTINUATION: &str = "  │ ";

/// A color or weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
    Blue,
    Cyan,
    BoldRed,
    BoldYellow,
    BoldCyan,
}

impl Style {
    /// Returns the parameters of the escape code (SGR).
    fn code(self) -> Option<&'static str> {
        Some(match self {
            Self::Plain => return None,
            Self::Bold => "1",
            Self::Dim => "2",
            Self::Red => "31",
            Self::Green => "32",
            Self::Yellow => "33",
            Self::Blue => "34",
            Self::Cyan => "36",
            Self::BoldRed => "1;31",
            Self::BoldYellow => "1;33",
            Self::BoldCyan => "1;36",
        })
    }
}

/// Text without control or invisible characters, in pieces of one style each.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct StyledText {
    pieces: Vec<(Style, String)>,
}

/// Any text is a line. A line break before its first character leaves a line blank; lines after others are marked as
/// continuations.
impl<T: Display> From<T> for StyledText {
    fn from(line: T) -> Self {
        Self::new().text(line)
    }
}

impl StyledText {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Appends text in the default color.
    pub(crate) fn text(self, text: impl Display) -> Self {
        self.styled(Style::Plain, text)
    }

    /// Appends text in a style.
    pub(crate) fn styled(mut self, style: Style, text: impl Display) -> Self {
        let text = text.to_string();
        let (blank, text) = match text.strip_prefix('\n') {
            Some(rest) if self.pieces.is_empty() => ("\n", rest),
            _ => ("", text.as_str()),
        };
        let text = text.trim_end_matches('\n').split('\n').map(visible_line).collect::<Vec<_>>();
        self.pieces.push((style, format!("{blank}{}", text.join(&format!("\n{CONTINUATION}")))));
        self
    }

    /// Appends another text.
    pub(crate) fn join(mut self, other: &Self) -> Self {
        self.pieces.extend(other.pieces.iter().cloned());
        self
    }

    /// Begins a new line of our own.
    pub(crate) fn newline(mut self) -> Self {
        self.pieces.push((Style::Plain, "\n".to_owned()));
        self
    }

    /// Appends a block of lines that needs no mark, because it stands for itself: a table, a script, an answer.
    pub(crate) fn block(mut self, text: &str) -> Self {
        self.pieces.push((Style::Plain, visible(text).into_owned()));
        self
    }

    /// Gives a text without a style this one.
    pub(super) fn or_style(mut self, style: Style) -> Self {
        if self.pieces.iter().all(|(style, _)| *style == Style::Plain) {
            self.pieces.iter_mut().for_each(|(piece, _)| *piece = style);
        }
        self
    }

    /// Returns the display width of the text, which must be one line.
    pub(super) fn width(&self) -> usize {
        self.pieces.iter().map(|(_, text)| width(text)).sum()
    }

    /// Truncates the text to a display width; line breaks become spaces.
    pub(super) fn fit(&self, columns: usize) -> Self {
        let plain: String = self.pieces.iter().map(|(_, text)| text.replace(['\n', '\t'], " ")).collect();
        let line = fit(&plain, columns);
        let mut rest = line.chars();
        let mut fitted = Self::new();
        for (style, text) in &self.pieces {
            fitted.pieces.push((*style, rest.by_ref().take(text.chars().count()).collect()));
        }
        fitted
    }

    /// Renders the text with escape codes for color, or without any.
    pub(crate) fn render(&self, color: bool) -> String {
        let mut out = String::new();
        for (style, text) in &self.pieces {
            match style.code().filter(|_| color && !text.is_empty()) {
                Some(code) => out.push_str(&format!("\u{1b}[{code}m{text}\u{1b}[0m")),
                None => out.push_str(text),
            }
        }
        out
    }
}

/// Truncates a line to a display width.
pub(crate) fn fit(line: &str, columns: usize) -> String {
    if width(line) <= columns {
        return line.to_owned();
    }
    let mut out = String::with_capacity(line.len());
    let mut used = 0;
    for c in line.chars() {
        if used + char_width(c) >= columns {
            break;
        }
        used += char_width(c);
        out.push(c);
    }
    out.extend((columns > 0).then_some('…'));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_has_no_effect_in_any_style() {
        let text = StyledText::new().text("a\u{1b}[2J").styled(Style::Red, "b\r\u{9b}1mc").text("\u{202e}");
        assert_eq!(text.render(false), r"a\u{1b}[2Jb\r\u{9b}1mc\u{202e}");
        assert_eq!(text.render(true), "a\\u{1b}[2J\u{1b}[31mb\\r\\u{9b}1mc\u{1b}[0m\\u{202e}");
    }

    #[test]
    fn line_breaks_never_begin_a_line_of_our_own() {
        assert_eq!(StyledText::from("name\npassed\n").render(false), "name\n  │ passed");
        assert_eq!(StyledText::from("\nname").render(false), "\nname");
        assert_eq!(StyledText::new().text("a: ").text("\npassed").render(false), "a: \n  │ passed");
        assert_eq!(StyledText::new().text("a").newline().text("b").render(false), "a\nb");
    }

    #[test]
    fn fit_truncates_by_display_width() {
        for (line, columns, expected) in [
            ("short", 5, "short"),
            ("longer", 5, "long…"),
            ("日本語", 5, "日本…"),
            ("日本語", 4, "日…"),
            ("x", 0, ""),
        ] {
            assert_eq!(fit(line, columns), expected);
            assert_eq!(StyledText::from(line).fit(columns).render(false), expected);
        }
        let colored = StyledText::new().styled(Style::Red, "long").text("er");
        assert_eq!(colored.fit(4).render(true), "\u{1b}[31mlon…\u{1b}[0m");
        assert_eq!(colored.fit(5).render(false), "long…");
    }
}
