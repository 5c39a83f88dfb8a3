//! YAML and JSON documents as trees of values with source positions, parsed within limits.
//!
//! The parser builds the tree from parser events instead of a deserializer, because a deserializer stops at the first duplicate
//! key and knows only one of its positions. Here, all duplicate keys of a file are reported, each with both positions.
//!
//! ```
//! use std::path::Path;
//!
//! use yb_yaml::diagnostic::Diagnostics;
//!
//! let text = "name: demo\ntags: [a, b]\nname: other\n";
//! let mut diagnostics = Diagnostics::new(Path::new("demo.yaml"), text);
//! let node = yb_yaml::parse(text, yb_yaml::Syntax::Yaml, &mut diagnostics).unwrap();
//! assert_eq!(node.get("tags").unwrap().span.line, 2);
//! assert_eq!(diagnostics.into_vec()[0].to_string(), "demo.yaml:3:1: error: key given twice: `name`");
//! ```

pub mod diagnostic;
pub mod duration;
mod events;
mod json;
mod scalar;

use std::path::Path;

use crate::diagnostic::{Diagnostic, Diagnostics, quoted};

pub use duration::parse_duration;
pub use scalar::parse_plain_scalar;

/// The maximum size of a file.
pub const MAX_BYTES: usize = 1024 * 1024;
/// The maximum number of values in a document after alias expansion.
pub const MAX_NODES: usize = 100_000;
/// The maximum size of all strings of a document together, after alias expansion.
pub const MAX_EXPANDED_BYTES: usize = 8 * 1024 * 1024;
const MAX_DEPTH: usize = 48;

/// A range of characters within one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// The file that contains the range.
    pub layer: SourceLayer,
    /// The line, from 1; 0 means the whole file.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The width in characters.
    pub width: usize,
}

impl Span {
    /// The whole file.
    pub const WHOLE: Self = Self::new(0, 0, 0);

    /// Creates a span in the base file.
    #[must_use]
    pub const fn new(line: usize, column: usize, width: usize) -> Self {
        Self { layer: SourceLayer::Base, line, column, width }
    }

    /// Returns the same range in the overlay file.
    #[must_use]
    pub const fn into_overlay(mut self) -> Self {
        self.layer = SourceLayer::Overlay;
        self
    }
}

/// The file that a [`Span`] refers to, when the values of one file override those of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SourceLayer {
    /// The file that is loaded.
    Base,
    /// The file with the overriding values.
    Overlay,
}

/// A value with its position (of the alias, for an aliased value).
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The value.
    pub value: Value,
    /// The position of the value.
    pub span: Span,
}

/// A YAML or JSON value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// No value.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A finite number that is not an `i64`.
    Float(f64),
    /// A string.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// A mapping with unique keys, in file order.
    Map(Vec<Entry>),
}

const NULL_NODE: Node = Node { value: Value::Null, span: Span::WHOLE };

/// A key of a mapping with its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The key.
    pub key: Key,
    /// The value.
    pub node: Node,
}

/// A mapping key with its own position, so that an unknown key is reported there and not at its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Key {
    /// The name of the key.
    pub name: String,
    /// The position of the key.
    pub span: Span,
}

impl Node {
    /// Returns the entry of a mapping with this key.
    #[must_use]
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        match &self.value {
            Value::Map(entries) => entries.iter().find(|entry| entry.key.name == name),
            _ => None,
        }
    }

    /// Returns the value of a key, unless it is missing or null.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Self> {
        self.entry(name).map(|entry| &entry.node).filter(|node| node.value != Value::Null)
    }

    /// Returns the string, if the value is one.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        if let Value::Text(text) = &self.value { Some(text) } else { None }
    }

    /// Returns the items of a list; empty for other values.
    #[must_use]
    pub fn items(&self) -> &[Self] {
        if let Value::List(items) = &self.value { items } else { &[] }
    }

    /// Returns the entries of a mapping; empty for other values.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        if let Value::Map(entries) = &self.value { entries } else { &[] }
    }

    /// Returns whether the value is a mapping.
    #[must_use]
    pub fn is_map(&self) -> bool {
        matches!(self.value, Value::Map(_))
    }

    /// Marks all positions of the tree as positions in the overlay file.
    #[must_use]
    pub fn into_overlay(mut self) -> Self {
        self.span = self.span.into_overlay();
        match &mut self.value {
            Value::List(items) => {
                for item in items.iter_mut() {
                    *item = std::mem::replace(item, NULL_NODE).into_overlay();
                }
            }
            Value::Map(entries) => {
                for entry in entries.iter_mut() {
                    entry.key.span = entry.key.span.into_overlay();
                    entry.node = std::mem::replace(&mut entry.node, NULL_NODE).into_overlay();
                }
            }
            _ => {}
        }
        self
    }

    /// Describes the value in a message.
    #[must_use]
    pub fn describe(&self) -> String {
        match &self.value {
            Value::Null => "nothing".to_owned(),
            Value::Bool(value) => format!("`{value}`"),
            Value::Int(value) => format!("`{value}`"),
            Value::Float(value) => format!("`{value}`"),
            Value::Text(value) if value.trim().is_empty() => "a blank string".to_owned(),
            Value::Text(value) => quoted(value),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a mapping".to_owned(),
        }
    }

    /// Converts the tree to JSON, without positions.
    #[must_use]
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

