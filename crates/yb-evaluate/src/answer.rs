//! `answer`: asserts what the final message of the agent says, as text or as JSON.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use regex::Regex;
use serde_json::{Value, json};

use super::recorded_calls::{for_each_call, last_message};
use super::{Assertion, Evaluator, EvaluatorContext, GradeError, Subject, Verdict, into_config};
use yb_case::shape::{FREE, Field, Kind, ONE_OR_MORE, Object, RELATIVE_PATH, text};
use yb_case::{ConfigReader, EvaluatorConfig, EvaluatorInput, EvaluatorSpec};
use yb_model::log::{LogMessage, Role, YouBenchaLog};
use yb_yaml::diagnostic::quoted;

/// The tool by which Claude Code returns structured output.
const STRUCTURED_OUTPUT: &str = "StructuredOutput";
/// How many characters of an answer a verdict contains.
const MAX_SHOWN: usize = 2_000;
/// The largest file with assertions.
const MAX_FILE_BYTES: usize = 4 << 20;

pub(crate) static SPEC: EvaluatorSpec = EvaluatorSpec {
    name: "answer",
    summary: "the final message of the agent, as text or as JSON",
    input: EvaluatorInput::Log,
    config: &CONFIG,
    read,
};

static CONFIG: Object = Object {
    name: "answer",
    fields: &[
        Field::new("assertions", Kind::Object(&ASSERTIONS), "Assertions on the final answer."),
        Field::new(
            "assertions_file",
            RELATIVE_PATH,
            "JSON file with further assertions, relative to this file; variables are not expanded.",
        ),
    ],
};

static ASSERTIONS: Object = Object {
    name: "answerAssertions",
    fields: &[
        Field::new("equals", text(0, usize::MAX), "Expected final answer, without surrounding whitespace."),
        Field::new("contains", ONE_OR_MORE, "Texts that the answer must contain."),
        Field::new("matches", ONE_OR_MORE, "Regular expressions that the answer must match."),
        Field::new("json", Kind::Any, "Expected JSON value, structured or as text."),
        Field::new("json_schema", FREE, "JSON Schema that the value must match."),
    ],
};

/// Assertions about the final message of an agent.
#[derive(Debug, Clone, PartialEq, Default)]
struct AnswerCheck {
    /// The whole text, without surrounding white space.
    equals: Option<String>,
    contains: Vec<String>,
    /// Regular expressions.
    matches: Vec<String>,
    json: Option<Value>,
    json_schema: Option<Value>,
}

fn read(reader: &mut ConfigReader<'_, '_>) -> Option<Arc<dyn EvaluatorConfig>> {
    let mut check = AnswerCheck::default();
    if let Some(node) = reader.get("assertions") {
        check = AnswerCheck::from_json(&node.to_json());
        for expression in &check.matches {
            let at = node.get("matches").unwrap_or(node).span;
            reader.check_regex(expression, at, "assertions.matches");
        }
        if let (Some(schema), Some(at)) = (&check.json_schema, node.get("json_schema")) {
            reader.check_json_schema(schema, at.span, "assertions.json_schema");
        }
    }
    if let Some(more) = read_assertions_file(reader) {
        check.equals = more.equals.or(check.equals);
        check.contains.extend(more.contains);
        check.matches.extend(more.matches);
        check.json = more.json.or(check.json);
        check.json_schema = more.json_schema.or(check.json_schema);
    }
    Some(into_config(check))
}

/// Reads and checks `assertions_file`.
fn read_assertions_file(reader: &mut ConfigReader<'_, '_>) -> Option<AnswerCheck> {
    const KEY: &str = "assertions_file";
    let node = reader.get(KEY)?;
    let path = node.text()?;
    let content = reader.read_file(path, MAX_FILE_BYTES).map_err(|error| error.to_string());
    let value = content
        .and_then(|bytes| serde_json::from_slice::<Value>(&bytes).map_err(|error| error.to_string()))
        .and_then(|value| match value.as_object() {
            None => Err("not a JSON object".to_owned()),
            Some(map) => {
                let known = |key: &String| ASSERTIONS.names().any(|name| name == key);
                match map.keys().find(|key| !known(key)) {
                    Some(key) => Err(format!("unknown key `{key}`")),
                    None => Ok(value),
                }
            }
        });
    match value {
        Ok(value) => {
            let check = AnswerCheck::from_json(&value);
            for expression in &check.matches {
                reader.check_regex(expression, node.span, KEY);
            }
            if let Some(schema) = &check.json_schema {
                reader.check_json_schema(schema, node.span, KEY);
            }
            Some(check)
        }
        Err(error) => {
            let message = format!("failed to read the assertions ({error}): {}", quoted(path));
            reader.error(node.span, KEY, message).hint(
                "use a JSON file with the keys of `assertions`, in or below the directory of the case file",
            );
            None
        }
    }
}

