//! The only module that uses the YAML library. It parses a header into values with locations, within limits.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value as Json};
use serde_saphyr::{Location, MessageFormatter as _, Spanned, UserMessageFormatter};

use crate::error::{PromptError, Source};

const MAX_NODES: usize = 50_000;
const MAX_DEPTH: usize = 48;
const MAX_REPLAYED: usize = 50_000;

/// A value of a header, with its location.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) line: usize,
    pub(crate) column: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Scalar(Json),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

impl Node {
    pub(crate) fn entries(&self) -> &[(String, Self)] {
        if let Value::Map(entries) = &self.value { entries } else { &[] }
    }

    /// Returns the value of a key, unless it is missing or null.
    pub(crate) fn get(&self, name: &str) -> Option<&Self> {
        let entry = self.entries().iter().find(|(key, _)| key == name);
        entry.map(|(_, node)| node).filter(|node| node.value != Value::Scalar(Json::Null))
    }

    pub(crate) fn text(&self) -> Option<&str> {
        if let Value::Scalar(Json::String(text)) = &self.value { Some(text) } else { None }
    }

    pub(crate) fn is_map(&self) -> bool {
        matches!(self.value, Value::Map(_))
    }

    pub(crate) fn to_json(&self) -> Json {
        match &self.value {
            Value::Scalar(value) => value.clone(),
            Value::List(items) => items.iter().map(Self::to_json).collect(),
            Value::Map(entries) => {
                let entries = entries.iter().map(|(key, node)| (key.clone(), node.to_json()));
                Json::Object(entries.collect::<Map<_, _>>())
            }
        }
    }
}

/// Parses a header. `first_line` is its line number in the file.
pub(crate) fn parse(text: &str, first_line: usize, source: &Source) -> Result<Node, PromptError> {
    let options = serde_saphyr::options! {
        strict_booleans: true,
        with_snippet: false,
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MAX_REPLAYED },
        budget: serde_saphyr::budget! { max_nodes: MAX_NODES, max_depth: MAX_DEPTH },
    };
    if text.trim().is_empty() {
        return Ok(Node { value: Value::Map(Vec::new()), line: first_line, column: 1 });
    }
    let mut node = serde_saphyr::from_str_with_options::<Node>(text, options).map_err(|error| {
        let at = error.location().unwrap_or(Location::UNKNOWN);
        let (line, column) = place(at);
        let said = UserMessageFormatter.format_message(error.without_snippet()).replace('\'', "`");
        source.error_in_line(line.max(1) + first_line - 1, column, format!("not valid YAML: {said}"))
    })?;
    shift(&mut node, first_line - 1);
    Ok(node)
}

fn shift(node: &mut Node, lines: usize) {
    node.line += lines;
    match &mut node.value {
        Value::Scalar(_) => {}
        Value::List(items) => items.iter_mut().for_each(|item| shift(item, lines)),
        Value::Map(entries) => entries.iter_mut().for_each(|(_, item)| shift(item, lines)),
    }
}

fn place(at: Location) -> (usize, usize) {
    let number = |number: u64| usize::try_from(number).unwrap_or(0);
    (number(at.line()), number(at.column()))
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Value>::deserialize(deserializer)?;
        let (line, column) = place(spanned.referenced);
        Ok(Self { value: spanned.value, line, column })
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

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Scalar(Json::Null))
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Scalar(Json::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Scalar(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Scalar(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Scalar(value.into()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::Scalar(value.into()))
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
