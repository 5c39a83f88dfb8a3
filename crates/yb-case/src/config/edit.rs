//! Changes one key in the text of a configuration and leaves the rest as it is: comments, order and style.
//!
//! The place comes from the parser, the change is made in the text, and the result is read again: what does not come out as
//! it was meant is refused, so that an odd file is never damaged.

use std::path::Path;

use serde_json::Value as Json;

use super::layer;
use yb_yaml::diagnostic::{Diagnostic, Findings};
use yb_yaml::{Entry, Format, Node, Span, Value};

/// Why a text can't be changed.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// It can't be read.
    #[error("the file can't be read as it is")]
    Unreadable(Vec<Diagnostic>),
    /// It is written in a way that this program does not dare to change.
    #[error("the file is written in a way that can't be changed safely")]
    ByHand,
}

/// The text with a key set to a value; `file` tells the format.
///
/// # Errors
/// When the text can't be read, or not be changed without touching more than this key.
pub fn set(file: &Path, text: &str, key: &str, value: &Json) -> Result<String, EditError> {
    let (tree, mut expected) = read(file, text)?;
    let edited = Text::new(file, text).set(tree.as_ref(), key, value).ok_or(EditError::ByHand)?;
    put(&mut expected, key, value.clone()).ok_or(EditError::ByHand)?;
    verify(file, edited, expected)
}

/// The text without a key; `None` if it is not there.
///
/// # Errors
/// When the text can't be read, or not be changed without touching more than this key.
pub fn unset(file: &Path, text: &str, key: &str) -> Result<Option<String>, EditError> {
    let (tree, mut expected) = read(file, text)?;
    let (group, name) = split(key);
    let parent = tree.as_ref().and_then(|root| group.map_or(Some(root), |group| root.get(group)));
    let Some(root) = tree.as_ref().filter(|_| parent.is_some_and(|parent| parent.entry(name).is_some()))
    else {
        return Ok(None);
    };
    let edited = Text::new(file, text).unset(root, key).ok_or(EditError::ByHand)?;
    put(&mut expected, key, Json::Null).ok_or(EditError::ByHand)?;
    verify(file, edited, expected).map(Some)
}

/// The tree of a text, if it says anything, and what it says.
fn read(file: &Path, text: &str) -> Result<(Option<Node>, Json), EditError> {
    // Only YAML has comments.
    let blank = text.trim().is_empty() || (Format::of(file) == Format::Yaml && !layer::says_something(text));
    if blank {
        return Ok((None, Json::Object(serde_json::Map::new())));
    }
    let mut found = Findings::new(file, text);
    match yb_yaml::parse(text, Format::of(file), &mut found) {
        Some(tree) if !found.has_errors() => {
            let values = tree.to_json();
            Ok((Some(tree), values))
        }
        _ => Err(EditError::Unreadable(found.into_vec())),
    }
}

/// Sets a value in what a text says.
fn put(values: &mut Json, key: &str, value: Json) -> Option<()> {
    let (group, name) = split(key);
    let mut map = values.as_object_mut()?;
    if let Some(group) = group {
        let below = map.entry(group).or_insert(Json::Null);
        if below.is_null() {
            *below = Json::Object(serde_json::Map::new());
        }
        map = below.as_object_mut()?;
    }
    map.insert(name.to_owned(), value);
    Some(())
}

fn verify(file: &Path, edited: String, expected: Json) -> Result<String, EditError> {
    let (_, after) = read(file, &edited).map_err(|_| EditError::ByHand)?;
    if without_nothing(after) == without_nothing(expected) { Ok(edited) } else { Err(EditError::ByHand) }
}

/// Without keys that have no value and groups that have no keys: they say nothing.
fn without_nothing(mut values: Json) -> Json {
    if let Json::Object(map) = &mut values {
        for below in map.values_mut().filter_map(Json::as_object_mut) {
            below.retain(|_, value| !value.is_null());
        }
        map.retain(|_, value| !value.is_null() && value.as_object().is_none_or(|below| !below.is_empty()));
    }
    values
}

/// A text with the start of each of its lines.
struct Text<'t> {
    text: &'t str,
    format: Format,
    lines: Vec<usize>,
}

impl<'t> Text<'t> {
    fn new(file: &Path, text: &'t str) -> Self {
        let starts = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Self { text, format: Format::of(file), lines: std::iter::once(0).chain(starts).collect() }
    }

