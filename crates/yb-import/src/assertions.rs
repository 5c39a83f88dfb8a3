//! Assertions of promptfoo and AgentV as graders. Texts become regular expressions, so that one kind of grader decides all of them.

use serde_json::{Value, json};

/// Converts an assertion; an error is why it has no counterpart.
pub(crate) fn convert(assertion: &Value) -> Result<Vec<Value>, String> {
    let map = assertion.as_object().ok_or("not a mapping")?;
    let full = assertion["type"].as_str().ok_or("no `type`")?;
    let (kind, mut negate) = match full.strip_prefix("not-") {
        Some(kind) => (kind, true),
        None => (full, false),
    };
    negate ^= assertion["negate"].as_bool().unwrap_or(false);
    for key in ["transform", "contextTransform", "config", "provider", "rubricPrompt"] {
        if map.contains_key(key) {
            return Err(format!("`{full}` with `{key}`"));
        }
    }
    let value = &assertion["value"];
    let limit =
        || assertion["threshold"].as_f64().or(value.as_f64()).ok_or(format!("`{full}` without a threshold"));
    let regex = |pattern: String, flags: &str| json!({ "type": "regex", "pattern": pattern, "flags": flags });
    let mut graders = match kind {
        "contains" => vec![regex(escape(&text(value)?), "")],
        "icontains" => vec![regex(escape(&text(value)?), "i")],
        "contains-any" => vec![regex(any(value)?, "")],
        "icontains-any" => vec![regex(any(value)?, "i")],
        "contains-all" => vec![regex(all(value)?, "")],
        "icontains-all" => vec![regex(all(value)?, "i")],
        "equals" => vec![regex(format!(r"^\s*{}\s*$", escape(text(value)?.trim())), "")],
        "starts-with" => vec![regex(format!("^{}", escape(&text(value)?)), "")],
        "ends-with" => vec![regex(format!("{}$", escape(&text(value)?)), "")],
        "regex" => vec![regex(text(value)?, "")],
        "is-json" if value.is_null() => vec![json!({ "type": "json" })],
        "latency" => vec![json!({ "type": "duration", "max_value": limit()? / 1000.0 })],
        "cost" => vec![json!({ "type": "cost", "max_value": limit()? })],
        "llm-rubric" | "llm-grader" | "rubric" | "model-graded-closedqa" => {
            let own = ["prompt", "criteria"].iter().find_map(|key| assertion[key].as_str());
            let criteria = own.map_or_else(|| text(value), |own| Ok(own.to_owned()))?;
            vec![json!({ "type": "llm", "criteria": criteria })]
        }
        "skill-used" | "skill-trigger" => {
            let skill = text(value).or_else(|_| text(&assertion["skill"]))?;
            vec![json!({ "type": "tool_used", "tool": "Skill", "input_match": escape(&skill) })]
        }
        "trajectory:tool-used" => {
            texts(value)?.into_iter().map(|tool| json!({ "type": "tool_used", "tool": tool })).collect()
        }
        "trajectory:tool-sequence" => {
            let tools = texts(value.get("steps").unwrap_or(value))?;
            tools
                .windows(2)
                .map(|two| json!({ "type": "tool_order", "before": two[0], "after": two[1] }))
                .collect()
        }
        _ => return Err(format!("`{full}` has no counterpart")),
    };
    if negate && graders.len() != 1 {
        return Err(format!("`{full}` of several tools"));
    }
    for (at, grader) in graders.iter_mut().enumerate() {
        if negate {
            grader["negate"] = json!(true);
        }
        if let Some(weight) = assertion["weight"].as_f64() {
            // A weight of 0 is only reported.
            match weight > 0.0 {
                true => grader["weight"] = json!(weight),
                false => grader["scored"] = json!(false),
            }
        }
        let own = assertion["metric"].as_str().or(assertion["name"].as_str()).unwrap_or(full);
        grader["name"] = if at == 0 { json!(own) } else { json!(format!("{own}-{}", at + 1)) };
    }
    Ok(graders)
}

fn text(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) if text.starts_with("file://") || text.contains("{{") => {
            Err(format!("the value `{text}` needs promptfoo"))
        }
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(flag) => Ok(flag.to_string()),
        _ => Err("the value is not a text".to_owned()),
    }
}

fn texts(value: &Value) -> Result<Vec<String>, String> {
    match value {
        Value::Array(items) if !items.is_empty() => items.iter().map(text).collect(),
        Value::String(list) => Ok(list.split(',').map(|item| item.trim().to_owned()).collect()),
        _ => Err("the value is not a list of texts".to_owned()),
    }
}

fn any(value: &Value) -> Result<String, String> {
    Ok(texts(value)?.iter().map(|text| escape(text)).collect::<Vec<_>>().join("|"))
}

fn all(value: &Value) -> Result<String, String> {
    let parts = texts(value)?;
    Ok(format!("^{}", parts.iter().map(|text| format!(r"(?=[\s\S]*{})", escape(text))).collect::<String>()))
}

/// Escapes a text for a regular expression.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        if r"\^$.|?*+()[]{}/".contains(c) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assertions_become_graders() {
        for (assertion, expected) in [
            (json!({ "type": "contains", "value": "a.b" }), json!({ "pattern": r"a\.b" })),
            (json!({ "type": "not-icontains", "value": "x" }), json!({ "flags": "i", "negate": true })),
            (
                json!({ "type": "contains-all", "value": ["a", "b"] }),
                json!({ "pattern": r"^(?=[\s\S]*a)(?=[\s\S]*b)" }),
            ),
            (
                json!({ "type": "latency", "threshold": 1500 }),
                json!({ "type": "duration", "max_value": 1.5 }),
            ),
            (
                json!({ "type": "llm-rubric", "value": "Polite.", "weight": 2 }),
                json!({ "criteria": "Polite.", "weight": 2.0 }),
            ),
            (json!({ "type": "equals", "value": 4, "weight": 0 }), json!({ "scored": false })),
            (
                json!({ "type": "skill-used", "value": "polite" }),
                json!({ "tool": "Skill", "input_match": "polite" }),
            ),
        ] {
            let graders = convert(&assertion).unwrap();
            for (key, value) in expected.as_object().unwrap() {
                assert_eq!(&graders[0][key], value, "{assertion}: {key}");
            }
        }
    }

    #[test]
    fn assertions_without_counterpart_are_named() {
        for (assertion, reason) in [
            (json!({ "type": "python", "value": "1" }), "`python` has no counterpart"),
            (json!({ "type": "contains", "value": "{{x}}" }), "needs promptfoo"),
            (json!({ "type": "contains", "value": "x", "transform": "y" }), "with `transform`"),
            (json!({ "type": "cost" }), "without a threshold"),
        ] {
            let error = convert(&assertion).unwrap_err();
            assert!(error.contains(reason), "{assertion}: {error}");
        }
    }
}
