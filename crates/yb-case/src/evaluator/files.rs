//! What `files` asserts: which files there are, and what is in them.

use serde_json::Value as Json;

use super::{Context, texts};
use crate::check::{Checker, join};
use crate::files;
use yb_yaml::diagnostic::quoted;
use yb_yaml::{Entry, Node, Value};

/// What files there must be, and what must be in them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Files {
    /// Globs, each of which must match a file.
    pub exists: Vec<String>,
    /// Globs that must match nothing.
    pub absent: Vec<String>,
    /// Files with texts that must be in them.
    pub contains: Vec<(String, Vec<String>)>,
    /// Files with regular expressions that must match in them.
    pub matches: Vec<(String, Vec<String>)>,
    /// Files with the JSON Schemas that they must satisfy.
    pub json_schema: Vec<(String, Json)>,
    /// Globs of files that must be as they were at the start.
    pub unchanged: Vec<String>,
    /// Whether changing those is cheating.
    pub tampering: bool,
}

/// The largest schema that is read.
const SCHEMA_BYTES: usize = 1 << 20;

pub(super) fn read(config: &Node, path: &str, context: &Context<'_>, checker: &mut Checker<'_, '_>) -> Files {
    let none = Node { value: Value::Map(Vec::new()), span: config.span };
    let assertions = config.get("assertions").unwrap_or(&none);
    let path = join(path, "assertions");
    let by_file = |key: &str| -> Vec<(String, Vec<String>)> {
        let entries = assertions.get(key).map(Node::entries).unwrap_or_default().iter();
        entries.map(|entry| (entry.key.name.clone(), one_or_more(&entry.node))).collect()
    };
    let matches = assertions.get("matches").map(Node::entries).unwrap_or_default();
    for Entry { key, node } in matches {
        for expression in one_or_more(node) {
            check_regex(&expression, node, &join(&join(&path, "matches"), &key.name), checker);
        }
    }
    let schemas = assertions.get("json_schema").map(Node::entries).unwrap_or_default().iter();
    let json_schema = schemas
        .filter_map(|entry| {
            let path = join(&join(&path, "json_schema"), &entry.key.name);
            Some((entry.key.name.clone(), schema(&entry.node, &path, context, checker)?))
        })
        .collect();
    Files {
        exists: texts(assertions.get("exists")),
        absent: texts(assertions.get("absent")),
        contains: by_file("contains"),
        matches: by_file("matches"),
        json_schema,
        unchanged: texts(assertions.get("unchanged")),
        tampering: matches!(config.get("tampering").map(|node| &node.value), Some(Value::Bool(true))),
    }
}

fn one_or_more(node: &Node) -> Vec<String> {
    node.text().map_or_else(|| texts(Some(node)), |text| vec![text.to_owned()])
}

/// A schema in place, or that of a file beside the case.
fn schema(node: &Node, path: &str, context: &Context<'_>, checker: &mut Checker<'_, '_>) -> Option<Json> {
    let schema = match node.text() {
        None => node.to_json(),
        Some(text) => {
            let read = files::find(context.dir, text).and_then(|found| files::read(&found, SCHEMA_BYTES));
            match read
                .map_err(|error| error.to_string())
                .and_then(|bytes| serde_json::from_slice(&bytes).map_err(|error| error.to_string()))
            {
                Ok(schema) => schema,
                Err(error) => {
                    let message = format!("failed to read the schema ({error}): {}", quoted(text));
                    checker.found.error(node.span, path, message).hint(
                        "a JSON file; the path starts at the directory of the case file, and stays below it",
                    );
                    return None;
                }
            }
        }
    };
    if let Err(error) = jsonschema::validator_for(&schema) {
        let message = format!("not a JSON Schema that can be used: {error}");
        checker.found.error(node.span, path, message).hint("references to other files are not followed");
        return None;
    }
    Some(schema)
}

/// Says what is wrong with a regular expression.
pub(super) fn check_regex(expression: &str, node: &Node, path: &str, checker: &mut Checker<'_, '_>) {
    if let Err(error) = regex::bytes::Regex::new(expression) {
        let text = error.to_string();
        let last = text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
        let message = format!("not a regular expression ({last}): {}", quoted(expression));
        checker.found.error(node.span, path, message).hint("in single quotes a backslash stands for itself");
    }
}
