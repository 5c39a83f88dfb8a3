//! Readable forms of JSON values without a known schema.

use serde_json::{Map, Value};

/// How a value is laid out.
pub(crate) enum ValueLayout<'a> {
    /// A single line.
    Line(String),
    /// A list of lines.
    List(Vec<String>),
    /// Rows with common columns.
    Table(Vec<&'a str>, Vec<Vec<String>>),
    /// Pretty-printed JSON.
    Json(String),
}

/// The maximum number of rows or lines; the rest is counted.
pub(crate) const ROWS: usize = 20;

/// The maximum length of nested JSON in characters.
const JSON: usize = 4_000;

pub(crate) fn layout(value: &Value) -> ValueLayout<'_> {
    match value {
        Value::Array(values) if values.is_empty() => ValueLayout::Line("none".to_owned()),
        Value::Array(values) if values.iter().all(is_scalar) => {
            let line = plain(value);
            if line.chars().count() <= 60 {
                ValueLayout::Line(line)
            } else {
                ValueLayout::List(values.iter().map(plain).collect())
            }
        }
        Value::Array(values) => table(values).unwrap_or_else(|| json(value)),
        Value::Object(fields) if fields.is_empty() => ValueLayout::Line("none".to_owned()),
        Value::Object(fields) if fields.values().all(is_scalar) => ValueLayout::List(
            fields.iter().map(|(name, value)| format!("{name}: {}", plain(value))).collect(),
        ),
        Value::Object(_) => json(value),
        _ => ValueLayout::Line(plain(value)),
    }
}

fn json(value: &Value) -> ValueLayout<'static> {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    ValueLayout::Json(crate::text::shorten(&text, JSON))
}

/// Lays out objects with scalar values as rows. The columns are those of the first row, then those that other rows add.
fn table(values: &[Value]) -> Option<ValueLayout<'_>> {
    let rows: Vec<&Map<String, Value>> = values.iter().map(Value::as_object).collect::<Option<_>>()?;
    if !rows.iter().all(|row| row.values().all(is_scalar)) {
        return None;
    }
    let mut columns: Vec<&str> = Vec::new();
    for name in rows.iter().flat_map(|row| row.keys()) {
        if !columns.contains(&name.as_str()) {
            columns.push(name);
        }
    }
    // Identifying columns come first: a JSON map has no order.
    columns.sort_by_key(|name| !matches!(*name, "path" | "name" | "file" | "id" | "gate"));
    if columns.len() > 8 {
        return None;
    }
    let cell = |row: &Map<String, Value>, name: &str| {
        row.get(name).map(|value| plain_field(name, value)).unwrap_or_default()
    };
    let cells = rows.iter().map(|row| columns.iter().map(|name| cell(row, name)).collect()).collect();
    Some(ValueLayout::Table(columns, cells))
}

fn is_scalar(value: &Value) -> bool {
    !value.is_array() && !value.is_object()
}

/// Formats the value of a named field in one line. Answers of gates are shown in the words of the terminal.
pub(crate) fn plain_field(name: &str, value: &Value) -> String {
    match (name, value.as_str()) {
        ("answer", Some("held")) => "passed".to_owned(),
        ("answer" | "decision", Some("cannot_tell")) => "inconclusive".to_owned(),
        _ => plain(value),
    }
}

/// Lays out the value of a named field.
pub(crate) fn field_layout<'a>(name: &str, value: &'a Value) -> ValueLayout<'a> {
    if is_scalar(value) { ValueLayout::Line(plain_field(name, value)) } else { layout(value) }
}

/// Formats a value in one line.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => decimal(float),
            _ => number.to_string(),
        },
        Value::Array(values) if values.iter().all(is_scalar) => {
            values.iter().map(plain).collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

/// Formats a number with at most four decimals, or exactly if it is smaller.
fn decimal(number: f64) -> String {
    let text = format!("{number:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "0" && number != 0.0 { format!("{number}") } else { text.to_owned() }
}

/// Turns a field name into words: `lines_added` becomes `lines added`.
pub(crate) fn readable_name(name: &str) -> String {
    name.replace('_', " ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn layout_depends_on_the_value() {
        let line = |value: &Value| match layout(value) {
            ValueLayout::Line(text) => text,
            _ => "?".to_owned(),
        };
        assert_eq!(line(&json!(1.5)), "1.5");
        assert_eq!(line(&json!(1.584_962_5)), "1.585");
        assert_eq!(line(&json!(0.000_001)), "0.000001");
        assert_eq!(line(&json!(["a", 1, null])), "a, 1, none");
        assert_eq!(line(&json!([])), "none");
        let files = json!([{"changes": 1, "path": "a"}, {"path": "b", "mode": "x"}]);
        let ValueLayout::Table(columns, rows) = layout(&files) else { panic!() };
        assert_eq!(columns, ["path", "changes", "mode"]);
        assert_eq!(rows, [["a", "1", ""], ["b", "", "x"]]);
        assert!(matches!(layout(&json!({"a": {"b": 1}})), ValueLayout::Json(_)));
        assert!(matches!(layout(&json!({"a": 1})), ValueLayout::List(_)));
    }
}
