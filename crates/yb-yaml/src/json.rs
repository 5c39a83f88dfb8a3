//! JSON: its own parser, because escapes and errors differ from those of YAML.

use std::collections::HashMap;

use super::{Entry, Key, MAX_DEPTH, Node, ParseOptions, Span, Value, report_duplicate};
use crate::diagnostic::{Diagnostics, quoted};

pub(super) fn parse(text: &str, options: &ParseOptions, found: &mut Diagnostics<'_>) -> Option<Node> {
    let mut parser = JsonParser { rest: text, line: 1, column: 1, nodes: 0, options, found };
    parser.skip_whitespace();
    if parser.rest.is_empty() {
        options.report_empty(parser.found);
        return None;
    }
    let root = parser.value(0)?;
    parser.skip_whitespace();
    if !parser.rest.is_empty() {
        return parser.unexpected("the end of the file");
    }
    Some(root)
}

struct JsonParser<'t, 'f, 's> {
    rest: &'t str,
    line: usize,
    column: usize,
    nodes: usize,
    options: &'f ParseOptions,
    found: &'f mut Diagnostics<'s>,
}

impl<'t> JsonParser<'t, '_, '_> {
    fn here(&self, width: usize) -> Span {
        Span::new(self.line, self.column, width.max(1))
    }

    fn advance(&mut self, bytes: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        let mut letters = taken.chars().peekable();
        while let Some(letter) = letters.next() {
            // A lone CR ends a line, as in YAML and in editors.
            if letter == '\n' || (letter == '\r' && letters.peek() != Some(&'\n')) {
                self.line += 1;
                self.column = 1;
            } else {
                self.column += 1;
            }
        }
        taken
    }

    fn skip_whitespace(&mut self) {
        let rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r']);
        self.advance(self.rest.len() - rest.len());
    }

    fn next_is(&self, letter: char) -> bool {
        self.rest.starts_with(letter)
    }

    fn accept(&mut self, letter: char) -> bool {
        self.skip_whitespace();
        let there = self.next_is(letter);
        if there {
            self.advance(letter.len_utf8());
        }
        there
    }

    fn unexpected<T>(&mut self, expected: &str) -> Option<T> {
        let token: String =
            self.rest.chars().take_while(|c| !c.is_whitespace() && !",:[]{}".contains(*c)).collect();
        let token = if token.is_empty() { self.rest.chars().take(1).collect() } else { token };
        let at = self.here(token.chars().count());
        let message = if token.is_empty() {
            "not valid JSON: unexpected end of file".to_owned()
        } else {
            format!("not valid JSON: {}", quoted(&token))
        };
        let error = self.found.error(at, "", message);
        error.expected(expected);
        if token.starts_with("//") || token.starts_with('#') {
            error.hint("JSON has no comments; rename the file to `.yaml` to use them");
        } else if token.starts_with('\'') {
            error.hint("JSON strings use double quotes");
        }
        None
    }

    fn value(&mut self, depth: usize) -> Option<Node> {
        self.skip_whitespace();
        self.nodes += 1;
        if depth > MAX_DEPTH || self.nodes > self.options.max_nodes {
            let at = self.here(1);
            self.options.report_limit(self.found, at);
            return None;
        }
        let start = self.here(1);
        match self.rest.chars().next() {
            Some('{') => self.object(depth, start),
            Some('[') => self.array(depth, start),
            Some('"') => self.string().map(|(text, span)| Node { value: Value::Text(text), span }),
            _ => self.word(),
        }
    }

    fn object(&mut self, depth: usize, span: Span) -> Option<Node> {
        self.advance(1);
        let mut entries = Vec::new();
        let mut seen = HashMap::new();
        if self.accept('}') {
            return Some(Node { value: Value::Map(entries), span });
        }
        loop {
            self.skip_whitespace();
            if !self.next_is('"') {
                return self.unexpected("a key in double quotes");
            }
            let (name, at) = self.string()?;
            if !self.accept(':') {
                return self.unexpected("`:` and a value");
            }
            let key = Key { name, span: at };
            let node = self.value(depth + 1)?;
            match seen.get(&key.name) {
                Some(first) => report_duplicate(self.found, &key, *first),
                None => {
                    seen.insert(key.name.clone(), at);
                    entries.push(Entry { key, node });
                }
            }
            if self.accept('}') {
                return Some(Node { value: Value::Map(entries), span });
            }
            if !self.accept(',') {
                return self.unexpected("`,` or `}`");
            }
        }
    }

    fn array(&mut self, depth: usize, span: Span) -> Option<Node> {
        self.advance(1);
        let mut items = Vec::new();
        if self.accept(']') {
            return Some(Node { value: Value::List(items), span });
        }
        loop {
            items.push(self.value(depth + 1)?);
            if self.accept(']') {
                return Some(Node { value: Value::List(items), span });
            }
            if !self.accept(',') {
                return self.unexpected("`,` or `]`");
            }
        }
    }

    fn string(&mut self) -> Option<(String, Span)> {
        let mut escaped = false;
        let end = self.rest.bytes().enumerate().skip(1).find_map(|(at, byte)| {
            let ends = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            ends.then_some(at + 1)
        });
        let Some(end) = end else {
            let at = self.here(1);
            self.found.error(at, "", "not valid JSON: unclosed quote");
            return None;
        };
        let raw = &self.rest[..end];
        let span = self.here(raw.chars().count());
        match serde_json::from_str::<String>(raw) {
            Ok(text) if !text.contains('\0') => {
                self.advance(end);
                Some((text, span))
            }
            Ok(_) => {
                self.found.error(span, "", "NUL character in the file").hint("remove it");
                None
            }
            Err(_) => {
                let error = self.found.error(span, "", format!("not valid JSON: {}", quoted(raw)));
                error.expected("a string on one line, with escapes such as `\\n` and `\\\"`");
                None
            }
        }
    }

    fn word(&mut self) -> Option<Node> {
        let end = self.rest.find(|c: char| !(c.is_ascii_alphanumeric() || "+-._".contains(c)));
        let word = &self.rest[..end.unwrap_or(self.rest.len())];
        let value = match word {
            "null" => Value::Null,
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            _ => match serde_json::from_str::<serde_json::Number>(word) {
                Ok(number) => match number.as_i64() {
                    Some(whole) => Value::Int(whole),
                    None => Value::Float(number.as_f64().filter(|number| number.is_finite())?),
                },
                Err(_) => return self.unexpected("a value"),
            },
        };
        let span = self.here(word.chars().count());
        self.advance(word.len());
        Some(Node { value, span })
    }
}
