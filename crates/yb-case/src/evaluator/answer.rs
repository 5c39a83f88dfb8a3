//! What `answer` asserts: what an agent says at its end, in words or as an object.

use serde_json::Value as Json;

use super::{Context, files};
use crate::check::{Checker, join};
use crate::files as case_files;
use yb_yaml::diagnostic::quoted;
use yb_yaml::{Node, Value};

/// What an agent's last words must be.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answer {
    /// The answer itself, but for space around it.
    pub equals: Option<String>,
    /// Texts that must be in it.
    pub contains: Vec<String>,
    /// Regular expressions that must match in it.
    pub matches: Vec<String>,
    /// The value that it must be, as JSON.
    pub json: Option<Json>,
    /// The JSON Schema that it must satisfy.
    pub json_schema: Option<Json>,
}

/// The largest file with assertions.
const MAX_BYTES: usize = 4 << 20;

pub(super) fn read(
    config: &Node,
    path: &str,
    context: &Context<'_>,
    checker: &mut Checker<'_, '_>,
) -> Answer {
    let none = Node { value: Value::Map(Vec::new()), span: config.span };
    let node = config.get("assertions").unwrap_or(&none);
    let inline = join(path, "assertions");
    if let Some(expressions) = node.get("matches") {
        for expression in texts(&expressions.to_json()) {
            files::check_regex(&expression, expressions, &join(&inline, "matches"), checker);
        }
    }
    if let Some(schema) = node.get("json_schema") {
        check_schema(&schema.to_json(), schema, &join(&inline, "json_schema"), checker);
    }
    let mut answer = of(&node.to_json());
    if let Some(node) = config.get("assertions_file") {
        let path = join(path, "assertions_file");
        if let Some(value) = from_file(node, &path, context, checker) {
            let more = of(&value);
            for expression in &more.matches {
                files::check_regex(expression, node, &path, checker);
            }
            if let Some(schema) = &more.json_schema {
                check_schema(schema, node, &path, checker);
            }
            answer.equals = more.equals.or(answer.equals);
            answer.contains.extend(more.contains);
            answer.matches.extend(more.matches);
            answer.json = more.json.or(answer.json);
            answer.json_schema = more.json_schema.or(answer.json_schema);
        }
    }
    answer
}

fn of(value: &Json) -> Answer {
    let kept = |key: &str| value.get(key).filter(|value| !value.is_null()).cloned();
    Answer {
        equals: value["equals"].as_str().map(str::to_owned),
        contains: texts(&value["contains"]),
        matches: texts(&value["matches"]),
        json: kept("json"),
        json_schema: kept("json_schema"),
    }
}

/// One text, or several.
fn texts(value: &Json) -> Vec<String> {
    match value {
        Json::String(text) => vec![text.clone()],
        Json::Array(items) => items.iter().filter_map(Json::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

fn check_schema(schema: &Json, node: &Node, path: &str, checker: &mut Checker<'_, '_>) {
    if let Err(error) = jsonschema::validator_for(schema) {
        let message = format!("not a JSON Schema that can be used: {error}");
        checker.found.error(node.span, path, message).hint("references to other files are not followed");
    }
}

fn from_file(node: &Node, path: &str, context: &Context<'_>, checker: &mut Checker<'_, '_>) -> Option<Json> {
    const KEYS: [&str; 5] = ["equals", "contains", "matches", "json", "json_schema"];
    let text = node.text()?;
    let read = case_files::find(context.dir, text)
        .and_then(|found| case_files::read(&found, MAX_BYTES))
        .map_err(|error| error.to_string())
        .and_then(|bytes| serde_json::from_slice::<Json>(&bytes).map_err(|error| error.to_string()))
        .and_then(|value| match value.as_object() {
            None => Err("no object".to_owned()),
            Some(map) => match map.keys().find(|key| !KEYS.contains(&key.as_str())) {
                Some(key) => Err(format!("unknown key `{key}`")),
                None => Ok(value),
            },
        });
    match read {
        Ok(value) => Some(value),
        Err(error) => {
            let message = format!("failed to read the assertions ({error}): {}", quoted(text));
            checker.found.error(node.span, path, message).hint(
                "a JSON file with what `assertions` may have; the path starts at the directory of the case file, and \
                 stays below it",
            );
            None
        }
    }
}
