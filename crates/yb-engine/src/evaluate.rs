//! Grading: what each evaluator found, in one shape.

mod git_diff;
mod known;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::adapter::without_secrets;

pub(crate) use git_diff::{Trees, git_diff};
pub use known::{KnownEvaluator, known_evaluators};

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

/// What one evaluator found.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct EvaluatorResult {
    /// Its name in the case.
    pub evaluator: String,
    /// Its answer.
    pub status: EvaluatorStatus,
    /// What it measured.
    pub metrics: Map<String, Value>,
    /// The answer in one line.
    pub message: String,
    /// How long it took.
    pub duration_ms: u64,
    /// When it was done, ISO 8601.
    pub timestamp: String,
    /// What it asserted, by name.
    pub assertions: Map<String, Value>,
    /// Files that it left in the artifacts.
    pub artifacts: Vec<Artifact>,
}

impl EvaluatorResult {
    /// Takes secrets out of whatever an agent may have put them into, such as the name of a file.
    pub(crate) fn redact(&mut self, secrets: &[(String, Vec<u8>)]) {
        self.message = without_secrets(&self.message, secrets.iter().cloned());
        for map in [&mut self.metrics, &mut self.assertions] {
            map.values_mut().for_each(|value| redact(value, secrets));
        }
    }
}

fn redact(value: &mut Value, secrets: &[(String, Vec<u8>)]) {
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

/// A file that an evaluator left.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Artifact {
    /// What kind of file.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Its path below the artifacts.
    pub path: String,
    /// What is in it.
    pub description: &'static str,
}
