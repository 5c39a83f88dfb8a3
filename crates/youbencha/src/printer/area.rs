//! Status lines at the bottom of a terminal. The cursor stays on the line below them and is never hidden, so that the terminal
//! stays usable however the program ends.

use std::io::Write as _;

use super::StyledText;

/// The assumed size of a terminal that does not report its own.
const DEFAULT_SIZE: (usize, usize) = (80, 24);

/// Status lines of the terminal behind stderr.
#[derive(Default)]
pub(super) struct StatusArea {
    lines: Vec<StyledText>,
    /// The widths of the lines on the screen.
    drawn: Vec<usize>,
}

impl StatusArea {
    pub(super) fn set(&mut self, lines: Vec<StyledText>) {
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
                let line = line.fit(columns.saturating_sub(1));
                self.drawn.push(line.width());
                text.push_str(&line.render(color));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erasure_includes_wrapped_lines() {
        let area = StatusArea { lines: Vec::new(), drawn: vec![79, 10, 0] };
        assert_eq!(area.erasure(80), "\r\u{1b}[3A\u{1b}[J");
        assert_eq!(area.erasure(40), "\r\u{1b}[4A\u{1b}[J");
        assert_eq!(StatusArea::default().erasure(80), "");
    }
}
