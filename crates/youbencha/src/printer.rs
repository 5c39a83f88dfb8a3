//! The only module that writes to the terminal. Color is disabled where it is not supported.

mod area;

use std::fmt::Display;
use std::io::{Stderr, Stdout, Write as _};

use anstream::AutoStream;
use owo_colors::OwoColorize as _;

use crate::error::CliError;
use area::StatusArea;
pub(crate) use area::fit;

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
    pub(crate) fn line(&mut self, line: impl Display) {
        self.erase();
        let _ = writeln!(self.out, "{line}");
        let _ = self.out.flush();
        self.draw();
    }

    /// Prints text to stdout and flushes it.
    pub(crate) fn text(&mut self, text: &str) {
        self.erase();
        let _ = self.out.write_all(text.as_bytes());
        let _ = self.out.flush();
        self.draw();
    }

    /// Writes raw bytes to stdout, without filtering escape codes, and flushes them.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.erase();
        let mut out = std::io::stdout().lock();
        let _ = out.write_all(bytes).and_then(|()| out.flush());
        drop(out);
        self.draw();
    }

    /// Returns whether stdout is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.out.is_terminal()
    }

    /// Prints a note to stderr.
    pub(crate) fn note(&mut self, note: impl Display) {
        self.write_stderr(&format!("{}\n", note.dimmed()));
    }

    /// Writes to stderr in one call, because several programs may share a terminal or a log.
    fn write_stderr(&mut self, text: &str) {
        self.erase();
        let _ = self.err.write_all(text.as_bytes());
        self.draw();
    }

    /// Prints an error with its causes and hints.
    pub(crate) fn error(&mut self, error: &CliError) {
        let mut text = format!("{} {}\n", "error:".red().bold(), error.message());
        for cause in error.causes() {
            text.push_str(&format!("  {} {cause}\n", "caused by:".red()));
        }
        for hint in error.hints() {
            text.push_str(&format!("{} {hint}\n", "hint:".cyan().bold()));
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
    pub(crate) fn set_status_lines(&mut self, lines: Vec<String>) {
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
