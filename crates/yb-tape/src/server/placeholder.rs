//! Placeholder responses to requests outside of all lanes: side requests, token counts and others.

use serde_json::{Map, Value, json};

use crate::script::{Block, Reply, ScriptedUsage, StreamPacing};

/// Rough estimate, sufficient for a budget display.
const BYTES_PER_TOKEN: usize = 4;
/// Deeper levels of a schema get null.
const MAX_SCHEMA_DEPTH: usize = 16;

/// Replies to a side request with JSON that matches the requested schema, or with one word.
pub(super) fn side_reply(body: &Value) -> Reply {
    let text = match body.pointer("/output_config/format/schema") {
        Some(schema) => sample_value(schema, 0).to_string(),
        None => "ok".to_owned(),
    };
    Reply {
        blocks: vec![Block::Text(text)],
        stop: "end_turn",
        usage: ScriptedUsage::default(),
        pacing: StreamPacing::default(),
        fault: None,
    }
}

/// Returns a minimal value of a JSON Schema; booleans are true, so that checks pass.
fn sample_value(schema: &Value, depth: usize) -> Value {
    if depth > MAX_SCHEMA_DEPTH {
        return Value::Null;
    }
    if let Some(first) = schema.get("const").or_else(|| schema.pointer("/enum/0")) {
        return first.clone();
    }
    let kind = schema.get("type").and_then(|kind| kind.as_str().or_else(|| kind.get(0)?.as_str()));
    // Google uses upper-case types.
    match kind.map(str::to_ascii_lowercase).as_deref() {
        Some("object") => {
            let wanted = schema.get("required").and_then(Value::as_array).into_iter().flatten();
            let fields = wanted.filter_map(Value::as_str).map(|name| {
                let inner = schema.get("properties").and_then(|properties| properties.get(name));
                (name.to_owned(), inner.map_or(Value::Null, |inner| sample_value(inner, depth + 1)))
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

/// Estimates the number of tokens; never 0.
pub(crate) fn count_tokens(body: &Value) -> usize {
    let parts = ["system", "messages", "tools"];
    let bytes: usize =
        parts.iter().filter_map(|part| body.get(part)).map(|part| part.to_string().len()).sum();
    (bytes / BYTES_PER_TOKEN).max(1)
}

/// Returns the body of the response to a `GET` request.
pub(crate) fn get_response(path: &str) -> Value {
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

    use super::{sample_value, side_reply};
    use crate::script::Block;

    #[test]
    fn sample_value_returns_a_minimal_value() {
        let schema = json!({
            "type": "object",
            "properties": {
                "ok": { "type": "boolean" }, "reason": { "type": "string" }, "n": { "type": "integer" },
                "kind": { "enum": ["a", "b"] }, "list": { "type": "array" }, "extra": { "type": "string" },
            },
            "required": ["ok", "reason", "n", "kind", "list", "undescribed"],
        });
        assert_eq!(
            sample_value(&schema, 0),
            json!({ "ok": true, "reason": "ok", "n": 0, "kind": "a", "list": [], "undescribed": null })
        );
    }

    #[test]
    fn side_reply_without_schema_is_one_word() {
        assert_eq!(side_reply(&json!({})).blocks, [Block::Text("ok".into())]);
    }
}
