//! The only place that writes to the terminal; colour goes away by itself where it is not wanted.

use std::fmt::Display;
use std::io::{Stderr, Stdout, Write as _};

use anstream::AutoStream;
use owo_colors::OwoColorize as _;

use crate::error::CliError;

/// Writes results to stdout and errors to stderr.
///
/// What it can't write it leaves unwritten: a reader that went away is no reason to stop the work.
pub(crate) struct Printer {
    out: AutoStream<Stdout>,
    err: AutoStream<Stderr>,
}

impl Printer {
    /// Colours as the terminal, `NO_COLOR` and `CLICOLOR` have it.
    pub(crate) fn for_terminal() -> Self {
        Self { out: anstream::stdout(), err: anstream::stderr() }
    }

    /// One line of output, there at once also through a pipe.
    pub(crate) fn line(&mut self, line: impl Display) {
        let _ = writeln!(self.out, "{line}");
        let _ = self.out.flush();
    }

    /// A piece of output, there at once.
    pub(crate) fn text(&mut self, text: &str) {
        let _ = self.out.write_all(text.as_bytes());
        let _ = self.out.flush();
    }

    /// Bytes as they are, whatever they would do to a terminal; there at once.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        let mut out = std::io::stdout().lock();
        let _ = out.write_all(bytes).and_then(|()| out.flush());
    }

    /// Whether somebody reads the output, rather than a program.
    pub(crate) fn is_terminal(&self) -> bool {
        self.out.is_terminal()
    }

    /// A remark beside the output.
    pub(crate) fn note(&mut self, note: impl Display) {
        let _ = writeln!(self.err, "{}", note.dimmed());
    }

    /// An error with its causes and the ways out.
    pub(crate) fn error(&mut self, error: &CliError) {
        let _ = writeln!(self.err, "{} {}", "error:".red().bold(), error.message());
        for cause in error.causes() {
            let _ = writeln!(self.err, "  {} {cause}", "caused by:".red());
        }
        for hint in error.hints() {
            let _ = writeln!(self.err, "{} {hint}", "hint:".cyan().bold());
        }
    }
}

/// A count with its noun.
pub(crate) fn plural(count: u64, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        count => format!("{count} {noun}s"),
    }
}
