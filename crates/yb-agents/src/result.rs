//! What an execution gave, and whether one is possible at all.

use std::ffi::OsString;
use std::path::PathBuf;

use jiff::Timestamp;
use yb_supervise::RefusedConnection;

use super::artifacts::Artifacts;
use super::drive::{Driven, millis};
use super::transcript::iso;
use super::verdict::Verdict;
use super::{AdapterError, Transcript};
use yb_case::AgentSpec;
use yb_model::log::{ErrorRecord, ExecutionStatus, StdinContent};
use yb_model::outcome::Outcome;

/// What an execution gave.
#[derive(Debug, Clone)]
pub struct ExecutionResult {
    /// The exit code; -1 after a timeout, 128 + n after signal n.
    pub exit_code: i32,
    /// How it ended, in three words.
    pub status: ExecutionStatus,
    /// What it was told; none if it was told nothing. Kept, because an agent may change the file it came from.
    pub prompt: Option<String>,
    /// What it printed, both pipes as they came: the first [`MAX_OUTPUT_SIZE`](super::MAX_OUTPUT_SIZE) bytes, and a marker if there was more.
    pub output: String,
    /// Whether there was more.
    pub truncated: bool,
    /// When it began, ISO 8601.
    pub started_at: String,
    /// When nothing of it was left, ISO 8601.
    pub completed_at: String,
    /// Between the two, without what it was paused.
    pub duration_ms: u64,
    /// What went wrong.
    pub errors: Vec<ErrorRecord>,
    /// What went otherwise than asked, without being an error.
    pub warnings: Vec<String>,
    /// What it came to, if that decides the trial; none when the evaluators decide.
    pub outcome: Option<Outcome>,
    /// The agent's version, if it was asked for it rather than saying it itself.
    pub agent_version: Option<String>,
    /// What the agent might do without being asked.
    pub permission_mode: Option<String>,
    /// How its processes were held together; none if nothing was started.
    pub containment: Option<String>,
    /// Its messages, from an agent that prints them.
    pub transcript: Option<Transcript>,
    /// All that it printed.
    pub terminal_log: Option<PathBuf>,
    /// Its messages, line by line.
    pub frames: Option<PathBuf>,
    /// What was executed; none if nothing was started.
    pub executed: Option<Executed>,
    /// Connections that its sandbox refused.
    pub refused: Vec<RefusedConnection>,
}

/// What was executed, as it could be repeated by hand.
#[derive(Debug, Clone)]
pub struct Executed {
    /// The program and its arguments, as they were: secrets may be among them.
    pub argv: Vec<OsString>,
    /// The names of the variables that it was given.
    pub env: Vec<OsString>,
    /// What it could read.
    pub stdin: StdinContent,
}

impl ExecutionResult {
    pub(super) fn of(driven: Driven, prompt: String, agent: &AgentSpec, artifacts: Artifacts) -> Self {
        let Verdict { exit_code, status, errors, outcome } = Verdict::of(&driven, agent);
        let Driven { report, transcript, output, truncated, warnings, .. } = driven;
        Self {
            exit_code,
            status,
            prompt: Some(prompt),
            output,
            truncated,
            started_at: iso(report.started_at),
            completed_at: iso(report.ended_at.max(report.started_at)),
            duration_ms: millis(report.duration.saturating_sub(report.paused)),
            errors,
            warnings,
            outcome,
            agent_version: None,
            permission_mode: None,
            containment: report.containment.map(|containment| containment.method.to_string()),
            frames: transcript.is_some().then_some(artifacts.frames),
            transcript,
            terminal_log: Some(artifacts.terminal_log),
            executed: None,
            refused: report.refused,
        }
    }

    /// What a log says about an execution that was never started.
    #[must_use]
    pub fn not_started(agent: &AgentSpec, error: &AdapterError) -> Self {
        let now = iso(Timestamp::now());
        let hints: Vec<_> = error.hints().into_iter().map(Into::into).collect();
        let record = ErrorRecord {
            message: error.to_string(),
            timestamp: now.clone(),
            code: Some(error.code().for_agent(agent)),
            stack_trace: None,
            context: [("hints".to_owned(), serde_json::Value::Array(hints))].into(),
        };
        Self {
            exit_code: 1,
            status: ExecutionStatus::Failed,
            prompt: None,
            output: error.to_string(),
            truncated: false,
            started_at: now.clone(),
            completed_at: now,
            duration_ms: 0,
            errors: vec![record],
            warnings: Vec::new(),
            outcome: Some(error.outcome()),
            agent_version: None,
            permission_mode: None,
            containment: None,
            transcript: None,
            terminal_log: None,
            frames: None,
            executed: None,
            refused: Vec::new(),
        }
    }

    /// Whether there was an agent that could have said something.
    #[must_use]
    pub fn was_started(&self) -> bool {
        self.terminal_log.is_some()
    }

    /// Whether its time was over.
    #[must_use]
    pub fn timed_out(&self) -> bool {
        self.status == ExecutionStatus::Timeout
    }

    /// What the agent's own messages came to.
    #[must_use]
    pub fn summary(&self) -> Option<&yb_claude::RunSummary> {
        self.transcript.as_ref().map(Transcript::summary)
    }
}

/// Whether an agent can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Availability {
    /// Whether.
    pub status: AvailabilityStatus,
    /// The agent's version, if it said.
    pub version: Option<String>,
    /// The same in words.
    pub message: String,
    /// What to do about it, one way out in each line.
    pub hints: Vec<String>,
}

/// Whether an agent can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AvailabilityStatus {
    /// It is there and has what it needs.
    Ready,
    /// It is there, and its model would refuse it.
    NotAuthenticated,
    /// It is not there, or does not run.
    Missing,
}

/// The agent is there, and its model would refuse it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct NotAuthenticated {
    /// What is missing.
    pub message: String,
    /// What to do about it, one way out in each line.
    pub hints: Vec<String>,
}

impl Availability {
    /// The answer in the form of the contract: it is there, it is not, or it is there in vain.
    ///
    /// # Errors
    /// When it is there and not authenticated.
    pub fn into_contract(self) -> Result<bool, NotAuthenticated> {
        match self.status {
            AvailabilityStatus::Ready => Ok(true),
            AvailabilityStatus::Missing => Ok(false),
            AvailabilityStatus::NotAuthenticated => {
                Err(NotAuthenticated { message: self.message, hints: self.hints })
            }
        }
    }
}
