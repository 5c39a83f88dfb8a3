//! The only module that writes to the terminal. It takes [`StyledText`], in which no foreign text has an effect; color is disabled
//! where it is not supported.

mod area;
mod json;
mod styled;

use std::io::{Stderr, Stdout, Write as _};

use anstream::AutoStream;

use crate::error::CliError;
use area::StatusArea;
pub(crate) use json::EscapedJson;
pub(crate) use styled::{Style, StyledText, fit};

/// Writes results to stdout and errors to stderr.
///
/// Write errors are ignored: a closed pipe is no reason to stop a run.
pub(crate) struct Printer {
    out: AutoStream<Stdout>,
    err: AutoStream<Stderr>,
    area: StatusArea,
}

impl Printer {
    /// Creates a printer with color as set by the terminal, `NO_COLOR` and `CLICOLOR`.
    pub(crate) fn for_terminal() -> Self {
        Self { out: anstream::stdout(), err: anstream::stderr(), area: StatusArea::default() }
    }

    /// Prints a line to stdout and flushes it.
    pub(crate) fn line(&mut self, line: impl Into<StyledText>) {
        self.write_stdout(&format!("{}\n", line.into().render(true)));
    }

    /// Prints a block of lines to stdout, as it is but for hidden characters, and flushes it.
    pub(crate) fn text(&mut self, text: &str) {
        self.write_stdout(&StyledText::new().block(text).render(true));
    }

    /// Prints a value as one line of JSON, in which hidden characters are `\u` escapes.
    pub(crate) fn json(&mut self, value: &serde_json::Value) {
        self.write_stdout(&format!("{}\n", json::escaped(&value.to_string())));
    }

    /// Prints a value as indented JSON, in which hidden characters are `\u` escapes.
    pub(crate) fn pretty_json(&mut self, value: &serde_json::Value) {
        self.write_stdout(&format!("{}\n", json::escaped(&format!("{value:#}"))));
    }

    /// Prints help, which has styles of its own and no foreign text.
    pub(crate) fn help(&mut self, help: &clap::builder::StyledStr) {
        self.write_stdout(&help.ansi().to_string());
    }

    /// Writes bytes to stdout as they are. Only for documents with an escaping of their own, and for bytes that the user
    /// asked for with `--raw`.
    pub(crate) fn raw_bytes(&mut self, bytes: &[u8]) {
        self.erase();
        let mut out = std::io::stdout().lock();
        let _ = out.write_all(bytes).and_then(|()| out.flush());
        drop(out);
        self.draw();
    }

    /// Writes a document to stdout while it is rendered. Only for documents with an escaping of their own.
    pub(crate) fn raw_document(
        &mut self,
        render: impl FnOnce(&mut dyn std::io::Write) -> std::io::Result<()>,
    ) {
        self.erase();
        let mut out = std::io::stdout().lock();
        let _ = render(&mut out).and_then(|()| out.flush());
        drop(out);
        self.draw();
    }

    /// Returns whether stdout is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.out.is_terminal()
    }

    /// Prints a note to stderr.
    pub(crate) fn note(&mut self, note: impl Into<StyledText>) {
        let note = note.into().or_style(Style::Dim);
        self.write_stderr(&note.newline());
    }

    /// Prints the error of a command line. Its quotes of the arguments are foreign text.
    pub(crate) fn usage_error(&mut self, error: &clap::Error) {
        let text = error.render().to_string();
        let (label, text) = match text.strip_prefix("error:") {
            Some(rest) => ("error:", rest),
            None => ("", text.as_str()),
        };
        self.write_stderr(&StyledText::new().styled(Style::BoldRed, label).block(text));
    }

    fn write_stdout(&mut self, text: &str) {
        self.erase();
        let _ = self.out.write_all(text.as_bytes());
        let _ = self.out.flush();
        self.draw();
    }

    /// Writes to stderr in one call, because several programs may share a terminal or a log.
    fn write_stderr(&mut self, text: &StyledText) {
        self.erase();
        let _ = self.err.write_all(text.render(true).as_bytes());
        self.draw();
    }

    /// Prints an error with its causes and hints.
    pub(crate) fn error(&mut self, error: &CliError) {
        let mut text =
            StyledText::new().styled(Style::BoldRed, "error:").text(" ").text(error.message()).newline();
        for cause in error.causes() {
            text = text.text("  ").styled(Style::Red, "caused by:").text(" ").text(cause).newline();
        }
        for hint in error.hints() {
            text = text.styled(Style::BoldCyan, "hint:").text(" ").text(hint).newline();
        }
        self.write_stderr(&text);
    }

    /// Returns whether status lines can be redrawn: stderr is a capable terminal and this is not a CI job.
    pub(crate) fn can_redraw(&self) -> bool {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let capable = match set("TERM") {
            Some(term) => term != "dumb",
            None => cfg!(windows),
        };
        // On Windows, only a stream with color has enabled escape codes.
        self.err.is_terminal() && capable && set("CI").is_none() && (cfg!(unix) || self.has_color())
    }

    /// Returns columns and rows of the terminal behind stderr.
    pub(crate) fn size(&self) -> (usize, usize) {
        area::size()
    }

    /// Keeps status lines at the bottom of the terminal, below all output, until they are replaced.
    pub(crate) fn set_status_lines(&mut self, lines: Vec<StyledText>) {
        self.area.set(lines);
        self.draw();
    }

    /// Removes the status lines.
    pub(crate) fn clear_status_lines(&mut self) {
        self.erase();
        self.area.set(Vec::new());
    }

    fn has_color(&self) -> bool {
        self.err.current_choice() != anstream::ColorChoice::Never
    }

    fn erase(&mut self) {
        self.area.erase();
    }

    fn draw(&mut self) {
        let color = self.has_color();
        self.area.draw(color);
    }
}

impl Drop for Printer {
    fn drop(&mut self) {
        self.clear_status_lines();
    }
}
