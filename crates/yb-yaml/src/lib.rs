//! The one place that knows how files are written: YAML or JSON in, a tree of values with their places out, within limits.
//!
//! It reads the parser's events itself, because a deserializer stops at the first duplicate key and knows only one of its
//! places; here every duplicate of a file is found, with both.

pub mod diagnostic;
mod events;
mod json;
mod scalar;

use std::path::Path;

use crate::diagnostic::{Findings, quoted};

pub use scalar::plain;

/// A larger file is refused.
pub const MAX_BYTES: usize = 1024 * 1024;
/// All values of a file together, once its aliases are expanded.
const MAX_NODES: usize = 100_000;
/// All texts of a file together, once its aliases are expanded.
pub const MAX_EXPANDED_BYTES: usize = 8 * 1024 * 1024;
const MAX_DEPTH: usize = 48;

/// A part of one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    pub layer: Layer,
    /// From 1; 0 is the whole file.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// In characters.
    pub width: usize,
}

impl Span {
    /// No place in particular.
    pub const WHOLE: Self = Self::new(0, 0, 0);

    pub const fn new(line: usize, column: usize, width: usize) -> Self {
        Self { layer: Layer::Own, line, column, width }
    }

    /// The same place, as one of the file that is laid over another.
    pub const fn over(mut self) -> Self {
        self.layer = Layer::Over;
        self
    }
}

/// Which file a place is in, where the values of one are laid over those of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// The file that is read.
    Own,
    /// The file that is laid over it.
    Over,
}

/// One value of a file, with its place (of the alias, where it came through one).
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    pub value: Value,
    pub span: Span,
}

/// The kinds of value that there are.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

const NOTHING: Node = Node { value: Value::Null, span: Span::WHOLE };

/// A key of a mapping and its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    pub key: Key,
    pub node: Node,
}

/// A key, which knows its own place: an unknown key is reported there, not at its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Key {
    pub name: String,
    pub span: Span,
}

impl Node {
    /// The entry of a mapping.
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        match &self.value {
            Value::Map(entries) => entries.iter().find(|entry| entry.key.name == name),
            _ => None,
        }
    }

    /// The value of a key that is there and not null.
    pub fn get(&self, name: &str) -> Option<&Self> {
        self.entry(name).map(|entry| &entry.node).filter(|node| node.value != Value::Null)
    }

    pub fn text(&self) -> Option<&str> {
        if let Value::Text(text) = &self.value { Some(text) } else { None }
    }

    pub fn items(&self) -> &[Self] {
        if let Value::List(items) = &self.value { items } else { &[] }
    }

    pub fn entries(&self) -> &[Entry] {
        if let Value::Map(entries) = &self.value { entries } else { &[] }
    }

    /// The same, to be laid over another file.
    pub fn over(mut self) -> Self {
        self.span = self.span.over();
        match &mut self.value {
            Value::List(items) => {
                for item in items.iter_mut() {
                    *item = std::mem::replace(item, NOTHING).over();
                }
            }
            Value::Map(entries) => {
                for entry in entries.iter_mut() {
                    entry.key.span = entry.key.span.over();
                    entry.node = std::mem::replace(&mut entry.node, NOTHING).over();
                }
            }
            _ => {}
        }
        self
    }

    /// How a message calls it.
    pub fn describe(&self) -> String {
        match &self.value {
            Value::Null => "nothing".to_owned(),
            Value::Bool(value) => format!("`{value}`"),
            Value::Int(value) => format!("`{value}`"),
            Value::Float(value) => format!("`{value}`"),
            Value::Text(value) if value.trim().is_empty() => "a blank text".to_owned(),
            Value::Text(value) => quoted(value),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a mapping".to_owned(),
        }
    }

    /// The same value without places.
    pub fn to_json(&self) -> serde_json::Value {
        use serde_json::Value as Json;
        match &self.value {
            Value::Null => Json::Null,
            Value::Bool(value) => Json::from(*value),
            Value::Int(value) => Json::from(*value),
            Value::Float(value) => Json::from(*value),
            Value::Text(value) => Json::from(value.as_str()),
            Value::List(items) => items.iter().map(Self::to_json).collect(),
            Value::Map(entries) => {
                entries.iter().map(|entry| (entry.key.name.clone(), entry.node.to_json())).collect()
            }
        }
    }
}

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Yaml,
    Json,
}

impl Format {
    /// By the extension; what is unknown is YAML.
    pub fn of(path: &Path) -> Self {
        let json = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
        if json { Self::Json } else { Self::Yaml }
    }
}

/// The text of a file, or what is wrong with its bytes.
pub fn decode(bytes: &[u8]) -> Result<&str, BadText> {
    if bytes.len() > MAX_BYTES {
        return Err(BadText::TooLarge);
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let before = String::from_utf8_lossy(&bytes[..error.valid_up_to()]).into_owned();
        BadText::NotUtf8(end_of(&before))
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match text.split_once('\0') {
        Some((before, _)) => Err(BadText::Nul(end_of(before))),
        None => Ok(text),
    }
}

/// Why bytes are no text of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadText {
    TooLarge,
    NotUtf8(Span),
    Nul(Span),
}

impl BadText {
    pub fn report(self, found: &mut Findings<'_>) {
        match self {
            Self::TooLarge => {
                found
                    .error(Span::WHOLE, "", "the file is too large")
                    .expected(format!("at most {MAX_BYTES} bytes"))
                    .hint("keep long prompts in files of their own: `prompt_file`");
            }
            Self::NotUtf8(at) => {
                found.error(at, "", "not a text in UTF-8").hint("save the file as UTF-8");
            }
            Self::Nul(at) => {
                found.error(at, "", "a NUL character in the file").hint("remove it; is this a text file?");
            }
        }
    }
}

fn end_of(before: &str) -> Span {
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    Span::new(line, column, 1)
}

/// Reads one document. Without a tree the reason is among the findings; with one there may be duplicates among them.
pub fn parse(text: &str, format: Format, found: &mut Findings<'_>) -> Option<Node> {
    match format {
        Format::Yaml => events::parse(text, found),
        Format::Json => json::parse(text, found),
    }
}

/// A key that is there twice: the later one is reported, and the first one counts.
fn report_duplicate(found: &mut Findings<'_>, key: &Key, first: Span) {
    let hint = format!("it is also at line {}, column {}; remove one of them", first.line, first.column);
    found.error(key.span, key.name.clone(), format!("key given twice: {}", quoted(&key.name))).hint(hint);
}

fn report_too_big(found: &mut Findings<'_>, at: Span) {
    found.error(at, "", "the file is too large or too deep once its aliases are expanded").expected(format!(
        "at most {MAX_NODES} values, {MAX_DEPTH} levels deep, {MAX_EXPANDED_BYTES} bytes of text"
    ));
}

#[cfg(test)]
mod tests;
