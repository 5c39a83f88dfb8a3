//! What an evaluator says, without a clock in it; and the same with the times that readers of the original want.

use std::ops::Deref;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::secrets::without_secrets;

/// How an evaluator answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EvaluatorStatus {
    /// Everything that it asserts holds.
    Passed,
    /// Something does not.
    Failed,
    /// It could not look.
    Skipped,
}

/// Whose word a verdict rests on, where it is not our own measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trust {
    /// The agent's own frames.
    SelfReported,
    /// What passed through our tape.
    Observed,
}

/// One thing that was asserted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Assertion {
    /// What, such as `max_files_changed`.
    pub name: String,
    /// Whether it holds.
    pub passed: bool,
    /// How well it holds, from 0 to 1.
    pub score: f64,
    /// The score that it needs.
    pub threshold: f64,
    /// What was found.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub value: Value,
    /// What was wanted.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub wanted: Value,
    /// Why it does not hold, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl Assertion {
    /// One that holds or not.
    pub fn of(name: impl Into<String>, passed: bool) -> Self {
        Self {
            name: name.into(),
            passed,
            score: if passed { 1.0 } else { 0.0 },
            threshold: 1.0,
            value: Value::Null,
            wanted: Value::Null,
            message: None,
        }
    }

    /// The same with what was found, what was wanted, and why it does not hold.
    pub fn found(mut self, value: impl Into<Value>, wanted: impl Into<Value>) -> Self {
        self.value = value.into();
        self.wanted = wanted.into();
        self
    }

    /// Why it does not hold; nothing if it does.
    pub fn because(mut self, message: impl FnOnce() -> String) -> Self {
        self.message = (!self.passed).then(message);
        self
    }
}

/// Why an evaluator could not look.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvaluatorError {
    /// In words.
    pub message: String,
}

/// A file that an evaluator left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    /// What kind of file.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its path below the artifacts.
    pub path: String,
    /// What is in it.
    pub description: String,
}

impl Artifact {
    pub fn new(kind: &str, path: impl Into<String>, description: &str) -> Self {
        Self { kind: kind.to_owned(), path: path.into(), description: description.to_owned() }
    }
}

/// What an evaluator says. The same trial gives the same verdict, whenever and how often it is asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The evaluator's name in the case.
    pub evaluator: String,
    /// Its answer.
    pub status: EvaluatorStatus,
    /// What it measured.
    pub metrics: Map<String, Value>,
    /// The answer in one line.
    pub message: String,
    /// What it was to assert, by name, as the original has it: the limits, or the scores.
    pub assertions: Map<String, Value>,
    /// Each thing that was asserted, with its score and the threshold.
    pub checks: Vec<Assertion>,
    /// Files that it left in the artifacts.
    pub artifacts: Vec<Artifact>,
    /// Whose word it rests on, where it is not our own measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust: Option<Trust>,
    /// What it cost, if it asked a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// What the agent did that the case calls cheating.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cheating: Option<String>,
    /// Why it could not look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<EvaluatorError>,
}

impl Verdict {
    /// One whose status follows from what was asserted. The evaluator's name is filled in by whoever asked for it.
    pub fn of(checks: Vec<Assertion>) -> Self {
        let passed = checks.iter().all(|check| check.passed);
        let wanted = checks.iter().filter(|check| !check.wanted.is_null());
        Self {
            evaluator: String::new(),
            status: if passed { EvaluatorStatus::Passed } else { EvaluatorStatus::Failed },
            metrics: Map::new(),
            message: String::new(),
            assertions: wanted.map(|check| (check.name.clone(), check.wanted.clone())).collect(),
            checks,
            artifacts: Vec::new(),
            trust: None,
            cost_usd: None,
            cheating: None,
            error: None,
        }
    }

    /// One of an evaluator that could not look.
    pub fn unable(message: String) -> Self {
        Self {
            status: EvaluatorStatus::Skipped,
            message: format!("Evaluator error: {message}"),
            error: Some(EvaluatorError { message }),
            ..Self::of(Vec::new())
        }
    }

    pub fn metric(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.metrics.insert(name.to_owned(), value.into());
        self
    }

    /// `✓ text`, or `✗ text | why; why`.
    pub fn saying(mut self, text: &str) -> Self {
        let failed: Vec<&str> =
            self.failed().map(|check| check.message.as_deref().unwrap_or(&check.name)).collect();
        self.message = if failed.is_empty() {
            format!("✓ {text}")
        } else {
            format!("✗ {text} | {}", failed.join("; "))
        };
        self
    }

    /// What does not hold.
    pub fn failed(&self) -> impl Iterator<Item = &Assertion> {
        self.checks.iter().filter(|check| !check.passed)
    }

    /// Takes secrets out of whatever an agent may have put them into, such as the name of a file.
    pub fn redact(&mut self, secrets: &[(String, Vec<u8>)]) {
        if secrets.is_empty() {
            return;
        }
        let clean = |text: &mut String| *text = without_secrets(text, secrets.iter().cloned());
        clean(&mut self.message);
        for map in [&mut self.metrics, &mut self.assertions] {
            map.values_mut().for_each(|value| redact(value, secrets));
        }
        for check in &mut self.checks {
            clean(&mut check.name);
            check.message.iter_mut().for_each(clean);
            redact(&mut check.value, secrets);
        }
        self.cheating.iter_mut().for_each(clean);
        self.error.iter_mut().for_each(|error| clean(&mut error.message));
    }
}

/// A verdict, and when and how fast it was found: what `results.json` has.
#[derive(Debug, Clone, Serialize)]
pub struct EvaluatorResult {
    /// What was found.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// How long it took.
    pub duration_ms: u64,
    /// When it was done, ISO 8601.
    pub timestamp: String,
}

impl Deref for EvaluatorResult {
    type Target = Verdict;

    fn deref(&self) -> &Verdict {
        &self.verdict
    }
}

/// Takes secrets out of a value and everything below it.
pub fn redact(value: &mut Value, secrets: &[(String, Vec<u8>)]) {
    match value {
        Value::String(text) => *text = without_secrets(text, secrets.iter().cloned()),
        Value::Array(values) => values.iter_mut().for_each(|value| redact(value, secrets)),
        Value::Object(map) => {
            let entries = std::mem::take(map);
            for (name, mut value) in entries {
                redact(&mut value, secrets);
                map.insert(without_secrets(&name, secrets.iter().cloned()), value);
            }
        }
        _ => {}
    }
}
