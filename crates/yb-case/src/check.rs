//! Validates a tree against the field descriptions and reports all errors.

use super::agent_spec::AgentSpecs;
use super::shape::{Field, Kind, Object, Presence, list_of};
use yb_yaml::diagnostic::{Diagnostic, Diagnostics, Severity, quoted};
use yb_yaml::{Entry, Node, SourceLayer, Span, Value};

/// How unknown and missing keys are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// An unknown key is an error.
    Strict,
    /// An unknown key is a warning, for compatibility with files of the original youBencha.
    Lenient,
}

impl Mode {
    pub(crate) fn severity(self) -> Severity {
        match self {
            Self::Strict => Severity::Error,
            Self::Lenient => Severity::Warning,
        }
    }
}

/// Returns the path of a key below another one.
pub(crate) fn join(path: &str, step: &str) -> String {
    let dot = if path.is_empty() || step.starts_with('[') { "" } else { "." };
    format!("{path}{dot}{step}")
}

/// Validates one file.
pub(crate) struct Checker<'f, 's> {
    pub(crate) mode: Mode,
    /// The agents that the file may name.
    pub(crate) agents: &'f AgentSpecs,
    pub(crate) found: &'f mut Diagnostics<'s>,
}

impl Checker<'_, '_> {
    /// Validates a value and everything below it.
    pub(crate) fn check(&mut self, node: &Node, kind: &Kind, path: &str) {
        match (*kind, &node.value) {
            (Kind::Any, _) | (Kind::Bool, Value::Bool(_)) | (Kind::Part(_), Value::Map(_)) => {}
            (Kind::Text { .. }, Value::Text(text)) => self.text(node, text, kind, path),
            (Kind::Word(words), Value::Text(text)) if !words.contains(&text.as_str()) => {
                self.wrong(node, kind, path).did_you_mean(text, words.iter().copied());
            }
            (Kind::AgentType, Value::Text(text)) if !self.agents.contains(text) => {
                let names = self.agents.names();
                self.wrong(node, kind, path).did_you_mean(text, names);
            }
            (Kind::Word(_) | Kind::AgentType, Value::Text(_)) => {}
            (Kind::Whole { min, max }, Value::Int(number)) if (min..=max).contains(number) => {}
            (Kind::Number { .. }, Value::Int(number)) => self.number(node, *number as f64, kind, path),
            (Kind::Number { .. }, Value::Float(number)) => self.number(node, *number, kind, path),
            (Kind::Duration { zero }, _) => match super::time::milliseconds(node) {
                Some(0) if !zero => {
                    self.wrong(node, kind, path);
                }
                Some(_) => {}
                None => {
                    self.wrong(node, kind, path);
                }
            },
            (Kind::List { of, min }, Value::List(items)) => {
                if items.len() < min {
                    self.found.error(node.span, path, "empty list").expected(kind.expected(self.agents));
                }
                for (at, item) in items.iter().enumerate() {
                    self.check(item, of, &join(path, &format!("[{at}]")));
                }
            }
            (Kind::Map { names, of }, Value::Map(entries)) => {
                for Entry { key, node } in entries {
                    if !names.accepts(&key.name) {
                        let message = format!("invalid name: {}", quoted(&key.name));
                        self.found.error(key.span, path, message).expected(names.expected());
                    }
                    self.check(node, of, &join(path, &key.name));
                }
            }
            (Kind::Object(object), Value::Map(_)) => self.object(node, object, path),
            (Kind::Either(kinds), _) => match kinds.iter().find(|kind| fits(kind, &node.value)) {
                Some(kind) => self.check(node, kind, path),
                None => {
                    self.wrong(node, kind, path);
                }
            },
            (
                Kind::Text { .. } | Kind::Word(_) | Kind::AgentType,
                Value::Bool(_) | Value::Int(_) | Value::Float(_),
            ) => {
                self.wrong(node, kind, path).hint("put it in double quotes");
            }
            _ => {
                self.wrong(node, kind, path);
            }
        }
    }

