//! Evaluator results of a `results.json` of any version: known fields by name, other fields generically.

use serde_json::{Map, Value};

use crate::value::plain;

/// The result of one evaluator.
#[derive(Debug, Default)]
pub(crate) struct Evaluation {
    pub(crate) name: String,
    pub(crate) status: String,
    /// Where the code of the agent ran while it was graded.
    pub(crate) graded_code: Option<String>,
    pub(crate) message: String,
    pub(crate) duration_ms: Option<u64>,
    pub(crate) cost_usd: Option<f64>,
    pub(crate) assertions: Vec<Assertion>,
    pub(crate) metrics: Map<String, Value>,
    /// What the runner printed about failures.
    pub(crate) failures: Vec<Failure>,
    /// Paths and descriptions.
    pub(crate) artifacts: Vec<(String, String)>,
    pub(crate) error: Option<String>,
    /// Unknown fields.
    pub(crate) rest: Map<String, Value>,
}

/// What the runner printed about a failure.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Failure {
    /// The id of the test; absent for the end of the output of a command.
    pub(crate) test: Option<String>,
    pub(crate) lines: Vec<String>,
}

impl Failure {
    /// Returns the title above the lines.
    pub(crate) fn title(&self) -> &str {
        self.test.as_deref().unwrap_or("output")
    }
}

/// One assertion.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Assertion {
    pub(crate) name: String,
    /// Whether it passed, if recorded or derivable from score and threshold.
    pub(crate) passed: Option<bool>,
    pub(crate) score: Option<String>,
    pub(crate) threshold: Option<String>,
    pub(crate) remark: String,
}

/// Reads all evaluators of a results bundle, in order.
pub(crate) fn evaluations(results: &Value) -> Vec<Evaluation> {
    results["evaluators"].as_array().into_iter().flatten().map(read).collect()
}

fn read(value: &Value) -> Evaluation {
    let mut found = Evaluation::default();
    let Value::Object(fields) = value else {
        found.name = "unknown".to_owned();
        found.message = plain(value);
        return found;
    };
    for (name, value) in fields {
        match (name.as_str(), value) {
            ("evaluator", value) => found.name = plain(value),
            ("status", value) => found.status = plain(value),
            ("graded_code", Value::String(place)) => found.graded_code = Some(place.clone()),
            ("message", value) => found.message = plain(value),
            ("duration_ms", value) => found.duration_ms = value.as_f64().map(|ms| ms as u64),
            ("cost_usd", value) => found.cost_usd = value.as_f64(),
            // `checks` hold more detail about the same assertions and are read later, because maps are ordered by name.
            ("assertions", value) => found.assertions = assertions(value),
            ("checks", Value::Array(checks)) if !checks.is_empty() => {
                let checks = assertions(value);
                found.assertions.retain(|one| checks.iter().all(|check| check.name != one.name));
                found.assertions.splice(0..0, checks);
            }
            ("checks", Value::Array(_)) => {}
            ("metrics", Value::Object(metrics)) => found.metrics = metrics.clone(),
            ("artifacts", Value::Array(files)) => found.artifacts = files.iter().map(artifact).collect(),
            ("failures", Value::Array(failures)) => found.failures = failures.iter().map(failure).collect(),
            ("error", Value::Null) | ("timestamp", _) => {}
            ("error", value) => {
                found.error = Some(value["message"].as_str().map_or_else(|| plain(value), str::to_owned));
            }
            (_, Value::Null) => {}
            (name, value) => {
                found.rest.insert(name.to_owned(), value.clone());
            }
        }
    }
    found
}

fn failure(value: &Value) -> Failure {
    let lines = value["lines"].as_array().into_iter().flatten();
    Failure {
        test: value["test"].as_str().map(str::to_owned),
        lines: lines.filter_map(Value::as_str).map(str::to_owned).collect(),
    }
}

fn artifact(value: &Value) -> (String, String) {
    let path = value["path"].as_str().or_else(|| value.as_str()).unwrap_or_default();
    (path.to_owned(), value["description"].as_str().unwrap_or_default().to_owned())
}