/// The syntax of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    /// YAML 1.2 with the core schema.
    Yaml,
    /// JSON.
    Json,
}

impl Syntax {
    /// Returns the syntax for a file extension; YAML for an unknown extension.
    #[must_use]
    pub fn from_path(path: &Path) -> Self {
        let json = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
        if json { Self::Json } else { Self::Yaml }
    }
}

/// Decodes the bytes of a file as UTF-8, without a byte order mark.
///
/// # Errors
/// When the file is larger than [`MAX_BYTES`], not UTF-8, or contains a NUL character.
pub fn decode(bytes: &[u8]) -> Result<&str, DecodeError> {
    if bytes.len() > MAX_BYTES {
        return Err(DecodeError::TooLarge);
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let before = String::from_utf8_lossy(&bytes[..error.valid_up_to()]).into_owned();
        DecodeError::NotUtf8(end_of(&before))
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match text.split_once('\0') {
        Some((before, _)) => Err(DecodeError::Nul(end_of(before))),
        None => Ok(text),
    }
}

/// The error of [`decode`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeError {
    /// The file is larger than [`MAX_BYTES`].
    TooLarge,
    /// The file is not UTF-8.
    NotUtf8(Span),
    /// The file contains a NUL character.
    Nul(Span),
}

impl DecodeError {
    /// Reports the error and returns its diagnostic, for a hint of the caller.
    pub fn report<'d>(self, found: &'d mut Diagnostics<'_>) -> &'d mut Diagnostic {
        match self {
            Self::TooLarge => found
                .error(Span::WHOLE, "", "the file is too large")
                .expected(format!("at most {MAX_BYTES} bytes")),
            Self::NotUtf8(at) => found.error(at, "", "invalid UTF-8").hint("save the file as UTF-8"),
            Self::Nul(at) => {
                found.error(at, "", "NUL character in the file").hint("remove it; is this a text file?")
            }
        }
    }
}

/// Returns the position after a text. Like the parser, it also ends lines at a lone CR.
fn end_of(before: &str) -> Span {
    let breaks = before.matches(['\n', '\r']).count() - before.matches("\r\n").count();
    let line = breaks + 1;
    let column = before.rsplit(['\n', '\r']).next().unwrap_or_default().chars().count() + 1;
    Span::new(line, column, 1)
}

/// How a document is parsed, and how messages refer to it.
#[derive(Debug, Clone, Copy)]
pub struct ParseOptions {
    /// The syntax.
    pub syntax: Syntax,
    /// The noun for the document in messages, such as `file`.
    pub subject: &'static str,
    /// The hint for an empty document.
    pub empty_hint: Option<&'static str>,
    /// The maximum number of values after alias expansion.
    pub max_nodes: usize,
}

impl ParseOptions {
    /// Creates options for a `file` with the default limits.
    #[must_use]
    pub fn new(syntax: Syntax) -> Self {
        Self { syntax, subject: "file", empty_hint: None, max_nodes: MAX_NODES }
    }

    /// Sets the noun for the document in messages.
    #[must_use]
    pub fn with_subject(mut self, subject: &'static str) -> Self {
        self.subject = subject;
        self
    }

    /// Sets the hint for an empty document.
    #[must_use]
    pub fn with_empty_hint(mut self, hint: &'static str) -> Self {
        self.empty_hint = Some(hint);
        self
    }

    /// Sets the maximum number of values after alias expansion.
    #[must_use]
    pub fn with_max_nodes(mut self, nodes: usize) -> Self {
        self.max_nodes = nodes;
        self
    }

    fn report_empty(&self, found: &mut Diagnostics<'_>) {
        let error = found.error(Span::WHOLE, "", format!("the {} is empty", self.subject));
        if let Some(hint) = self.empty_hint {
            error.hint(hint);
        }
    }

    fn report_limit(&self, found: &mut Diagnostics<'_>, at: Span) {
        let message = format!("the {} is too large or too deep once its aliases are expanded", self.subject);
        found.error(at, "", message).expected(format!(
            "at most {} values, {MAX_DEPTH} levels deep, {MAX_EXPANDED_BYTES} bytes of text",
            self.max_nodes
        ));
    }
}

/// Parses one document with the default options.
///
/// Without a tree, the diagnostics contain the reason. With a tree, they may contain other errors, such as duplicate keys.
pub fn parse(text: &str, syntax: Syntax, found: &mut Diagnostics<'_>) -> Option<Node> {
    parse_with(text, &ParseOptions::new(syntax), found)
}

/// Parses one document, as [`parse`] does, with these options.
pub fn parse_with(text: &str, options: &ParseOptions, found: &mut Diagnostics<'_>) -> Option<Node> {
    match options.syntax {
        Syntax::Yaml => events::parse(text, options, found),
        Syntax::Json => json::parse(text, options, found),
    }
}

/// Reports the second occurrence of a key; the value of the first one is used.
fn report_duplicate(found: &mut Diagnostics<'_>, key: &Key, first: Span) {
    let hint =
        format!("the first one is at line {}, column {}; remove one of them", first.line, first.column);
    found.error(key.span, key.name.clone(), format!("key given twice: {}", quoted(&key.name))).hint(hint);
}

#[cfg(test)]
mod tests;
