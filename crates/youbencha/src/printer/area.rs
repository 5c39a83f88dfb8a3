//! Status lines at the bottom of a terminal. The cursor stays on the line below them and is never hidden, so that the terminal
//! stays usable however the program ends.

use std::io::Write as _;

use yb_figures::{char_width, width};

/// The assumed size of a terminal that does not report its own.
const DEFAULT_SIZE: (usize, usize) = (80, 24);

/// Status lines of the terminal behind stderr.
#[derive(Default)]
pub(super) struct StatusArea {
    lines: Vec<String>,
    /// The widths of the lines on the screen.
    drawn: Vec<usize>,
}

impl StatusArea {
    pub(super) fn set(&mut self, lines: Vec<String>) {
        self.lines = lines;
    }

    pub(super) fn erase(&mut self) {
        if self.drawn.is_empty() {
            return;
        }
        let code = self.erasure(size().0);
        write(&code);
        self.drawn.clear();
    }

    /// Draws in one write, to avoid flicker.
    pub(super) fn draw(&mut self, color: bool) {
        if self.drawn.is_empty() && self.lines.is_empty() {
            return;
        }
        let (columns, rows) = size();
        let mut text = self.erasure(columns);
        self.drawn.clear();
        // A background job must not draw over the foreground job.
        if !self.lines.is_empty() && in_foreground() {
            for line in self.lines.iter().take(rows.saturating_sub(1)) {
                let line = fit(line, columns.saturating_sub(1));
                let plain = anstream::adapter::strip_str(&line).to_string();
                self.drawn.push(width(&plain));
                text.push_str(if color { &line } else { &plain });
                text.push('\n');
            }
        }
        write(&text);
    }

    /// Returns the escape code that clears the lines. A terminal that became narrower has wrapped them.
    fn erasure(&self, columns: usize) -> String {
        let rows: usize = self.drawn.iter().map(|width| width.div_ceil(columns.max(1)).max(1)).sum();
        if rows == 0 { String::new() } else { format!("\r\u{1b}[{rows}A\u{1b}[J") }
    }
}

fn write(text: &str) {
    if !text.is_empty() {
        let mut err = std::io::stderr().lock();
        let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
    }
}

/// Returns columns and rows.
pub(super) fn size() -> (usize, usize) {
    match terminal_size::terminal_size_of(std::io::stderr()) {
        Some((columns, rows)) if columns.0 > 0 && rows.0 > 0 => (columns.0.into(), rows.0.into()),
        _ => DEFAULT_SIZE,
    }
}

fn in_foreground() -> bool {
    #[cfg(unix)]
    {
        rustix::termios::tcgetpgrp(std::io::stderr()).is_ok_and(|group| group == rustix::process::getpgrp())
    }
    #[cfg(not(unix))]
    {
        true
    }
}

/// Truncates a line to a display width; escape codes take no columns.
pub(crate) fn fit(line: &str, columns: usize) -> String {
    let plain = anstream::adapter::strip_str(line).to_string();
    if width(&plain) <= columns {
        return line.to_owned();
    }
    let mut out = String::with_capacity(line.len());
    let (mut used, mut full, mut in_code) = (0, false, false);
    for c in line.chars() {
        if in_code || c == '\u{1b}' {
            out.push(c);
            in_code = !(in_code && c.is_ascii_alphabetic());
            continue;
        }
        if !full && used + char_width(c) < columns {
            used += char_width(c);
            out.push(c);
        } else if !full {
            full = true;
            out.extend((columns > 0).then_some('…'));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fit_truncates_by_display_width_and_keeps_escape_codes() {
        assert_eq!(fit("short", 5), "short");
        assert_eq!(fit("longer", 5), "long…");
        assert_eq!(fit("\u{1b}[31mlonger\u{1b}[0m", 4), "\u{1b}[31mlon…\u{1b}[0m");
        assert_eq!(fit("日本語", 5), "日本…");
        assert_eq!(fit("日本語", 4), "日…");
        assert_eq!(fit("x", 0), "");
    }

    #[test]
    fn erasure_includes_wrapped_lines() {
        let area = StatusArea { lines: Vec::new(), drawn: vec![79, 10, 0] };
        assert_eq!(area.erasure(80), "\r\u{1b}[3A\u{1b}[J");
        assert_eq!(area.erasure(40), "\r\u{1b}[4A\u{1b}[J");
        assert_eq!(StatusArea::default().erasure(80), "");
    }
}
