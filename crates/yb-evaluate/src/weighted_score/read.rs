//! Reads the configuration of graders, in a case or in a JSON file.

use std::sync::Arc;

use serde_json::Value;

use super::grader::{CallPattern, Grader, GraderKind, MatchRule, TARGETS, TYPES, Target};
use super::js_regex::JsRegex;
use super::judge::{self, JudgeSettings};
use super::{GRADER, WeightedScore};
use crate::into_config;
use yb_case::{ConfigReader, EvaluatorConfig};
use yb_yaml::Node;
use yb_yaml::diagnostic::quoted;

/// The largest file with graders.
const MAX_FILE_BYTES: usize = 4 << 20;

pub(super) fn read(reader: &mut ConfigReader<'_, '_>) -> Option<Arc<dyn EvaluatorConfig>> {
    let mut graders: Vec<Grader> = Vec::new();
    let items = reader.get("graders").map(Node::items).unwrap_or_default();
    for (at, node) in items.iter().enumerate() {
        match parse(&node.to_json(), at) {
            Ok(grader) => graders.push(grader),
            Err(reason) => {
                reader.error(node.span, &format!("graders[{at}]"), format!("invalid grader: {reason}"));
            }
        }
    }
    if let Some(node) = reader.get("graders_file")
        && let Some(path) = node.text()
    {
        match read_file(reader, path, graders.len()) {
            Ok(more) => graders.extend(more),
            Err(reason) => {
                let message = format!("failed to read the graders ({reason}): {}", quoted(path));
                let hint =
                    "use a JSON file with a list of graders, in or below the directory of the case file";
                reader.error(node.span, "graders_file", message).hint(hint);
            }
        }
    }
    let at = reader.config().span;
    for (index, grader) in graders.iter().enumerate() {
        if graders.iter().take(index).any(|other| other.name == grader.name) {
            reader.error(at, "graders", format!("two graders have the same name: {}", quoted(&grader.name)));
        }
    }
    if graders.is_empty() {
        reader.error(at, "graders", "no graders").hint("add `graders` or `graders_file`");
        return None;
    }
    let needs_judge = graders.iter().any(|grader| matches!(grader.kind, GraderKind::Judged { .. }));
    let settings = reader.text("judge.type").map(|agent| JudgeSettings {
        agent,
        model: reader.text("judge.model"),
        votes: reader.count("judge.votes").and_then(|votes| u32::try_from(votes).ok()).unwrap_or(3),
        max_budget_usd: reader.number("judge.max_budget_usd"),
        command: match reader.get("judge.command").map(Node::to_json) {
            Some(Value::Object(command)) => command,
            _ => serde_json::Map::new(),
        },
    });
    if needs_judge && settings.is_none() {
        reader
            .error(at, "judge", "graders `llm` and `baseline` need a judge")
            .hint("add `judge: { type: claude-code }`");
    }
    let judge = settings.filter(|_| needs_judge).map(|settings| judge::of(&graders, settings, reader.dir()));
    let threshold = reader.number("threshold").unwrap_or(1.0);
    Some(into_config(WeightedScore { graders, threshold, judge }))
}

fn read_file(reader: &ConfigReader<'_, '_>, path: &str, before: usize) -> Result<Vec<Grader>, String> {
    let bytes = reader.read_file(path, MAX_FILE_BYTES).map_err(|error| error.to_string())?;
    let value: Value = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
    let items = value.as_array().ok_or("not a list")?;
    let parsed = items
        .iter()
        .enumerate()
        .map(|(at, item)| parse(item, before + at).map_err(|reason| format!("grader {}: {reason}", at + 1)));
    parsed.collect()
}

