//! The result of an execution, and the availability of an agent.

use std::ffi::OsString;
use std::path::PathBuf;

use jiff::Timestamp;
use yb_supervise::RefusedConnection;

use super::artifacts::Artifacts;
use super::drive::{AgentRun, millis};
use super::normalize::AgentOutput;
use super::transcript::iso;
use super::verdict::Verdict;
use super::wiring::SessionFacts;
use super::{AdapterError, Transcript};
use yb_case::AgentSpec;
use yb_model::AddOnRecord;
use yb_model::log::{ErrorRecord, ExecutionStatus, StdinContent};
use yb_model::outcome::Outcome;

/// The result of an execution.
#[derive(Debug, Clone)]
pub struct ExecutionResult {
    /// The exit code; -1 after a timeout, 128 + n after signal n, 1 if the agent reported a failure and exited with 0.
    pub exit_code: i32,
    /// The status.
    pub status: ExecutionStatus,
    /// The prompt, if there was one. It is kept because an agent may change its file.
    pub prompt: Option<String>,
    /// The output, stdout and stderr in order: the first [`MAX_OUTPUT_SIZE`](super::MAX_OUTPUT_SIZE) bytes, and a marker if there was more.
    pub output: String,
    /// Whether the output was truncated.
    pub truncated: bool,
    /// The start, ISO 8601.
    pub started_at: String,
    /// The end of the process tree, ISO 8601.
    pub completed_at: String,
    /// The duration without suspended time.
    pub duration_ms: u64,
    /// The errors.
    pub errors: Vec<ErrorRecord>,
    /// The warnings.
    pub warnings: Vec<String>,
    /// The outcome of the trial, if the execution decides it; none if the evaluators decide.
    pub outcome: Option<Outcome>,
    /// Set if the outcome is a failure of the API that only the agent's messages tell of.
    pub api_report: Option<ApiReport>,
    /// The version of the agent, if it is not in its messages.
    pub agent_version: Option<String>,
    /// The permission mode.
    pub permission_mode: Option<String>,
    /// How its processes were contained; none if nothing was started.
    pub containment: Option<String>,
    /// Its messages, if it prints messages.
    pub transcript: Option<Transcript>,
    /// The log of all output.
    pub terminal_log: Option<PathBuf>,
    /// The file of its messages, one per line.
    pub frames: Option<PathBuf>,
    /// The executed command; none if nothing was started.
    pub executed: Option<Executed>,
    /// Connections that the sandbox refused.
    pub refused: Vec<RefusedConnection>,
    /// The add-ons of the case.
    pub add_ons: Vec<AddOnRecord>,
    /// The session as the agent reported it before its first answer.
    pub session: Option<SessionFacts>,
}

/// A failure of the API as an agent reports it. Tools of the agent can write such messages too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApiReport {
    /// The agent exited by itself with an error, as it does after a failure of its API; it was not stopped by anything.
    pub failed_by_itself: bool,
}

/// The executed command.
#[derive(Debug, Clone)]
pub struct Executed {
    /// The program and its arguments, secrets included.
    pub argv: Vec<OsString>,
    /// The names of its environment variables.
    pub env: Vec<OsString>,
    /// The content of its stdin.
    pub stdin: StdinContent,
}

impl ExecutionResult {
    pub(super) fn of(driven: AgentRun, prompt: String, agent: &AgentSpec, artifacts: Artifacts) -> Self {
        let Verdict { exit_code, status, errors, outcome, api_report } = Verdict::of(&driven, agent);
        let AgentRun { report, transcript, output, truncated, frames, warnings, wiring, .. } = driven;
        let (add_ons, session) = wiring.into_parts();
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
            api_report,
            agent_version: None,
            permission_mode: None,
            containment: report.containment.map(|containment| containment.method.to_string()),
            frames: transcript.is_some().then_some(frames),
            transcript,
            terminal_log: Some(artifacts.terminal_log),
            executed: None,
            refused: report.refused,
            add_ons,
            session,
        }
    }

    /// The result of an execution that was not started.
    #[must_use]
    pub fn not_started(agent: &AgentSpec, error: &AdapterError) -> Self {
        let now = iso(Timestamp::now());
        let hints: Vec<_> = error.hints().into_iter().map(Into::into).collect();
        let record = ErrorRecord {
            message: error.to_string(),
            timestamp: now,
            code: Some(error.code().for_agent(agent)),
            stack_trace: None,
            context: [("hints".to_owned(), serde_json::Value::Array(hints))].into(),
        };
        Self { errors: vec![record], outcome: Some(error.outcome()), ..Self::skipped(error.to_string()) }
    }

    /// The result of an agent that was not to be started; the caller sets the outcome.
    #[must_use]
    pub fn skipped(why: String) -> Self {
        let now = iso(Timestamp::now());
        Self {
            exit_code: 1,
            status: ExecutionStatus::Failed,
            prompt: None,
            output: why,
            truncated: false,
            started_at: now.clone(),
            completed_at: now,
            duration_ms: 0,
            errors: Vec::new(),
            warnings: Vec::new(),
            outcome: None,
            api_report: None,
            agent_version: None,
            permission_mode: None,
            containment: None,
            transcript: None,
            terminal_log: None,
            frames: None,
            executed: None,
            refused: Vec::new(),
            add_ons: Vec::new(),
            session: None,
        }
    }

    /// The output for the log: messages if there are any, otherwise the text.
    pub(super) fn agent_output(&self) -> AgentOutput<'_> {
        match &self.transcript {
            Some(transcript) if transcript.spoke() => AgentOutput::Messages(transcript),
            _ if !self.was_started() => AgentOutput::None,
            _ => AgentOutput::Text(&self.output),
        }
    }

    /// Whether the agent was started.
    #[must_use]
    pub fn was_started(&self) -> bool {
        self.terminal_log.is_some()
    }

    /// Whether the deadline passed.
    #[must_use]
    pub fn timed_out(&self) -> bool {
        self.status == ExecutionStatus::Timeout
    }

    /// the outcome of the agent's own messages.
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
