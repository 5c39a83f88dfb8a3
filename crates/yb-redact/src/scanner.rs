//! Finds secrets in one text that arrives in pieces. Two views of the text are searched at the same time: without
//! whitespace, and also without escapes and without the prefixes of lines.

use std::collections::VecDeque;

use crate::MIN_LENGTH;
use crate::automaton::{Automaton, ROOT};

/// The most bytes without meaning between two characters of a secret; bounds what a scanner holds back.
const MAX_GAP: u64 = 256;
/// The most bytes of one escape sequence, with the backslashes of nested ones.
const MAX_ESCAPE: u64 = 32;
/// Prefixes of lines in diffs, quotations and tables.
const LINE_PREFIXES: &[u8] = b"+->|#*";

/// The bytes of a text that one byte of a view stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Unit {
    from: u64,
    to: u64,
}

/// The bytes that may become a secret in one view.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Cursor {
    state: u32,
    /// As many as the state is deep.
    units: VecDeque<Unit>,
}

/// An escape sequence that has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Escape {
    #[default]
    None,
    Backslashes {
        from: u64,
    },
    /// `\uXXXX` or `\xXX`.
    Code {
        from: u64,
        missing: u8,
        value: u32,
    },
}

/// A secret in a text, or several that overlap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    /// The bytes to remove, in order; those between them have no meaning and stay.
    pub(crate) ranges: Vec<(u64, u64)>,
    pub(crate) pattern: u32,
    length: usize,
    /// Whether the replacement was emitted.
    pub(crate) is_marked: bool,
}

impl Group {
    pub(crate) fn from(&self) -> u64 {
        self.ranges.first().map_or(0, |range| range.0)
    }

    pub(crate) fn to(&self) -> u64 {
        self.ranges.last().map_or(0, |range| range.1)
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Scanner {
    /// The number of bytes scanned.
    pub(crate) position: u64,
    strict: Cursor,
    /// The view without escapes; `None` while it equals the strict one.
    loose: Option<Cursor>,
    /// The view without escapes in which a byte that looks like the prefix of a line is a part of the secret: `\n-` in a JSON
    /// string may be either. `None` without such a byte. Only with a loose view.
    literal: Option<Cursor>,
    escape: Escape,
    /// Whether only a line break has followed the last byte of the loose view.
    is_at_line_start: bool,
    /// Whether a secret, or a part of one that is worth replacing, was seen.
    pub(crate) is_touched: bool,
    /// What was found, in order and disjoint.
    pub(crate) groups: Vec<Group>,
}

impl Scanner {
    pub(crate) fn scan(&mut self, automaton: &Automaton, bytes: &[u8]) {
        let mut at = 0;
        while at < bytes.len() {
            if self.is_idle() {
                let skipped = automaton.next_beginning(&bytes[at..]);
                at += skipped;
                self.position += skipped as u64;
                if at == bytes.len() {
                    return;
                }
            }
            self.byte(automaton, bytes[at]);
            at += 1;
            self.position += 1;
        }
    }

    fn is_idle(&self) -> bool {
        self.strict.state == ROOT && self.loose.is_none() && self.escape == Escape::None
    }

    /// Takes the byte at `position`.
    fn byte(&mut self, automaton: &Automaton, byte: u8) {
        let here = Unit { from: self.position, to: self.position + 1 };
        let skips_prefix = self.is_at_line_start && LINE_PREFIXES.contains(&byte);
        if self.loose.is_none() && (byte == b'\\' || skips_prefix) {
            self.loose = Some(self.strict.clone());
        }
        if let Some(mut loose) = self.loose.take() {
            self.loose_byte(automaton, &mut loose, byte, skips_prefix);
            self.loose = Some(loose);
        } else if self.strict.state != ROOT {
            // Without a view of its own, the prefix of a line matters only inside a secret.
            self.is_at_line_start = byte == b'\n' || self.is_at_line_start && byte.is_ascii_whitespace();
        }
        if byte.is_ascii_whitespace() {
            self.strict.gap(here.from);
        } else {
            let mut strict = std::mem::take(&mut self.strict);
            self.feed(automaton, &mut strict, byte, here);
            self.strict = strict;
        }
        if self.literal.as_ref().is_some_and(|literal| literal.state == ROOT)
            || self.literal.is_some() && self.literal == self.loose
        {
            self.literal = None;
        }
        if self.escape == Escape::None && self.literal.is_none() && self.loose.as_ref() == Some(&self.strict)
        {
            self.loose = None;
        }
        if self.strict.state == ROOT && self.loose.is_none() {
            self.is_at_line_start = false;
        }
    }

    fn loose_byte(&mut self, automaton: &Automaton, cursor: &mut Cursor, byte: u8, skips_prefix: bool) {
        let at = self.position;
        let to = at + 1;
        match self.escape {
            Escape::None if byte == b'\\' => self.escape = Escape::Backslashes { from: at },
            Escape::None if byte.is_ascii_whitespace() => {
                self.is_at_line_start |= byte == b'\n';
                self.gap(cursor, at);
            }
            Escape::None if skips_prefix => {
                self.is_at_line_start = false;
                let mut literal = self.literal.take().unwrap_or_else(|| cursor.clone());
                self.feed(automaton, &mut literal, byte, Unit { from: at, to });
                self.literal = Some(literal);
            }
            Escape::None => self.feed_loose(automaton, cursor, &[byte], Unit { from: at, to }),
            Escape::Backslashes { from } => {
                self.escape = Escape::None;
                match byte {
                    b'\\' if to - from < MAX_ESCAPE => self.escape = Escape::Backslashes { from },
                    b'n' | b'r' | b't' | b'b' | b'f' => {
                        self.is_at_line_start |= byte == b'n';
                        self.gap(cursor, at);
                    }
                    b'u' => self.escape = Escape::Code { from, missing: 4, value: 0 },
                    b'x' => self.escape = Escape::Code { from, missing: 2, value: 0 },
                    byte if byte.is_ascii_whitespace() => self.gap(cursor, at),
                    byte => self.feed_loose(automaton, cursor, &[byte], Unit { from, to }),
                }
            }
            Escape::Code { from, missing, value } => {
                self.escape = Escape::None;
                match char::from(byte).to_digit(16) {
                    Some(digit) if missing > 1 => {
                        self.escape = Escape::Code { from, missing: missing - 1, value: value << 4 | digit };
                    }
                    Some(digit) => {
                        let decoded =
                            char::from_u32(value << 4 | digit).unwrap_or(char::REPLACEMENT_CHARACTER);
                        // Backslashes are dropped in this view.
                        if decoded.is_ascii_whitespace() || decoded == '\\' {
                            self.is_at_line_start |= decoded == '\n';
                            self.gap(cursor, at);
                        } else {
                            let text = decoded.encode_utf8(&mut [0; 4]).to_owned();
                            self.feed_loose(automaton, cursor, text.as_bytes(), Unit { from, to });
                        }
                    }
                    None => self.feed_loose(automaton, cursor, &[byte], Unit { from: at, to }),
                }
            }
        }
    }

    fn feed_loose(&mut self, automaton: &Automaton, cursor: &mut Cursor, bytes: &[u8], unit: Unit) {
        self.is_at_line_start = false;
        for byte in bytes {
            self.feed(automaton, cursor, *byte, unit);
        }
        if let Some(mut literal) = self.literal.take() {
            for byte in bytes {
                self.feed(automaton, &mut literal, *byte, unit);
            }
            self.literal = Some(literal);
        }
    }

    /// A gap in the views without escapes.
    fn gap(&mut self, loose: &mut Cursor, at: u64) {
        loose.gap(at);
        if let Some(literal) = &mut self.literal {
            literal.gap(at);
        }
    }

    fn feed(&mut self, automaton: &Automaton, cursor: &mut Cursor, byte: u8, unit: Unit) {
        let state = automaton.step(cursor.state, byte);
        if state == ROOT {
            cursor.reset();
            return;
        }
        cursor.units.push_back(unit);
        cursor.trim(automaton.depth(state));
        if let Some((length, pattern)) = automaton.found(state) {
            let units = cursor.units.iter().skip(cursor.units.len() - length);
            self.add(units, length, pattern);
        }
        cursor.state = automaton.open_state(state);
        cursor.trim(automaton.depth(cursor.state));
        self.is_touched |= cursor.units.len() >= MIN_LENGTH;
    }

    /// Adds what was found, merged with what it overlaps.
    fn add<'u>(&mut self, units: impl Iterator<Item = &'u Unit>, length: usize, pattern: u32) {
        self.is_touched = true;
        let mut ranges: Vec<(u64, u64)> = units.map(|unit| (unit.from, unit.to)).collect();
        let mut group = Group { ranges: Vec::new(), pattern, length, is_marked: false };
        let from = ranges.first().map_or(0, |range| range.0);
        while let Some(last) = self.groups.pop_if(|last| last.to() > from) {
            if last.length >= group.length {
                (group.pattern, group.length) = (last.pattern, last.length);
            }
            group.is_marked |= last.is_marked;
            ranges.extend(last.ranges);
        }
        ranges.sort_unstable();
        for (from, to) in ranges {
            match group.ranges.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => group.ranges.push((from, to)),
            }
        }
        self.groups.push(group);
    }

