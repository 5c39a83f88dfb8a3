//! `answer`: what an agent says at its end, in words or as an object. It is what is graded, so it is nobody's word for
//! anything else.

use async_trait::async_trait;
use regex::Regex;
use serde_json::{Value, json};

use super::{Assertion, Desk, Evaluator, GradeError, Need, Subject, Verdict};
use yb_case::Answer;
use yb_model::log::{Role, YouBenchaLog};

/// The tool by which Claude Code gives an answer that follows a schema.
const STRUCTURED: &str = "StructuredOutput";
/// How much of an answer a verdict shows.
const SHOWN: usize = 2_000;

#[async_trait]
impl Evaluator for Answer {
    fn need(&self) -> Need {
        Need::Log
    }

    async fn evaluate(&self, subject: &Subject, _desk: &Desk) -> Result<Verdict, GradeError> {
        judge(self, &subject.log)
    }
}

fn judge(wanted: &Answer, log: &YouBenchaLog) -> Result<Verdict, GradeError> {
    let other = |error: String| GradeError::other(error);
    let text = last_words(log);
    let object = object(log, text);
    let mut checks = Vec::new();
    if text.is_none() && object.is_none() {
        checks.push(Assertion::of("answered", false).because(|| "the agent said nothing".to_owned()));
    }
    let said = text.unwrap_or_default();
    if let Some(expected) = &wanted.equals {
        let check = Assertion::of("equals", text.is_some() && said == expected.trim());
        let check = check.found(cut(said), cut(expected.trim()));
        checks.push(
            check.because(|| format!("expected `{}`, found `{}`", brief(expected.trim()), brief(said))),
        );
    }
    for part in &wanted.contains {
        let check = Assertion::of("contains", said.contains(part.as_str())).found(cut(said), cut(part));
        checks.push(check.because(|| format!("`{}` is not in `{}`", brief(part), brief(said))));
    }
    for expression in &wanted.matches {
        let regex = Regex::new(expression).map_err(|error| other(error.to_string()))?;
        let check = Assertion::of("matches", regex.is_match(said)).found(cut(said), expression.as_str());
        checks.push(check.because(|| format!("`{}` does not match in `{}`", brief(expression), brief(said))));
    }
    if let Some(expected) = &wanted.json {
        let same = object.as_ref().is_some_and(|object| alike(object, expected));
        let check = Assertion::of("json", same).found(object.clone().unwrap_or_default(), expected.clone());
        checks.push(check.because(|| match &object {
            Some(object) => {
                format!("expected {}, found {}", brief(&expected.to_string()), brief(&object.to_string()))
            }
            None => format!("no JSON: `{}`", brief(said)),
        }));
    }
    if let Some(schema) = &wanted.json_schema {
        let validator = jsonschema::validator_for(schema).map_err(|error| other(error.to_string()))?;
        let wrong = match &object {
            None => Some(format!("no JSON: `{}`", brief(said))),
            Some(object) => validator.iter_errors(object).next().map(|error| {
                let at = error.instance_path().to_string();
                let at = if at.is_empty() { String::new() } else { format!(" at `{at}`") };
                format!("it does not satisfy its schema{at}: {}", brief(&error.to_string()))
            }),
        };
        let check = Assertion::of("json_schema", wrong.is_none());
        checks.push(check.because(|| wrong.unwrap_or_default()));
    }
    let told = format!("{} of {} hold", checks.iter().filter(|check| check.passed).count(), checks.len());
    let shown = object.unwrap_or_else(|| json!(cut(said)));
    Ok(Verdict::of(checks).metric("answer", shown).saying(&told))
}

/// What the main thread said last.
fn last_words(log: &YouBenchaLog) -> Option<&str> {
    let own = log
        .messages
        .iter()
        .rev()
        .filter(|message| message.role == Role::Assistant && message.parent_tool_call_id.is_none());
    own.map(|message| message.content.trim()).find(|text| !text.is_empty())
}

