//! Decodes a tree of YAML values into typed settings, with precise error locations.

use std::cell::Cell;

use serde_saphyr::Location;

use crate::error::{ScriptError, ScriptLocation};
use crate::vars::{ExpandError, Vars, expand};
use crate::yaml::{self, Key, Node, Value};

/// Limit for all texts of a script together, after variable expansion.
const MAX_EXPANDED_BYTES: usize = 64 * 1024 * 1024;

/// A script file and the state shared by all its cursors.
pub(crate) struct ScriptSource<'a> {
    file: &'a str,
    vars: &'a Vars,
    expanded: Cell<usize>,
}

impl<'a> ScriptSource<'a> {
    pub(crate) fn new(file: &'a str, vars: &'a Vars) -> Self {
        Self { file, vars, expanded: Cell::new(0) }
    }

    pub(crate) fn root<'n>(&'n self, node: &'n Node) -> Cursor<'n> {
        Cursor { source: self, node, path: String::new() }
    }

    fn location(&self, at: Location) -> ScriptLocation {
        yaml::place(self.file, at)
    }
}

/// One value and its key path.
#[derive(Clone)]
pub(crate) struct Cursor<'n> {
    source: &'n ScriptSource<'n>,
    node: &'n Node,
    path: String,
}

impl<'n> Cursor<'n> {
    pub(crate) fn value(&self) -> &'n Value {
        &self.node.value
    }

    /// Creates an error at this value.
    pub(crate) fn error(&self, problem: impl Into<String>) -> ScriptError {
        let error = ScriptError::new(self.source.location(self.node.place), problem);
        if self.path.is_empty() { error } else { error.in_key(self.path.as_str()) }
    }

    /// Creates an error for a value of the wrong type.
    pub(crate) fn wrong(&self, expected: impl Into<String>) -> ScriptError {
        self.error("wrong value").expected(expected).found(self.node.value.describe())
    }

    fn child(&self, node: &'n Node, step: &str) -> Self {
        let dot = if self.path.is_empty() || step.starts_with('[') { "" } else { "." };
        Self { source: self.source, node, path: format!("{}{dot}{step}", self.path) }
    }

    /// Returns the text with expanded variables.
    pub(crate) fn text(&self) -> Result<String, ScriptError> {
        match &self.node.value {
            Value::Text(text) => self.expanded(text),
            Value::Bool(_) | Value::Int(_) | Value::Float(_) => {
                Err(self.wrong("a string").with_hint("put it in double quotes"))
            }
            _ => Err(self.wrong("a string")),
        }
    }

    fn expanded(&self, text: &str) -> Result<String, ScriptError> {
        let out = expand(text, self.source.vars).map_err(|problem| match problem {
            ExpandError::Undefined { name, known } => {
                let error = self.error("undefined variable").found(format!("`{name}`"));
                match nearest(&name, known.iter().map(String::as_str)) {
                    Some(near) => error.with_hint(format!("did you mean `{near}`?")),
                    None => error.with_hint(format!(
                        "define it when loading the script; on the command line: `--var {name}=VALUE`"
                    )),
                }
            }
            ExpandError::Malformed { text } => self
                .error("invalid variable reference")
                .expected("`{{name}}`")
                .found(format!("`{{{{{text}`"))
                .with_hint("write `{{{{` for a literal `{{`"),
        })?;
        let total = self.source.expanded.get().saturating_add(out.len());
        self.source.expanded.set(total);
        if total > MAX_EXPANDED_BYTES {
            return Err(self
                .error("script too large after variable expansion")
                .expected(format!("at most {MAX_EXPANDED_BYTES} bytes")));
        }
        Ok(out)
    }

    /// Returns a non-negative integer.
    pub(crate) fn count(&self) -> Result<u64, ScriptError> {
        match self.node.value {
            Value::Int(number) => u64::try_from(number).map_err(|_| self.wrong("a non-negative integer")),
            _ => Err(self.wrong("a non-negative integer")),
        }
    }

    /// Returns the items of a list.
    pub(crate) fn items(&self, expected: &str) -> Result<Vec<Self>, ScriptError> {
        match &self.node.value {
            Value::List(items) => Ok(items
                .iter()
                .enumerate()
                .map(|(index, item)| self.child(item, &format!("[{index}]")))
                .collect()),
            _ => Err(self.wrong(expected)),
        }
    }

    /// Returns the entries of a mapping with arbitrary keys, in file order.
    pub(crate) fn entries(&self, expected: &str) -> Result<Vec<(&'n Key, Self)>, ScriptError> {
        match &self.node.value {
            Value::Map(entries) => {
                Ok(entries.iter().map(|(key, node)| (key, self.child(node, &key.name))).collect())
            }
            _ => Err(self.wrong(expected)),
        }
    }

    /// Returns the only entry of a mapping, as in `Bash: { command: … }`.
    pub(crate) fn only_entry(&self, expected: &str) -> Result<(&'n Key, Self), ScriptError> {
        let mut entries = self.entries(expected)?;
        let count = entries.len();
        match entries.pop() {
            Some(entry) if count == 1 => Ok(entry),
            _ => Err(self
                .error("wrong value")
                .expected(expected)
                .found(format!("a mapping with {count} keys"))),
        }
    }

    /// Creates an error at a key of this mapping.
    pub(crate) fn key_error(&self, key: &Key, problem: &str) -> ScriptError {
        let error = ScriptError::new(self.source.location(key.place), problem);
        let error = if self.path.is_empty() { error } else { error.in_key(self.path.as_str()) };
        error.found(format!("`{}`", yaml::shorten(&key.name)))
    }

    /// Returns the fields of a mapping that may contain only these keys.
    pub(crate) fn fields(&self, known: &'static [&'static str]) -> Result<Fields<'n>, ScriptError> {
        let Value::Map(entries) = &self.node.value else {
            return Err(self.wrong(format!("a mapping with the keys {}", list(known))));
        };
        for (key, _) in entries {
            if !known.contains(&key.name.as_str()) {
                let error = self.key_error(key, "unknown key").expected(format!("one of {}", list(known)));
                return Err(match nearest(&key.name, known.iter().copied()) {
                    Some(near) => error.with_hint(format!("did you mean `{near}`?")),
                    None => error,
                });
            }
        }
        Ok(Fields { cursor: self.clone() })
    }

    /// Returns one of the known words.
    pub(crate) fn word(&self, known: &[&'static str]) -> Result<&'static str, ScriptError> {
        let text = self.text()?;
        known.iter().copied().find(|word| *word == text).ok_or_else(|| {
            let error = self.wrong(format!("one of {}", list(known)));
            match nearest(&text, known.iter().copied()) {
                Some(near) => error.with_hint(format!("did you mean `{near}`?")),
                None => error,
            }
        })
    }

    /// Converts any value to JSON; variables in texts are expanded.
    pub(crate) fn json(&self) -> Result<serde_json::Value, ScriptError> {
        use serde_json::Value as Json;

        Ok(match &self.node.value {
            Value::Null => Json::Null,
            Value::Bool(value) => Json::Bool(*value),
            Value::Int(value) => Json::from(*value),
            Value::Float(value) => Json::from(*value),
            Value::Text(text) => Json::String(self.expanded(text)?),
            Value::List(_) => {
                Json::Array(self.items("a list")?.iter().map(Self::json).collect::<Result<_, _>>()?)
            }
            Value::Map(_) => Json::Object(
                self.entries("a mapping")?
                    .into_iter()
                    .map(|(key, value)| Ok((key.name.clone(), value.json()?)))
                    .collect::<Result<_, ScriptError>>()?,
            ),
        })
    }
}

/// A mapping with validated keys.
pub(crate) struct Fields<'n> {
    cursor: Cursor<'n>,
}

impl<'n> Fields<'n> {
    /// Returns the value of a key, or `None` when it is absent or null.
    pub(crate) fn get(&self, key: &str) -> Option<Cursor<'n>> {
        let Value::Map(entries) = &self.cursor.node.value else { return None };
        let (_, node) = entries.iter().find(|(name, _)| name.name == key)?;
        if matches!(node.value, Value::Null) { None } else { Some(self.cursor.child(node, key)) }
    }

    /// Creates an error for the whole mapping.
    pub(crate) fn error(&self, message: impl Into<String>) -> ScriptError {
        self.cursor.error(message)
    }
}

/// Returns the most similar known word within the edit distance limit.
fn nearest<'k>(word: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    known
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= word.len().max(candidate.len()).max(3) / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

fn list(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}