    fn set(&self, tree: Option<&Node>, key: &str, value: &Json) -> Option<String> {
        let (group, name) = split(key);
        let scalar = self.scalar(value);
        let Some(root) = tree else {
            return Some(self.with_empty(group, name, &scalar));
        };
        let Some(group) = group else {
            return match root.entry(name) {
                Some(entry) => self.replace(entry, &scalar),
                None => self.add(root, name, &scalar),
            };
        };
        match root.entry(group) {
            None if self.is_flow(root)? => {
                self.add(root, group, &format!("{{ {}: {scalar} }}", self.key(name)))
            }
            None => self.append(root, &format!("{group}:"), Some(&format!("{name}: {scalar}"))),
            Some(entry) if entry.node.value == Value::Null => {
                let said = self.part(entry.node.span).is_some_and(is_null);
                if said || self.is_flow(root)? {
                    self.replace(entry, &format!("{{ {}: {scalar} }}", self.key(name)))
                } else {
                    self.below_empty(entry.key.span, &format!("{name}: {scalar}"))
                }
            }
            Some(entry) => match entry.node.entry(name) {
                Some(inner) => self.replace(inner, &scalar),
                None => self.add(&entry.node, name, &scalar),
            },
        }
    }

    fn with_empty(&self, group: Option<&str>, name: &str, scalar: &str) -> String {
        if self.format == Format::Json {
            return match group {
                None => format!("{{\n  \"{name}\": {scalar}\n}}\n"),
                Some(group) => format!("{{\n  \"{group}\": {{\n    \"{name}\": {scalar}\n  }}\n}}\n"),
            };
        }
        let mut out = ended(self.text);
        match group {
            None => out.push_str(&format!("{name}: {scalar}\n")),
            Some(group) => out.push_str(&format!("{group}:\n  {name}: {scalar}\n")),
        }
        out
    }

    /// A value on one line is replaced where it stands.
    fn replace(&self, entry: &Entry, scalar: &str) -> Option<String> {
        let span = match entry.node.value {
            Value::List(_) | Value::Map(_) => return None,
            // Nothing stands there, so it goes behind the colon.
            Value::Null if self.part(entry.node.span).is_none_or(|part| !is_null(part)) => {
                let colon = self.end(entry.key.span)? + self.text[self.end(entry.key.span)?..].find(':')? + 1;
                return Some(format!("{} {scalar}{}", &self.text[..colon], &self.text[colon..]));
            }
            _ => entry.node.span,
        };
        self.part(span)?;
        Some(format!("{}{scalar}{}", &self.text[..self.start(span)?], &self.text[self.end(span)?..]))
    }

    /// A key at the end of a mapping.
    fn add(&self, map: &Node, name: &str, scalar: &str) -> Option<String> {
        if !self.is_flow(map)? {
            return self.append(map, &format!("{name}: {scalar}"), None);
        }
        let pair = format!("{}: {scalar}", self.key(name));
        let Some(last) = map.entries().last() else {
            let open = self.start(map.span)? + 1;
            let close = open + self.text[open..].find('}')?;
            return Some(format!("{} {pair} {}", &self.text[..open], &self.text[close..]));
        };
        let end = self.flow_end(&last.node)?;
        let between = if last.key.span.line == map.span.line {
            ", ".to_owned()
        } else {
            format!(",\n{}", " ".repeat(last.key.span.column.saturating_sub(1)))
        };
        Some(format!("{}{between}{pair}{}", &self.text[..end], &self.text[end..]))
    }

    /// Lines at the end of a mapping in block style.
    fn append(&self, map: &Node, line: &str, below: Option<&str>) -> Option<String> {
        let last = map.entries().last()?;
        let indent = " ".repeat(last.key.span.column.saturating_sub(1));
        let at = self.next_line(self.last_line(&last.node));
        let mut out = ended(&self.text[..at]);
        out.push_str(&format!("{indent}{line}\n"));
        if let Some(below) = below {
            out.push_str(&format!("{indent}  {below}\n"));
        }
        out.push_str(&self.text[at..]);
        Some(out)
    }

    /// The first line below a key that has no value.
    fn below_empty(&self, key: Span, line: &str) -> Option<String> {
        let at = self.next_line(key.line);
        let indent = " ".repeat(key.column + 1);
        Some(format!("{}{indent}{line}\n{}", ended(&self.text[..at]), &self.text[at..]))
    }

    fn unset(&self, root: &Node, key: &str) -> Option<String> {
        let (group, name) = split(key);
        let Some(group) = group else { return self.remove(root, name) };
        let map = root.get(group)?;
        // A group that would be left with nothing goes with its last key, in block style.
        if map.entries().len() == 1 && !self.is_flow(map)? {
            self.remove(root, group)
        } else {
            self.remove(map, name)
        }
    }