/// The object that was given as such, or the JSON that the last words are.
fn object(log: &YouBenchaLog, text: Option<&str>) -> Option<Value> {
    let given = log.tool_calls.iter().rev().find(|call| {
        call.name == STRUCTURED && call.parent_tool_call_id.is_none() && call.is_error != Some(true)
    });
    if let Some(call) = given {
        return serde_json::from_str(&call.arguments).ok();
    }
    let text = text?;
    let inner = text.strip_prefix("```json").or_else(|| text.strip_prefix("```")).unwrap_or(text);
    serde_json::from_str(inner.strip_suffix("```").unwrap_or(inner).trim()).ok()
}

/// Equal, and numbers by what they are rather than by how they are written.
fn alike(one: &Value, two: &Value) -> bool {
    match (one, two) {
        (Value::Number(one), Value::Number(two)) => one == two || one.as_f64() == two.as_f64(),
        (Value::Array(one), Value::Array(two)) => {
            one.len() == two.len() && one.iter().zip(two).all(|(one, two)| alike(one, two))
        }
        (Value::Object(one), Value::Object(two)) => {
            one.len() == two.len()
                && one.iter().all(|(key, one)| two.get(key).is_some_and(|two| alike(one, two)))
        }
        _ => one == two,
    }
}

fn cut(text: &str) -> String {
    shortened(text, SHOWN)
}

/// Enough for a line of a message.
fn brief(text: &str) -> String {
    shortened(text, 80).replace('\n', " ")
}

fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EvaluatorStatus;
    use crate::samples::{call, log};

    fn said(texts: &[(&str, Option<&str>)]) -> YouBenchaLog {
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

    fn verdict(wanted: &Answer, log: &YouBenchaLog) -> (bool, String) {
        let verdict = judge(wanted, log).unwrap();
        (verdict.status == EvaluatorStatus::Passed, verdict.message)
    }

    #[test]
    fn the_last_words_count() {
        let log = said(&[("first", None), (" Paris. \n", None), ("", None), ("a helper's", Some("x"))]);
        let equals = |text: &str| Answer { equals: Some(text.to_owned()), ..Answer::default() };
        assert!(verdict(&equals("Paris."), &log).0);
        assert_eq!(
            verdict(&equals("London."), &log),
            (false, "✗ 0 of 1 hold | expected `London.`, found `Paris.`".to_owned())
        );
        let parts = Answer {
            contains: vec!["Par".to_owned()],
            matches: vec!["^P.*s".to_owned(), r"\d".to_owned()],
            ..Answer::default()
        };
        assert_eq!(verdict(&parts, &log).1, r"✗ 2 of 3 hold | `\d` does not match in `Paris.`");
    }

    #[test]
    fn objects_are_given_by_the_tool_or_as_text() {
        let wanted = Answer {
            json: Some(json!({"n": 1, "list": [1.5]})),
            json_schema: Some(json!({"type": "object", "required": ["n"]})),
            ..Answer::default()
        };
        let mut given = said(&[("Done.", None)]);
        given.tool_calls = vec![
            call(STRUCTURED, r#"{"n": 2}"#, Some(true)),
            call(STRUCTURED, r#"{"list": [1.5], "n": 1.0}"#, Some(false)),
        ];
        assert!(verdict(&wanted, &given).0);
        assert!(verdict(&wanted, &said(&[("```json\n{\"n\": 1, \"list\": [1.5]}\n```", None)])).0);
        let (passed, message) = verdict(&wanted, &said(&[("{\"m\": 1}", None)]));
        assert!(!passed && message.contains("it does not satisfy its schema"), "{message}");
        assert!(!verdict(&wanted, &said(&[("Done.", None)])).0);
    }

    #[test]
    fn an_agent_that_says_nothing_passes_nothing() {
        let (passed, message) = verdict(&Answer::default(), &log());
        assert_eq!((passed, message.as_str()), (false, "✗ 0 of 1 hold | the agent said nothing"));
    }
}