impl AnswerCheck {
    fn from_json(value: &Value) -> Self {
        let texts = |key: &str| match &value[key] {
            Value::String(text) => vec![text.clone()],
            Value::Array(items) => items.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            _ => Vec::new(),
        };
        let json = |key: &str| value.get(key).filter(|value| !value.is_null()).cloned();
        Self {
            equals: value["equals"].as_str().map(str::to_owned),
            contains: texts("contains"),
            matches: texts("matches"),
            json: json("json"),
            json_schema: json("json_schema"),
        }
    }
}

#[async_trait]
impl Evaluator for AnswerCheck {
    fn is_vacuous(&self) -> bool {
        *self == Self::default()
    }

    async fn evaluate(&self, subject: &Subject, _context: &EvaluatorContext) -> Result<Verdict, GradeError> {
        let (wanted, log, frames) = (self.clone(), Arc::clone(&subject.log), subject.frames.clone());
        if log.omitted.is_none() {
            return grade(&wanted, &log, None);
        }
        let graded = tokio::task::spawn_blocking(move || grade(&wanted, &log, frames.as_deref()));
        graded.await.map_err(|error| GradeError::other(error.to_string()))?
    }
}

fn grade(wanted: &AnswerCheck, log: &YouBenchaLog, frames: Option<&Path>) -> Result<Verdict, GradeError> {
    let other = |error: String| GradeError::other(error);
    let own = |message: &LogMessage| {
        let is_own = message.role == Role::Assistant && message.parent_tool_call_id.is_none();
        is_own && !message.content.trim().is_empty()
    };
    let message = last_message(log, frames, &own)?;
    let text = message.as_ref().map(|message| message.content.trim());
    let object = object(log, frames, text)?;
    let mut checks = Vec::new();
    if text.is_none() && object.is_none() {
        checks.push(Assertion::new("answered", false).with_message(|| "the agent gave no answer".to_owned()));
    }
    let answer = text.unwrap_or_default();
    if let Some(expected) = &wanted.equals {
        let check = Assertion::new("equals", text.is_some() && answer == expected.trim());
        let check = check.with_values(cut(answer), cut(expected.trim()));
        checks
            .push(check.with_message(|| {
                format!("expected `{}`, found `{}`", brief(expected.trim()), brief(answer))
            }));
    }
    for part in &wanted.contains {
        let check =
            Assertion::new("contains", answer.contains(part.as_str())).with_values(cut(answer), cut(part));
        checks.push(check.with_message(|| format!("`{}` is not in `{}`", brief(part), brief(answer))));
    }
    for expression in &wanted.matches {
        let regex = Regex::new(expression).map_err(|error| other(error.to_string()))?;
        let check =
            Assertion::new("matches", regex.is_match(answer)).with_values(cut(answer), expression.as_str());
        checks.push(
            check.with_message(|| format!("`{}` does not match in `{}`", brief(expression), brief(answer))),
        );
    }
    if let Some(expected) = &wanted.json {
        let same = object.as_ref().is_some_and(|object| equal_json(object, expected));
        let check =
            Assertion::new("json", same).with_values(object.clone().unwrap_or_default(), expected.clone());
        checks.push(check.with_message(|| match &object {
            Some(object) => {
                format!("expected {}, found {}", brief(&expected.to_string()), brief(&object.to_string()))
            }
            None => format!("not JSON: `{}`", brief(answer)),
        }));
    }
    if let Some(schema) = &wanted.json_schema {
        let validator = jsonschema::validator_for(schema).map_err(|error| other(error.to_string()))?;
        let wrong = match &object {
            None => Some(format!("not JSON: `{}`", brief(answer))),
            Some(object) => validator.iter_errors(object).next().map(|error| {
                let at = error.instance_path().to_string();
                let at = if at.is_empty() { String::new() } else { format!(" at `{at}`") };
                format!("does not match its schema{at}: {}", brief(&error.to_string()))
            }),
        };
        let check = Assertion::new("json_schema", wrong.is_none());
        checks.push(check.with_message(|| wrong.unwrap_or_default()));
    }
    let passed = checks.iter().filter(|check| check.passed).count();
    let summary = format!("{passed} of {} checks passed", checks.len());
    let shown = object.unwrap_or_else(|| json!(cut(answer)));
    Ok(Verdict::from_checks(checks).metric("answer", shown).with_summary(&summary))
}

