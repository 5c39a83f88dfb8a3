//! Lines at the bottom of a terminal that are drawn over. The cursor stays on the line below them and is never hidden, so
//! that whatever ends the program leaves a terminal that can be used.

use std::io::Write as _;

use unicode_width::UnicodeWidthChar as _;

/// What a terminal has that does not tell.
const USUAL: (usize, usize) = (80, 24);

/// Lines at the bottom of the terminal behind stderr.
#[derive(Default)]
pub(super) struct Area {
    lines: Vec<String>,
    /// The widths of the lines that are on the screen now.
    drawn: Vec<usize>,
}

impl Area {
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

    /// In one write: a half-drawn screen would flicker.
    pub(super) fn draw(&mut self, colours: bool) {
        if self.drawn.is_empty() && self.lines.is_empty() {
            return;
        }
        let (columns, rows) = size();
        let mut text = self.erasure(columns);
        self.drawn.clear();
        // A program in the background would draw over what its user does now.
        if !self.lines.is_empty() && in_foreground() {
            for line in self.lines.iter().take(rows.saturating_sub(1)) {
                let line = fit(line, columns.saturating_sub(1));
                let plain = anstream::adapter::strip_str(&line).to_string();
                self.drawn.push(width(&plain));
                text.push_str(if colours { &line } else { &plain });
                text.push('\n');
            }
        }
        write(&text);
    }

    /// Goes up to where the lines began and clears all below. Terminals break long lines anew when they become narrower.
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

/// Columns and rows.
pub(super) fn size() -> (usize, usize) {
    match terminal_size::terminal_size_of(std::io::stderr()) {
        Some((columns, rows)) if columns.0 > 0 && rows.0 > 0 => (columns.0.into(), rows.0.into()),
        _ => USUAL,
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

fn width(plain: &str) -> usize {
    plain.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// The line in so many columns; codes for colours take none.
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
        if !full && used + c.width().unwrap_or(0) < columns {
            used += c.width().unwrap_or(0);
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
    fn a_line_is_cut_where_the_terminal_ends_and_colours_end_too() {
        assert_eq!(fit("short", 5), "short");
        assert_eq!(fit("longer", 5), "long…");
        assert_eq!(fit("\u{1b}[31mlonger\u{1b}[0m", 4), "\u{1b}[31mlon…\u{1b}[0m");
        assert_eq!(fit("日本語", 5), "日本…");
        assert_eq!(fit("日本語", 4), "日…");
        assert_eq!(fit("x", 0), "");
    }

    #[test]
    fn lines_that_a_narrower_terminal_broke_are_erased_too() {
        let area = Area { lines: Vec::new(), drawn: vec![79, 10, 0] };
        assert_eq!(area.erasure(80), "\r\u{1b}[3A\u{1b}[J");
        assert_eq!(area.erasure(40), "\r\u{1b}[4A\u{1b}[J");
        assert_eq!(Area::default().erasure(80), "");
    }
}