    /// Validates a mapping with known keys.
    pub(crate) fn object(&mut self, node: &Node, object: &Object, path: &str) {
        for Entry { key, node } in node.entries() {
            match self.agents.fields_of(object).find(|field| field.name == key.name) {
                Some(field) if node.value == Value::Null => self.nothing(key.span, field, path),
                Some(field) => self.check(node, &field.kind, &join(path, field.name)),
                None => self.unknown(key.span, &key.name, object, path),
            }
        }
        for field in object.fields {
            if field.presence != Presence::Optional && node.entry(field.name).is_none() {
                self.missing(first_place(node), field, path);
            }
        }
    }

    /// Returns the severity of an unknown key. An overlay comes from a suite, which is always strict.
    pub(crate) fn severity(&self, at: Span) -> Severity {
        if at.layer == SourceLayer::Overlay { Severity::Error } else { self.mode.severity() }
    }

    pub(crate) fn unknown(&mut self, at: Span, name: &str, object: &Object, path: &str) {
        let message = format!("unknown key: {}", quoted(name));
        let found = self.found.add(self.severity(at), at, join(path, name), message);
        let names = self.agents.fields_of(object).map(|field| field.name);
        if found.did_you_mean(name, names).hint.is_none() {
            let names = self.agents.fields_of(object).map(|field| field.name);
            found.expected(format!("one of {}", list_of(names)));
        }
    }

    fn nothing(&mut self, at: Span, field: &Field, path: &str) {
        if field.presence == Presence::Required {
            self.missing(at, field, path);
        } else if !matches!(field.kind, Kind::Any) {
            let message = format!("no value: `{}`", field.name);
            self.found
                .warning(at, join(path, field.name), message)
                .expected(field.kind.expected(self.agents))
                .hint("the key is ignored; remove the line");
        }
    }

    fn missing(&mut self, at: Span, field: &Field, path: &str) {
        let severity =
            if field.presence == Presence::Required { Severity::Error } else { self.mode.severity() };
        let message = format!("missing key: `{}`", field.name);
        self.found
            .add(severity, at, join(path, field.name), message)
            .expected(field.kind.expected(self.agents));
    }

    /// Reports a value of the wrong type.
    pub(crate) fn wrong(&mut self, node: &Node, kind: &Kind, path: &str) -> &mut Diagnostic {
        let message = format!("wrong value: {}", node.describe());
        self.found.error(node.span, path, message).expected(kind.expected(self.agents))
    }

    fn text(&mut self, node: &Node, text: &str, kind: &Kind, path: &str) {
        let Kind::Text { min, max, format } = *kind else { return };
        let length = text.chars().count();
        if text.contains('\0') {
            self.found.error(node.span, path, "NUL character in the string").hint("remove it");
        } else if length < min {
            self.found.error(node.span, path, "empty string").expected(kind.expected(self.agents));
        } else if length > max {
            let message = format!("string too long: {length} characters");
            self.found.error(node.span, path, message).expected(format!("at most {max}"));
        } else if !format.accepts(text) {
            self.wrong(node, kind, path);
        }
    }

    fn number(&mut self, node: &Node, number: f64, kind: &Kind, path: &str) {
        let Kind::Number { min, max, above } = *kind else { return };
        let enough = if above { number > min } else { number >= min };
        if !(enough && number <= max) {
            self.wrong(node, kind, path);
        }
    }
}

/// Returns the position for a missing key: the first key of the mapping.
fn first_place(node: &Node) -> Span {
    node.entries().iter().map(|entry| entry.key.span).min().unwrap_or(node.span)
}

/// Returns whether a value has this type, apart from its limits. Then the error for this type is the most precise one.
fn fits(kind: &Kind, value: &Value) -> bool {
    match kind {
        Kind::Text { .. } | Kind::Word(_) | Kind::AgentType => matches!(value, Value::Text(_)),
        Kind::Bool => matches!(value, Value::Bool(_)),
        Kind::Whole { .. } => matches!(value, Value::Int(_)),
        Kind::Number { .. } => matches!(value, Value::Int(_) | Value::Float(_)),
        Kind::Duration { .. } => matches!(value, Value::Int(_) | Value::Float(_) | Value::Text(_)),
        Kind::List { .. } => matches!(value, Value::List(_)),
        Kind::Map { .. } | Kind::Object(_) | Kind::Part(_) => matches!(value, Value::Map(_)),
        Kind::Either(kinds) => kinds.iter().any(|kind| fits(kind, value)),
        Kind::Any => true,
    }
}
