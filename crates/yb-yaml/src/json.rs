//! Builds the tree of a JSON document. JSON is read as what it is: the parser for YAML has other escapes and other errors.

use std::collections::HashMap;

use super::{Entry, Key, MAX_DEPTH, MAX_NODES, Node, Span, Value, report_duplicate, report_too_big};
use crate::diagnostic::{Findings, quoted};

pub(super) fn parse(text: &str, found: &mut Findings<'_>) -> Option<Node> {
    let mut reader = Reader { rest: text, line: 1, column: 1, nodes: 0, found };
    reader.space();
    if reader.rest.is_empty() {
        reader
            .found
            .error(Span::WHOLE, "", "the file is empty")
            .hint("`yb schema` prints what belongs into it");
        return None;
    }
    let root = reader.value(0)?;
    reader.space();
    if !reader.rest.is_empty() {
        return reader.wrong("the end of the file");
    }
    Some(root)
}

struct Reader<'t, 'f, 's> {
    rest: &'t str,
    line: usize,
    column: usize,
    nodes: usize,
    found: &'f mut Findings<'s>,
}

impl<'t> Reader<'t, '_, '_> {
    fn here(&self, width: usize) -> Span {
        Span::new(self.line, self.column, width.max(1))
    }

    fn advance(&mut self, bytes: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        for letter in taken.chars() {
            if letter == '\n' {
                self.line += 1;
                self.column = 1;
            } else {
                self.column += 1;
            }
        }
        taken
    }

    fn space(&mut self) {
        let rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r']);
        self.advance(self.rest.len() - rest.len());
    }

    fn next_is(&self, letter: char) -> bool {
        self.rest.starts_with(letter)
    }

    fn accept(&mut self, letter: char) -> bool {
        self.space();
        let there = self.next_is(letter);
        if there {
            self.advance(letter.len_utf8());
        }
        there
    }

    fn wrong<T>(&mut self, expected: &str) -> Option<T> {
        let token: String =
            self.rest.chars().take_while(|c| !c.is_whitespace() && !",:[]{}".contains(*c)).collect();
        let token = if token.is_empty() { self.rest.chars().take(1).collect() } else { token };
        let at = self.here(token.chars().count());
        let message = if token.is_empty() {
            "not valid JSON: the file ends too early".to_owned()
        } else {
            format!("not valid JSON: {}", quoted(&token))
        };
        let error = self.found.error(at, "", message);
        error.expected(expected);
        if token.starts_with("//") || token.starts_with('#') {
            error.hint("JSON has no comments; name the file `.yaml` to use them");
        } else if token.starts_with('\'') {
            error.hint("JSON has double quotes only");
        }
        None
    }

    fn value(&mut self, depth: usize) -> Option<Node> {
        self.space();
        self.nodes += 1;
        if depth > MAX_DEPTH || self.nodes > MAX_NODES {
            let at = self.here(1);
            report_too_big(self.found, at);
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
            self.space();
            if !self.next_is('"') {
                return self.wrong("a key in double quotes");
            }
            let (name, at) = self.string()?;
            if !self.accept(':') {
                return self.wrong("`:` and a value");
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
                return self.wrong("`,` or `}`");
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
                return self.wrong("`,` or `]`");
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
            self.found.error(at, "", "not valid JSON: a text without its closing quote");
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
                self.found.error(span, "", "a NUL character in the file").hint("remove it");
                None
            }
            Err(_) => {
                let error = self.found.error(span, "", format!("not valid JSON: {}", quoted(raw)));
                error.expected("a text on one line, with escapes such as `\\n` and `\\\"`");
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
                Err(_) => return self.wrong("a value"),
            },
        };
        let span = self.here(word.chars().count());
        self.advance(word.len());
        Some(Node { value, span })
    }
}
