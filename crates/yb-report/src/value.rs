//! JSON that nobody has described, as people can read it: never `[object Object]`.

use serde_json::{Map, Value};

/// How a value is best shown.
pub(crate) enum Shape<'a> {
    /// In one line.
    Line(String),
    /// A list of lines.
    List(Vec<String>),
    /// Rows of the same columns.
    Table(Vec<&'a str>, Vec<Vec<String>>),
    /// As JSON.
    Json(String),
}

/// Rows or lines beyond this are counted and left out.
pub(crate) const ROWS: usize = 20;

/// How long a nested value may be before it is cut.
const JSON: usize = 4_000;

pub(crate) fn shape(value: &Value) -> Shape<'_> {
    match value {
        Value::Array(values) if values.is_empty() => Shape::Line("none".to_owned()),
        Value::Array(values) if values.iter().all(is_scalar) => {
            let line = plain(value);
            if line.chars().count() <= 60 {
                Shape::Line(line)
            } else {
                Shape::List(values.iter().map(plain).collect())
            }
        }
        Value::Array(values) => table(values).unwrap_or_else(|| json(value)),
        Value::Object(fields) if fields.is_empty() => Shape::Line("none".to_owned()),
        Value::Object(fields) if fields.values().all(is_scalar) => {
            Shape::List(fields.iter().map(|(name, value)| format!("{name}: {}", plain(value))).collect())
        }
        Value::Object(_) => json(value),
        _ => Shape::Line(plain(value)),
    }
}

fn json(value: &Value) -> Shape<'static> {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    Shape::Json(crate::figures::shorten(&text, JSON))
}

/// Objects whose values are all simple are rows; the columns are those of the first, then what others add.
fn table(values: &[Value]) -> Option<Shape<'_>> {
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
    // What names a row comes first; a map has forgotten the order of its fields.
    columns.sort_by_key(|name| !matches!(*name, "path" | "name" | "file" | "id" | "gate"));
    if columns.len() > 8 {
        return None;
    }
    let cell = |row: &Map<String, Value>, name: &str| row.get(name).map(plain).unwrap_or_default();
    let cells = rows.iter().map(|row| columns.iter().map(|name| cell(row, name)).collect()).collect();
    Some(Shape::Table(columns, cells))
}

fn is_scalar(value: &Value) -> bool {
    !value.is_array() && !value.is_object()
}

/// A value in one line.
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

/// As many digits as say something.
fn decimal(number: f64) -> String {
    let text = format!("{number:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "0" && number != 0.0 { format!("{number}") } else { text.to_owned() }
}

/// A name as people write it: `lines_added` is `lines added`.
pub(crate) fn spoken(name: &str) -> String {
    name.replace('_', " ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_lines_lists_tables_or_json() {
        let line = |value: &Value| match shape(value) {
            Shape::Line(text) => text,
            _ => "?".to_owned(),
        };
        assert_eq!(line(&json!(1.5)), "1.5");
        assert_eq!(line(&json!(1.584_962_5)), "1.585");
        assert_eq!(line(&json!(0.000_001)), "0.000001");
        assert_eq!(line(&json!(["a", 1, null])), "a, 1, none");
        assert_eq!(line(&json!([])), "none");
        let files = json!([{"changes": 1, "path": "a"}, {"path": "b", "mode": "x"}]);
        let Shape::Table(columns, rows) = shape(&files) else { panic!() };
        assert_eq!(columns, ["path", "changes", "mode"]);
        assert_eq!(rows, [["a", "1", ""], ["b", "", "x"]]);
        assert!(matches!(shape(&json!({"a": {"b": 1}})), Shape::Json(_)));
        assert!(matches!(shape(&json!({"a": 1})), Shape::List(_)));
    }
}
