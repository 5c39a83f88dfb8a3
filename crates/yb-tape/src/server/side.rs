//! Polite answers to what no lane speaks to: side questions, token counts, and whatever else an agent asks.

use serde_json::{Map, Value, json};

use crate::script::{Block, Pace, Reply, Usage};

/// The API's rough rule, good enough for a budget display.
const BYTES_PER_TOKEN: usize = 4;
/// A schema deeper than this is answered with null from there on.
const MAX_SCHEMA_DEPTH: usize = 16;

/// An answer to a side question: JSON of the wanted shape, or a word.
pub(super) fn reply(body: &Value) -> Reply {
    let text = match body.pointer("/output_config/format/schema") {
        Some(schema) => sample(schema, 0).to_string(),
        None => "ok".to_owned(),
    };
    Reply {
        blocks: vec![Block::Text(text)],
        stop: "end_turn",
        usage: Usage::default(),
        pace: Pace::default(),
        fault: None,
    }
}

/// The smallest agreeable value of a JSON Schema: flags that say no harm was found are true.
fn sample(schema: &Value, depth: usize) -> Value {
    if depth > MAX_SCHEMA_DEPTH {
        return Value::Null;
    }
    if let Some(first) = schema.get("const").or_else(|| schema.pointer("/enum/0")) {
        return first.clone();
    }
    let kind = schema.get("type").and_then(|kind| kind.as_str().or_else(|| kind.get(0)?.as_str()));
    // Google writes them in capitals.
    match kind.map(str::to_ascii_lowercase).as_deref() {
        Some("object") => {
            let wanted = schema.get("required").and_then(Value::as_array).into_iter().flatten();
            let fields = wanted.filter_map(Value::as_str).map(|name| {
                let inner = schema.get("properties").and_then(|properties| properties.get(name));
                (name.to_owned(), inner.map_or(Value::Null, |inner| sample(inner, depth + 1)))
            });
            Value::Object(fields.collect::<Map<_, _>>())
        }
        Some("array") => json!([]),
        Some("boolean") => json!(true),
        Some("integer" | "number") => json!(0),
        Some("string") => json!("ok"),
        _ => Value::Null,
    }
}

/// An estimate that is never 0.
pub(crate) fn count_tokens(body: &Value) -> usize {
    let parts = ["system", "messages", "tools"];
    let bytes: usize =
        parts.iter().filter_map(|part| body.get(part)).map(|part| part.to_string().len()).sum();
    (bytes / BYTES_PER_TOKEN).max(1)
}

/// The body for a `GET` of anything.
pub(crate) fn courtesy(path: &str) -> Value {
    match path.strip_prefix("/v1/models") {
        Some("" | "/") => json!({ "data": [], "has_more": false, "first_id": null, "last_id": null }),
        Some(id) => {
            let id = id.trim_start_matches('/');
            json!({ "type": "model", "id": id, "display_name": id, "created_at": "2026-01-01T00:00:00Z" })
        }
        None => json!({}),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{reply, sample};
    use crate::script::Block;

    #[test]
    fn a_schema_gets_its_smallest_value() {
        let schema = json!({
            "type": "object",
            "properties": {
                "ok": { "type": "boolean" }, "reason": { "type": "string" }, "n": { "type": "integer" },
                "kind": { "enum": ["a", "b"] }, "list": { "type": "array" }, "extra": { "type": "string" },
            },
            "required": ["ok", "reason", "n", "kind", "list", "undescribed"],
        });
        assert_eq!(
            sample(&schema, 0),
            json!({ "ok": true, "reason": "ok", "n": 0, "kind": "a", "list": [], "undescribed": null })
        );
    }

    #[test]
    fn without_a_schema_a_word_is_enough() {
        assert_eq!(reply(&json!({})).blocks, [Block::Text("ok".into())]);
    }
}
