//! The only place that writes to the terminal; colour goes away by itself where it is not wanted.

mod area;

use std::fmt::Display;
use std::io::{Stderr, Stdout, Write as _};

use anstream::AutoStream;
use owo_colors::OwoColorize as _;

use crate::error::CliError;
use area::Area;
pub(crate) use area::fit;

/// Writes results to stdout and errors to stderr.
///
/// What it can't write it leaves unwritten: a reader that went away is no reason to stop the work.
pub(crate) struct Printer {
    out: AutoStream<Stdout>,
    err: AutoStream<Stderr>,
    area: Area,
}

impl Printer {
    /// Colours as the terminal, `NO_COLOR` and `CLICOLOR` have it.
    pub(crate) fn for_terminal() -> Self {
        Self { out: anstream::stdout(), err: anstream::stderr(), area: Area::default() }
    }

    /// One line of output, there at once also through a pipe.
    pub(crate) fn line(&mut self, line: impl Display) {
        self.erase();
        let _ = writeln!(self.out, "{line}");
        let _ = self.out.flush();
        self.draw();
    }

    /// A piece of output, there at once.
    pub(crate) fn text(&mut self, text: &str) {
        self.erase();
        let _ = self.out.write_all(text.as_bytes());
        let _ = self.out.flush();
        self.draw();
    }

    /// Bytes as they are, whatever they would do to a terminal; there at once.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.erase();
        let mut out = std::io::stdout().lock();
        let _ = out.write_all(bytes).and_then(|()| out.flush());
        drop(out);
        self.draw();
    }

    /// Whether somebody reads the output, rather than a program.
    pub(crate) fn is_terminal(&self) -> bool {
        self.out.is_terminal()
    }

    /// A remark beside the output.
    pub(crate) fn note(&mut self, note: impl Display) {
        self.beside(&format!("{}\n", note.dimmed()));
    }

    /// Text beside the output, in one write: several programs may share a terminal or a log.
    fn beside(&mut self, text: &str) {
        self.erase();
        let _ = self.err.write_all(text.as_bytes());
        self.draw();
    }

    /// An error with its causes and the ways out.
    pub(crate) fn error(&mut self, error: &CliError) {
        let mut text = format!("{} {}\n", "error:".red().bold(), error.message());
        for cause in error.causes() {
            text.push_str(&format!("  {} {cause}\n", "caused by:".red()));
        }
        for hint in error.hints() {
            text.push_str(&format!("{} {hint}\n", "hint:".cyan().bold()));
        }
        self.beside(&text);
    }

    /// Whether lines can be drawn over: stderr is a terminal that can, and nobody said that it is a log.
    pub(crate) fn can_redraw(&self) -> bool {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let capable = match set("TERM") {
            Some(term) => term != "dumb",
            None => cfg!(windows),
        };
        // Only a stream with colours has told a Windows console to take codes.
        self.err.is_terminal() && capable && set("CI").is_none() && (cfg!(unix) || self.colours())
    }

    /// The columns and rows of the terminal that remarks go to.
    pub(crate) fn size(&self) -> (usize, usize) {
        area::size()
    }

    /// Keeps these lines at the bottom of the terminal, below whatever is printed, until there are others.
    pub(crate) fn keep_below(&mut self, lines: Vec<String>) {
        self.area.set(lines);
        self.draw();
    }

    /// Leaves the terminal as if there had never been lines at its bottom.
    pub(crate) fn nothing_below(&mut self) {
        self.erase();
        self.area.set(Vec::new());
    }

    fn colours(&self) -> bool {
        self.err.current_choice() != anstream::ColorChoice::Never
    }

    fn erase(&mut self) {
        self.area.erase();
    }

    fn draw(&mut self) {
        let colours = self.colours();
        self.area.draw(colours);
    }
}

impl Drop for Printer {
    fn drop(&mut self) {
        self.nothing_below();
    }
}

/// A count with its noun.
pub(crate) fn plural(count: u64, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        count => format!("{count} {noun}s"),
    }
}
