//! YAML parsing: converts text to a tree of values with locations, within limits. The only module that uses the YAML library.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, MessageFormatter as _, Spanned, UserMessageFormatter};

use crate::error::{ScriptError, ScriptLocation};

/// Limit for the size of a script, checked before parsing. Long texts can be passed as variables.
pub(crate) const MAX_BYTES: usize = 1024 * 1024;
const MAX_NODES: usize = 100_000;
const MAX_DEPTH: usize = 48;
const MAX_REPLAYED: usize = 100_000;

/// A value with its location (of the alias, for an aliased value).
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) place: Location,
}

/// A YAML value.
#[derive(Debug)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
}

/// A mapping key with its own location, so that an unknown key is reported there and not at its value.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: String,
    pub(crate) place: Location,
}

impl Value {
    /// Describes the value in an error message.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Null => "nothing".to_owned(),
            Self::Bool(value) => format!("`{value}`"),
            Self::Int(value) => format!("`{value}`"),
            Self::Float(value) => format!("`{value}`"),
            Self::Text(value) if value.trim().is_empty() => "a blank text".to_owned(),
            Self::Text(value) => format!("`{}`", shorten(value)),
            Self::List(_) => "a list".to_owned(),
            Self::Map(_) => "a mapping".to_owned(),
        }
    }
}

/// Truncates a text for an error message.
pub(crate) fn shorten(text: &str) -> String {
    const KEPT: usize = 60;
    let line: String = text.chars().take(KEPT).map(|c| if c.is_control() { ' ' } else { c }).collect();
    let line = line.trim_end();
    if text.chars().nth(KEPT).is_some() { format!("{line}…") } else { line.to_owned() }
}

/// Parses one document.
pub(crate) fn parse(text: &str, file: &str) -> Result<Node, ScriptError> {
    if text.len() > MAX_BYTES {
        let whole = ScriptLocation { file: file.to_owned(), line: 0, column: 0 };
        return Err(ScriptError::new(whole, "the script is too large")
            .expected(format!("at most {MAX_BYTES} bytes"))
            .found(format!("{} bytes", text.len()))
            .with_hint("give long texts as variables: `{{name}}`"));
    }
    let options = serde_saphyr::options! {
        strict_booleans: true,
        with_snippet: false,
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MAX_REPLAYED },
        budget: serde_saphyr::budget! { max_nodes: MAX_NODES, max_depth: MAX_DEPTH },
    };
    serde_saphyr::from_str_with_options::<Node>(text, options).map_err(|error| reword(&error, text, file))
}

pub(crate) fn place(file: &str, at: Location) -> ScriptLocation {
    ScriptLocation { file: file.to_owned(), line: at.line(), column: at.column() }
}

/// Rewords errors of the library in terms of the file instead of its API.
fn reword(error: &serde_saphyr::Error, text: &str, file: &str) -> ScriptError {
    use serde_saphyr::Error as Yaml;

    let at = error.location().unwrap_or(Location::UNKNOWN);
    let here = place(file, at);
    let inner = match error.without_snippet() {
        Yaml::AliasError { error, .. } => error.without_snippet(),
        other => other,
    };
    match inner {
        Yaml::Eof { .. } => ScriptError::new(here, "the script ends too early"),
        Yaml::DuplicateMappingKey { key, .. } => {
            let error = ScriptError::new(here, "key given twice");
            if let Some(key) = key { error.found(format!("`{key}`")) } else { error }
        }
        Yaml::MultipleDocuments { .. } => {
            ScriptError::new(here, "more than one document in the script").with_hint("remove the `---` line")
        }
        Yaml::UnknownAnchor { .. } => ScriptError::new(here, "alias of an anchor that does not exist"),
        Yaml::RecursiveReferencesRequireWeakTypes { .. } => {
            ScriptError::new(here, "an anchor contains an alias of itself")
        }
        Yaml::NonFiniteFloat { value, .. } => {
            ScriptError::new(here, "not a finite number").found(format!("`{value}`"))
        }
        Yaml::Budget { .. }
        | Yaml::AliasReplayCounterOverflow { .. }
        | Yaml::AliasReplayLimitExceeded { .. }
        | Yaml::AliasExpansionLimitExceeded { .. }
        | Yaml::AliasReplayStackDepthExceeded { .. } => {
            ScriptError::new(here, "the script is too large or too deep once its aliases are expanded")
                .expected(format!("at most {MAX_NODES} values, {MAX_DEPTH} levels deep"))
        }
        other => {
            let said = UserMessageFormatter.format_message(other).replace('\'', "`");
            let error = ScriptError::new(here, "not valid YAML").found(said);
            match hint_for_line(text, at.line()) {
                Some(hint) => error.with_hint(hint),
                None => error,
            }
        }
    }
}

/// Returns a hint for the two common syntax errors, based on the line where the parser stopped.
fn hint_for_line(text: &str, number: u64) -> Option<&'static str> {
    let index = usize::try_from(number).ok()?.checked_sub(1)?;
    let line = text.lines().nth(index)?;
    let value = line.split_once(": ").map_or(line, |(_, value)| value).trim_start();
    if line.contains(": {{") || value.starts_with("{{") {
        Some("put a value that starts with `{{` in double quotes")
    } else if value.contains(": ") && !value.starts_with(['"', '\'', '{', '[', '|', '>']) {
        Some("put a text that contains `: ` in double quotes")
    } else {
        None
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Value>::deserialize(deserializer)?;
        Ok(Self { value: spanned.value, place: spanned.referenced })
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<String>::deserialize(deserializer)?;
        Ok(Self { name: spanned.value, place: spanned.referenced })
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Int(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(i64::try_from(value).map_or(Value::Float(value as f64), Value::Int))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(Value::Map(map))
    }
}