/// Returns the structured output, or else the final message if it is JSON.
fn object(
    log: &YouBenchaLog,
    frames: Option<&Path>,
    text: Option<&str>,
) -> Result<Option<Value>, GradeError> {
    let mut given = None;
    for_each_call(log, frames, &mut |call| {
        let is_own = call.name == STRUCTURED_OUTPUT && call.parent_tool_call_id.is_none();
        if is_own && call.is_error != Some(true) {
            given = Some(call.arguments.clone());
        }
    })?;
    if let Some(arguments) = given {
        return Ok(serde_json::from_str(&arguments).ok());
    }
    let Some(text) = text else { return Ok(None) };
    let inner = text.strip_prefix("```json").or_else(|| text.strip_prefix("```")).unwrap_or(text);
    Ok(serde_json::from_str(inner.strip_suffix("```").unwrap_or(inner).trim()).ok())
}

/// Compares JSON values; numbers are equal by value, so that `1` equals `1.0`.
fn equal_json(one: &Value, two: &Value) -> bool {
    match (one, two) {
        (Value::Number(one), Value::Number(two)) => one == two || one.as_f64() == two.as_f64(),
        (Value::Array(one), Value::Array(two)) => {
            one.len() == two.len() && one.iter().zip(two).all(|(one, two)| equal_json(one, two))
        }
        (Value::Object(one), Value::Object(two)) => {
            one.len() == two.len()
                && one.iter().all(|(key, one)| two.get(key).is_some_and(|two| equal_json(one, two)))
        }
        _ => one == two,
    }
}

fn cut(text: &str) -> String {
    shorten(text, MAX_SHOWN)
}

/// Shortens a text to one line of a message.
fn brief(text: &str) -> String {
    shorten(text, 80).replace('\n', " ")
}

fn shorten(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EvaluatorStatus;
    use crate::fixtures::{call, log};

    fn log_with_messages(texts: &[(&str, Option<&str>)]) -> YouBenchaLog {
        let mut log = log();
        log.messages = texts
            .iter()
            .map(|(text, parent)| {
                let message = json!({"role": "assistant", "content": text, "timestamp": "2026-01-01T00:00:00Z", "parent_tool_call_id": parent});
                serde_json::from_value(message).unwrap()
            })
            .collect();
        log
    }

    fn verdict(wanted: &AnswerCheck, log: &YouBenchaLog) -> (bool, String) {
        let verdict = grade(wanted, log, None).unwrap();
        (verdict.status == EvaluatorStatus::Passed, verdict.message)
    }

    #[test]
    fn last_message_of_the_main_thread_counts() {
        let log = log_with_messages(&[
            ("first", None),
            (" Paris. \n", None),
            ("", None),
            ("a helper's", Some("x")),
        ]);
        let equals = |text: &str| AnswerCheck { equals: Some(text.to_owned()), ..AnswerCheck::default() };
        assert!(verdict(&equals("Paris."), &log).0);
        assert_eq!(
            verdict(&equals("London."), &log),
            (false, "✗ 0 of 1 checks passed | expected `London.`, found `Paris.`".to_owned())
        );
        let parts = AnswerCheck {
            contains: vec!["Par".to_owned()],
            matches: vec!["^P.*s".to_owned(), r"\d".to_owned()],
            ..AnswerCheck::default()
        };
        assert_eq!(verdict(&parts, &log).1, r"✗ 2 of 3 checks passed | `\d` does not match in `Paris.`");
    }

    #[test]
    fn json_is_structured_output_or_final_text() {
        let wanted = AnswerCheck {
            json: Some(json!({"n": 1, "list": [1.5]})),
            json_schema: Some(json!({"type": "object", "required": ["n"]})),
            ..AnswerCheck::default()
        };
        let mut given = log_with_messages(&[("Done.", None)]);
        given.tool_calls = vec![
            call(STRUCTURED_OUTPUT, r#"{"n": 2}"#, Some(true)),
            call(STRUCTURED_OUTPUT, r#"{"list": [1.5], "n": 1.0}"#, Some(false)),
        ];
        assert!(verdict(&wanted, &given).0);
        assert!(
            verdict(&wanted, &log_with_messages(&[("```json\n{\"n\": 1, \"list\": [1.5]}\n```", None)])).0
        );
        let (passed, message) = verdict(&wanted, &log_with_messages(&[("{\"m\": 1}", None)]));
        assert!(!passed && message.contains("does not match its schema"), "{message}");
        assert!(!verdict(&wanted, &log_with_messages(&[("Done.", None)])).0);
    }

    #[test]
    fn agent_without_an_answer_fails() {
        let (passed, message) = verdict(&AnswerCheck::default(), &log());
        assert_eq!((passed, message.as_str()), (false, "✗ 0 of 1 checks passed | the agent gave no answer"));
    }
}