    /// Returns the position from which on later bytes can change what is found.
    pub(crate) fn open_from(&self) -> u64 {
        let escape = match self.escape {
            Escape::None => self.position,
            Escape::Backslashes { from } | Escape::Code { from, .. } => from,
        };
        let views = std::iter::once(&self.strict).chain(&self.loose).chain(&self.literal);
        let starts = views.filter_map(|cursor| Some(cursor.units.front()?.from));
        let mut open = starts.fold(escape, u64::min);
        for group in self.groups.iter().rev() {
            if group.to() <= open {
                break;
            }
            open = open.min(group.from());
        }
        open
    }

    /// Adds the beginnings of secrets at the end of the text, if they are long enough to be worth it.
    pub(crate) fn add_beginnings(&mut self, automaton: &Automaton) {
        let views = [Some(self.strict.clone()), self.loose.clone(), self.literal.clone()];
        for cursor in views.into_iter().flatten() {
            if cursor.units.len() >= MIN_LENGTH {
                self.add(cursor.units.iter(), cursor.units.len(), automaton.pattern(cursor.state));
            }
        }
    }

    /// Whether nothing is open, so that a new scanner would find the same.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.is_idle()
    }
}

impl Cursor {
    fn reset(&mut self) {
        self.state = ROOT;
        self.units.clear();
    }

    fn trim(&mut self, depth: usize) {
        let surplus = self.units.len().saturating_sub(depth);
        self.units.drain(..surplus);
    }

    /// Skips bytes without meaning, up to a limit.
    fn gap(&mut self, at: u64) {
        if self.units.back().is_some_and(|last| at - last.to >= MAX_GAP) {
            self.reset();
        }
    }
}