/// Reads a map by name, or a list of named objects.
fn assertions(value: &Value) -> Vec<Assertion> {
    match value {
        Value::Object(fields) => fields.iter().map(|(name, value)| assertion(name, value)).collect(),
        Value::Array(values) => values
            .iter()
            .enumerate()
            .map(|(at, value)| {
                let named = ["name", "assertion", "key", "id"].iter().find_map(|key| value[key].as_str());
                assertion(&named.map_or_else(|| format!("{}", at + 1), str::to_owned), value)
            })
            .collect(),
        _ => Vec::new(),
    }
}

fn assertion(name: &str, value: &Value) -> Assertion {
    let mut found = Assertion { name: name.to_owned(), ..Assertion::default() };
    let Value::Object(fields) = value else {
        // A bare value may be a limit or a score.
        found.remark = plain(value);
        return found;
    };
    let (mut why, mut rest) = (None, Vec::new());
    for (key, value) in fields {
        match (key.as_str(), value) {
            ("name" | "assertion" | "key" | "id", Value::String(text)) if text == name => {}
            ("value" | "wanted", _) | (_, Value::Null) => {}
            ("score" | "actual", value) => found.score = Some(plain(value)),
            ("threshold" | "limit" | "expected", value) => found.threshold = Some(plain(value)),
            ("passed" | "holds" | "ok", Value::Bool(passed)) => found.passed = Some(*passed),
            ("status", Value::String(word)) if word == "passed" || word == "failed" => {
                found.passed = Some(word == "passed");
            }
            ("message" | "reason" | "text" | "reasoning", Value::String(text)) => why = Some(text.clone()),
            (key, value) => rest.push(format!("{key}: {}", plain(value))),
        }
    }
    // Without a message, show the value that was found and the one that was wanted.
    let labeled = |key: &str, word: &str| {
        let value = fields.get(key).filter(|value| !value.is_null())?;
        Some(format!("{word} {}", plain(value)))
    };
    let values: Vec<String> =
        [labeled("value", "found"), labeled("wanted", "wanted")].into_iter().flatten().collect();
    let why = why.or_else(|| (!values.is_empty()).then(|| values.join(", ")));
    if found.passed.is_none()
        && let (Some(score), Some(threshold)) = (fields.get("score"), fields.get("threshold"))
        && let (Some(score), Some(threshold)) = (score.as_f64(), threshold.as_f64())
    {
        found.passed = Some(score >= threshold);
    }
    found.remark = why.into_iter().chain(rest).collect::<Vec<_>>().join("; ");
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn assertions_are_read_from_maps_and_lists() {
        let found = assertions(&json!({
            "max_files_changed": 3,
            "tests": {"score": 0.75, "threshold": 0.8, "reason": "two are missing", "votes": [1, 0]},
            "style": {"score": 1, "passed": true},
        }));
        assert_eq!(found[0].remark, "3");
        let tests = found.iter().find(|one| one.name == "tests").unwrap();
        assert_eq!((tests.passed, tests.score.as_deref()), (Some(false), Some("0.75")));
        assert_eq!(tests.remark, "two are missing; votes: 1, 0");
        let listed = assertions(&json!([{"name": "a", "status": "failed"}, {"text": "b"}]));
        assert_eq!((listed[0].name.as_str(), listed[0].passed), ("a", Some(false)));
        assert_eq!((listed[1].name.as_str(), listed[1].remark.as_str()), ("2", "b"));
    }

    #[test]
    fn checks_replace_assertions_of_the_same_name() {
        let results = json!({"evaluators": [{"evaluator": "git-diff", "assertions": {"max_files": 1, "other": 2},
            "checks": [{"name": "max_files", "passed": false, "score": 0.0, "threshold": 1.0, "value": 3, "wanted": 1}]}]});
        let found = &evaluations(&results)[0].assertions;
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].passed, found[0].remark.as_str()), (Some(false), "found 3, wanted 1"));
        assert_eq!((found[1].name.as_str(), found[1].remark.as_str()), ("other", "2"));
    }

    #[test]
    fn unknown_fields_are_kept() {
        let results =
            json!({"evaluators": [{"evaluator": "x", "agreement": 0.9, "error": {"message": "boom"}}, 7]});
        let found = evaluations(&results);
        assert_eq!(found[0].rest["agreement"], 0.9);
        assert_eq!(found[0].error.as_deref(), Some("boom"));
        assert_eq!(found[1].message, "7");
    }
}