/// Parses a grader. Its keys and types were checked before only if it is in a case.
fn parse(value: &Value, index: usize) -> Result<Grader, String> {
    let map = value.as_object().ok_or("not a mapping")?;
    if let Some(key) = map.keys().find(|key| GRADER.field(key).is_none()) {
        return Err(format!("unknown key `{key}`"));
    }
    let text = |key: &str| match map.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str())),
        Some(_) => Err(format!("`{key}` is not a string")),
    };
    let flag = |key: &str, default: bool| match map.get(key) {
        None | Some(Value::Null) => Ok(default),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(_) => Err(format!("`{key}` is not `true` or `false`")),
    };
    let count = |key: &str| match map.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(number) => number.as_u64().map(Some).ok_or_else(|| format!("`{key}` is not an integer")),
    };
    let required = |key: &str| text(key)?.ok_or_else(|| format!("missing key `{key}`"));
    let kind = required("type")?;
    let weight = map.get("weight").map_or(Some(1.0), Value::as_f64).filter(|weight| *weight > 0.0);
    let limit = || map.get("max_value").and_then(Value::as_f64).ok_or("missing key `max_value`");
    let parsed = match kind {
        "regex" => GraderKind::Regex {
            regex: regex(required("pattern")?, text("flags")?.unwrap_or_default())?,
            rule: rule(text("match")?.unwrap_or("contains"))?,
            target: target(map.get("target"))?,
        },
        "tool_used" => GraderKind::ToolUsed {
            call: CallPattern {
                tool: required("tool")?.to_owned(),
                input: text("input_match")?.map(|pattern| regex(pattern, "")).transpose()?,
            },
            min: count("min")?.unwrap_or(1),
            max: count("max")?,
        },
        "tool_order" => GraderKind::ToolOrder {
            before: call(map.get("before").ok_or("missing key `before`")?)?,
            after: call(map.get("after").ok_or("missing key `after`")?)?,
        },
        "file_exists" => {
            GraderKind::FileExists { glob: required("path")?.to_owned(), exists: flag("exists", true)? }
        }
        "llm" => {
            let criteria = required("criteria")?;
            let text = judge::assertion(criteria, &target(map.get("focus"))?);
            GraderKind::Judged { text, criteria: criteria.to_owned() }
        }
        "baseline" => {
            let criteria = text("criteria")?.unwrap_or("the final message is at least as good").to_owned();
            let baseline = required("baseline")?;
            let text = format!("Compared with the baseline below: {criteria}\n\nBaseline:\n{baseline}");
            GraderKind::Judged { text, criteria }
        }
        "json" => GraderKind::Json { target: target(map.get("target"))? },
        "cost" => GraderKind::MaxCost { usd: limit()? },
        "duration" => GraderKind::MaxDuration { seconds: limit()? },
        other => return Err(format!("unknown type `{other}` (expected one of {})", TYPES.join(", "))),
    };
    Ok(Grader {
        name: text("name")?.map_or_else(|| format!("grader-{}", index + 1), str::to_owned),
        weight: weight.ok_or("`weight` is not a number above 0")?,
        with_only: text("arm")? == Some("with-only"),
        scored: flag("scored", true)?,
        negate: flag("negate", false)?,
        kind: parsed,
    })
}

fn regex(pattern: &str, flags: &str) -> Result<JsRegex, String> {
    JsRegex::new(pattern, flags)
        .map_err(|reason| format!("invalid regular expression ({reason}): {}", quoted(pattern)))
}

fn rule(text: &str) -> Result<MatchRule, String> {
    match text {
        "contains" => Ok(MatchRule::Contains),
        "not_contains" => Ok(MatchRule::NotContains),
        other => {
            let count = other.strip_prefix("count:").and_then(|number| number.trim().parse().ok());
            count.map(MatchRule::Count).ok_or_else(|| {
                format!("`match` is not `contains`, `not_contains` or `count:N`: {}", quoted(other))
            })
        }
    }
}

fn target(value: Option<&Value>) -> Result<Target, String> {
    match value {
        None | Some(Value::Null) => Ok(Target::LastMessage),
        Some(Value::Object(map)) => {
            let path = map.get("path").and_then(Value::as_str);
            let path = path.filter(|_| map.get("source").and_then(Value::as_str) == Some("file"));
            path.map(|path| Target::File(path.to_owned()))
                .ok_or_else(|| "a target that is a mapping needs `source: file` and `path`".to_owned())
        }
        Some(value) => match value.as_str() {
            Some("last_message") => Ok(Target::LastMessage),
            Some("trace") => Ok(Target::Trace),
            Some("files") => Ok(Target::Files),
            _ => Err(format!("unknown target {value} (expected one of {})", TARGETS.join(", "))),
        },
    }
}

fn call(value: &Value) -> Result<CallPattern, String> {
    let (tool, input) = match value {
        Value::String(tool) => (Some(tool.as_str()), None),
        value => (value["tool"].as_str(), value["input_match"].as_str()),
    };
    let tool = tool.ok_or("expected the name of a tool, or `{ tool, input_match }`")?.to_owned();
    Ok(CallPattern { tool, input: input.map(|pattern| regex(pattern, "")).transpose()? })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn invalid_graders_are_rejected_with_the_reason() {
        for (grader, reason) in [
            (json!({ "type": "regex" }), "missing key `pattern`"),
            (json!({ "type": "regex", "pattern": "(" }), "invalid regular expression"),
            (json!({ "type": "regex", "pattern": "a", "match": "some" }), "`match` is not"),
            (json!({ "type": "regex", "pattern": "a", "target": "mail" }), "unknown target"),
            (json!({ "type": "regex", "pattern": "a", "target": { "path": "x" } }), "source: file"),
            (json!({ "type": "tool_used", "tool": "X", "min": -1 }), "`min` is not an integer"),
            (json!({ "type": "tool_order", "before": "X" }), "missing key `after`"),
            (json!({ "type": "file_exists", "path": "x", "exists": 1 }), "`exists` is not"),
            (json!({ "type": "llm" }), "missing key `criteria`"),
            (json!({ "type": "python" }), "unknown type `python`"),
            (json!({ "type": "llm", "criteria": "x", "votes": 1 }), "unknown key `votes`"),
            (json!({ "type": "llm", "criteria": "x", "weight": 0 }), "`weight` is not"),
        ] {
            let error = parse(&grader, 0).unwrap_err();
            assert!(error.contains(reason), "{grader}: {error}");
        }
    }

    #[test]
    fn grader_without_name_gets_one_by_position() {
        assert_eq!(parse(&json!({ "type": "regex", "pattern": "a" }), 2).unwrap().name, "grader-3");
    }
}