    fn remove(&self, map: &Node, name: &str) -> Option<String> {
        let entries = map.entries();
        let at = entries.iter().position(|entry| entry.key.name == name)?;
        let entry = &entries[at];
        let (start, end) = if self.is_flow(map)? {
            match (at.checked_sub(1).and_then(|before| entries.get(before)), entries.get(at + 1)) {
                (_, Some(next)) => (self.start(entry.key.span)?, self.start(next.key.span)?),
                (Some(before), None) => (self.flow_end(&before.node)?, self.flow_end(&entry.node)?),
                (None, None) => (self.start(entry.key.span)?, self.flow_end(&entry.node)?),
            }
        } else {
            (
                *self.lines.get(entry.key.span.line.checked_sub(1)?)?,
                self.next_line(self.last_line(&entry.node).max(entry.key.span.line)),
            )
        };
        Some(format!("{}{}", &self.text[..start], &self.text[end..]))
    }

    /// A mapping in braces.
    fn is_flow(&self, map: &Node) -> Option<bool> {
        matches!(map.value, Value::Map(_)).then(|| self.flow_at(map.span).is_some())
    }

    fn flow_at(&self, span: Span) -> Option<()> {
        self.text[self.start(span)?..].starts_with('{').then_some(())
    }

    /// Where a value in braces ends; only texts and numbers, and mappings of those.
    fn flow_end(&self, node: &Node) -> Option<usize> {
        match &node.value {
            Value::Map(entries) => {
                let inside = match entries.last() {
                    Some(last) => self.flow_end(&last.node)?,
                    None => self.start(node.span)? + 1,
                };
                Some(inside + self.text[inside..].find('}')? + 1)
            }
            Value::List(_) => None,
            _ => self.end(node.span),
        }
    }

    /// The last line on which a value stands.
    fn last_line(&self, node: &Node) -> usize {
        let below = node.entries().iter().map(|entry| self.last_line(&entry.node).max(entry.key.span.line));
        let items = node.items().iter().map(|item| self.last_line(item));
        below.chain(items).max().unwrap_or(node.span.line)
    }

    /// The text of a place, if all of it is on one line.
    fn part(&self, span: Span) -> Option<&'t str> {
        self.text.get(self.start(span)?..self.end(span)?)
    }

    fn start(&self, span: Span) -> Option<usize> {
        self.offset(span.line, span.column.checked_sub(1)?)
    }

    fn end(&self, span: Span) -> Option<usize> {
        self.offset(span.line, span.column.checked_sub(1)? + span.width)
    }

    /// The byte of a line's n-th character.
    fn offset(&self, line: usize, characters: usize) -> Option<usize> {
        let start = *self.lines.get(line.checked_sub(1)?)?;
        let rest = &self.text[start..];
        let line = rest.split('\n').next().unwrap_or(rest);
        let width = line.char_indices().map(|(at, _)| at).chain([line.len()]).nth(characters)?;
        Some(start + width)
    }

    /// Where the line after this one begins.
    fn next_line(&self, line: usize) -> usize {
        self.lines.get(line).copied().unwrap_or(self.text.len())
    }

    /// A text without quotes where YAML needs none; everything else as JSON, which YAML reads too.
    fn scalar(&self, value: &Json) -> String {
        let plain = |text: &&str| {
            text.starts_with(|first: char| first.is_ascii_alphabetic() || "./_".contains(first))
                && text.chars().all(|letter| letter.is_ascii_alphanumeric() || "._-/".contains(letter))
                && matches!(yb_yaml::plain(text), Value::Text(_))
        };
        match value.as_str().filter(plain) {
            Some(text) if self.format == Format::Yaml => text.to_owned(),
            _ => value.to_string(),
        }
    }

    fn key(&self, name: &str) -> String {
        if self.format == Format::Json { format!("\"{name}\"") } else { name.to_owned() }
    }
}

/// `agent.model` is `model` below `agent`; deeper there is nothing.
fn split(key: &str) -> (Option<&str>, &str) {
    match key.split_once('.') {
        Some((group, name)) => (Some(group), name),
        None => (None, key),
    }
}

fn is_null(text: &str) -> bool {
    matches!(text, "~" | "null" | "Null" | "NULL")
}

/// A text that a line can be added to.
fn ended(text: &str) -> String {
    if text.is_empty() || text.ends_with('\n') { text.to_owned() } else { format!("{text}\n") }
}

#[cfg(test)]
mod tests;
