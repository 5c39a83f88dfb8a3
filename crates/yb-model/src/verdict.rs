//! Verdicts of evaluators, without timestamps; and results, which add them.

use std::ops::Deref;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use yb_redact::Secrets;

/// The status of a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EvaluatorStatus {
    /// All checks passed.
    Passed,
    /// A check failed.
    Failed,
    /// The evaluator could not decide.
    Skipped,
}

/// The source of the data behind a verdict, unless it is our own measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trust {
    /// The agent's own reports.
    SelfReported,
    /// The model traffic that the tape observed.
    Observed,
}

/// Where the code of the agent ran while it was graded: how hard a verdict is to forge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GradedCode {
    /// In the process of the test runner, where it can do what the runner can.
    InProcess,
    /// In processes that the tests start, in the same sandbox as the runner.
    SeparateProcess,
    /// In a sandbox without the runner and the expected values.
    Probe,
}

impl GradedCode {
    /// Returns the word in results.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InProcess => "in-process",
            Self::SeparateProcess => "separate-process",
            Self::Probe => "probe",
        }
    }
}

/// One check of an evaluator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Assertion {
    /// The name, such as `max_files_changed`.
    pub name: String,
    /// Whether it passed.
    pub passed: bool,
    /// The score, from 0 to 1.
    pub score: f64,
    /// The score that it needs.
    pub threshold: f64,
    /// The actual value.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub value: Value,
    /// The expected value or limit.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub wanted: Value,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl Assertion {
    /// Creates a check with score 1 or 0.
    pub fn new(name: impl Into<String>, passed: bool) -> Self {
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

    /// Sets the actual and the expected value.
    #[must_use]
    pub fn with_values(mut self, value: impl Into<Value>, wanted: impl Into<Value>) -> Self {
        self.value = value.into();
        self.wanted = wanted.into();
        self
    }

    /// Sets the message if the check failed.
    #[must_use]
    pub fn with_message(mut self, message: impl FnOnce() -> String) -> Self {
        self.message = (!self.passed).then(message);
        self
    }
}

/// What a runner printed about a failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The id of the failed test; absent for the end of the output of a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<String>,
    /// The lines, in which times, addresses and directories of the machine are replaced.
    pub lines: Vec<String>,
}

/// Why an evaluator could not decide.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvaluatorError {
    /// The reason.
    pub message: String,
}

/// A file that an evaluator wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    /// The type of file, such as `log` or `json`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its path below the artifacts.
    pub path: String,
    /// A description of its content.
    pub description: String,
}

impl Artifact {
    /// Creates an artifact.
    pub fn new(kind: &str, path: impl Into<String>, description: &str) -> Self {
        Self { kind: kind.to_owned(), path: path.into(), description: description.to_owned() }
    }
}

/// The verdict of an evaluator. Grading the same trial again gives the same verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The evaluator's name in the case.
    pub evaluator: String,
    /// The status.
    pub status: EvaluatorStatus,
    /// Measurements.
    pub metrics: Map<String, Value>,
    /// A summary in one line.
    pub message: String,
    /// The limits or scores by name, in the format of the original implementation.
    pub assertions: Map<String, Value>,
    /// All checks, with scores and thresholds.
    pub checks: Vec<Assertion>,
    /// What the runner printed, if it failed. The graded code may have printed it too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Failure>,
    /// The files that it wrote to the artifacts.
    pub artifacts: Vec<Artifact>,
    /// The source of the data, unless it is our own measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust: Option<Trust>,
    /// Where the code of the agent ran, if the evaluator ran it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graded_code: Option<GradedCode>,
    /// The cost of model calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Actions of the agent that the case defines as cheating.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cheating: Option<String>,
    /// Why it could not decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<EvaluatorError>,
}

impl Verdict {
    /// Creates a verdict that passes if all checks passed. The caller sets the name of the evaluator.
    pub fn from_checks(checks: Vec<Assertion>) -> Self {
        let passed = checks.iter().all(|check| check.passed);
        let wanted = checks.iter().filter(|check| !check.wanted.is_null());
        Self {
            evaluator: String::new(),
            status: if passed { EvaluatorStatus::Passed } else { EvaluatorStatus::Failed },
            metrics: Map::new(),
            message: String::new(),
            assertions: wanted.map(|check| (check.name.clone(), check.wanted.clone())).collect(),
            checks,
            failures: Vec::new(),
            artifacts: Vec::new(),
            trust: None,
            graded_code: None,
            cost_usd: None,
            cheating: None,
            error: None,
        }
    }

    /// Creates the verdict of an evaluator that could not decide.
    pub fn skipped(message: String) -> Self {
        Self {
            status: EvaluatorStatus::Skipped,
            message: format!("Evaluator error: {message}"),
            error: Some(EvaluatorError { message }),
            ..Self::from_checks(Vec::new())
        }
    }

    /// Adds a measurement.
    #[must_use]
    pub fn metric(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.metrics.insert(name.to_owned(), value.into());
        self
    }

    /// Sets the message: `✓ text`, or `✗ text | reason; reason`.
    #[must_use]
    pub fn with_summary(mut self, text: &str) -> Self {
        let failed: Vec<&str> =
            self.failed_checks().map(|check| check.message.as_deref().unwrap_or(&check.name)).collect();
        self.message = if failed.is_empty() {
            format!("✓ {text}")
        } else {
            format!("✗ {text} | {}", failed.join("; "))
        };
        self
    }

    /// Iterates over the checks that failed.
    pub fn failed_checks(&self) -> impl Iterator<Item = &Assertion> {
        self.checks.iter().filter(|check| !check.passed)
    }

    /// Removes secrets from all texts that the agent may have influenced, such as file names.
    pub fn redact(&mut self, secrets: &[(String, Vec<u8>)]) {
        let secrets = Secrets::of_safe_length(secrets.iter().cloned());
        if secrets.is_empty() {
            return;
        }
        let clean = |text: &mut String| *text = secrets.redact(text).into_owned();
        clean(&mut self.message);
        for map in [&mut self.metrics, &mut self.assertions] {
            for value in map.values_mut() {
                secrets.redact_value(value);
            }
        }
        for check in &mut self.checks {
            clean(&mut check.name);
            check.message.iter_mut().for_each(clean);
            secrets.redact_value(&mut check.value);
        }
        for failure in &mut self.failures {
            failure.test.iter_mut().chain(&mut failure.lines).for_each(clean);
        }
        self.cheating.iter_mut().for_each(clean);
        self.error.iter_mut().for_each(|error| clean(&mut error.message));
    }
}

/// A verdict with its duration and timestamp, as in `results.json`.
#[derive(Debug, Clone, Serialize)]
pub struct EvaluatorResult {
    /// The verdict.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// The duration of grading.
    pub duration_ms: u64,
    /// The end of grading, ISO 8601.
    pub timestamp: String,
}

impl Deref for EvaluatorResult {
    type Target = Verdict;

    fn deref(&self) -> &Verdict {
        &self.verdict
    }
}
