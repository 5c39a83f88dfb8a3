//! Events of a run. A [`RunEvent`] is durable: the journal consists of them, and every report is a fold over them.
//! [`Progress`] is shown while the run lasts and is not recorded.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use yb_supervise::TreeRecord;

use super::unit::truncated;
use crate::trial::TrialStep;
use yb_agents::{Isolation, Live, ProcessRole, SessionFacts};
use yb_evaluate::{EvaluatorStatus, Verdict};
use yb_model::AddOnRecord;
use yb_model::outcome::Outcome;

/// The version of the journal format. Newer journals are rejected.
pub const JOURNAL_VERSION: u32 = 1;

/// One line of the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct JournalEntry {
    /// Sequence number, from 1, without gaps.
    pub seq: u64,
    /// When the entry was written, ISO 8601. Informational: `seq` defines the order.
    pub at: String,
    /// The digest of the previous line, so that a changed, dropped or moved line is noticed. Older versions wrote none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prev: Option<String>,
    /// The event.
    #[serde(flatten)]
    pub event: RunEvent,
}

/// A durable event of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
#[expect(clippy::large_enum_variant, reason = "the largest variant is the most frequent one")]
pub enum RunEvent {
    /// The run started. Always the first entry.
    RunStarted {
        /// The version of the journal format.
        version: u32,
        /// The run's id.
        run: String,
        /// The version of youBencha.
        youbencha: String,
        /// The number of planned trials.
        trials: usize,
        /// The number of concurrent trials.
        jobs: usize,
        /// The digest of `plan.json`. Older versions recorded none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        plan: Option<String>,
    },
    /// The run continues after it was stopped or killed.
    RunResumed {
        /// The version of youBencha.
        youbencha: String,
        /// The number of pending trials.
        pending: usize,
        /// The number of concurrent trials.
        jobs: usize,
        /// Trials that are rerun although they had a result.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        again: Vec<String>,
    },
    /// An attempt at a trial is about to start; none of its files exist yet.
    AttemptStarted {
        /// The trial's folder.
        trial: String,
        /// The number of the attempt, from 1.
        attempt: u32,
    },
    /// The agent's process was spawned.
    AgentStarted {
        /// The trial's folder.
        trial: String,
        /// The number of the attempt.
        attempt: u32,
        /// Identifies the process tree, so that a resumed run can reap it.
        tree: TreeRecord,
    },
    /// Another process of the trial is about to run: a hook, a command of an evaluator, a judge.
    ProcessStarted {
        /// The trial's folder.
        trial: String,
        /// The number of the attempt.
        attempt: u32,
        /// The role.
        role: ProcessRole,
        /// Identifies the process tree, so that a resumed run can reap it.
        tree: TreeRecord,
    },
    /// An attempt ended, and all artifacts that it names are on disk.
    AttemptFinished(AttemptRecord),
    /// The run stopped with pending trials.
    RunStopped {
        /// The reason.
        reason: StopReason,
        /// The digest of `gates` in `results.json`. Older versions recorded none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        gates: Option<String>,
    },
    /// All trials have a result.
    RunFinished {
        /// The digest of `gates` in `results.json`. Older versions recorded none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        gates: Option<String>,
    },
    /// Trials were regraded. Not in the journal of a run, but in that of its gradings.
    Graded {
        /// The run's id.
        run: String,
        /// The digest of the last line of the run's journal at that time.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        journal: Option<String>,
        /// The grading's id.
        grading: String,
        /// Digests of its files, by path.
        files: BTreeMap<String, String>,
    },
}

impl RunEvent {
    /// Whether the event must survive a power failure. Results must; the start of an attempt is worthless after a
    /// reboot, and the end of a run follows from its results.
    pub(crate) fn needs_sync(&self) -> bool {
        matches!(self, Self::AttemptFinished(_) | Self::RunStopped { .. } | Self::Graded { .. })
    }
}

/// The reason why a run stopped with pending trials.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StopReason {
    /// The user interrupted the run.
    Interrupted,
    /// The budget is exhausted.
    Budget,
    /// Results can no longer be written to disk.
    Disk,
}

/// The end of an attempt, with the data that reports need.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct AttemptRecord {
    /// The trial's folder.
    pub trial: String,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The outcome.
    pub outcome: Outcome,
    /// Whether the trial is retried.
    pub then: RetryDecision,
    /// Start time, ISO 8601.
    pub started_at: String,
    /// The duration in milliseconds.
    pub duration_ms: u64,
    /// The cost.
    #[serde(default)]
    pub spend: Spend,
    /// Input and output tokens.
    #[serde(default)]
    pub tokens: u64,
    /// The number of turns, as reported by the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u64>,
    /// The agent's version, if reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<String>,
    /// The model, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The isolation of the agent; absent if no agent ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Isolation>,
    /// Whether the system calls of the agent were filtered; absent without a sandbox of ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub syscall_filter: Option<bool>,
    /// The network access of the agent; absent if no agent ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<yb_case::NetworkMode>,
    /// The tape that was recorded or replayed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tape: Option<Box<yb_agents::tape::TapeUse>>,
    /// The start tree and the end tree in the object store of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trees: Option<AttemptTrees>,
    /// The verdict of each evaluator, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evaluators: Vec<EvaluatorVerdict>,
    /// The plugins, skills, MCP servers, agents and instructions of the case; absent without any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub add_ons: Vec<AddOnRecord>,
    /// The session as the agent reported it before its first answer; only if the suite has `vary`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Box<SessionFacts>>,
    /// Digests of the artifacts, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub artifacts: BTreeMap<String, String>,
    /// The first error, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The code of the first error, such as `CLAUDE_INVALID_CONFIG`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    /// Warnings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl AttemptRecord {
    /// Copies the record without the list of artifacts, which is most of its size.
    pub(crate) fn without_artifacts(&self) -> Self {
        Self {
            trial: self.trial.clone(),
            attempt: self.attempt,
            outcome: self.outcome,
            then: self.then,
            started_at: self.started_at.clone(),
            duration_ms: self.duration_ms,
            spend: self.spend,
            tokens: self.tokens,
            turns: self.turns,
            agent_version: self.agent_version.clone(),
            model: self.model.clone(),
            isolation: self.isolation,
            syscall_filter: self.syscall_filter,
            network: self.network,
            tape: self.tape.clone(),
            trees: self.trees.clone(),
            evaluators: self.evaluators.clone(),
            add_ons: self.add_ons.clone(),
            session: self.session.clone(),
            artifacts: BTreeMap::new(),
            error: self.error.clone(),
            error_code: self.error_code.clone(),
            warnings: self.warnings.clone(),
        }
    }
}

/// Whether an attempt is followed by another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RetryDecision {
    /// The attempt decides the outcome of the trial.
    #[serde(rename = "done")]
    Final,
    /// The trial is retried.
    #[serde(rename = "again")]
    Retry,
}

/// The trees before and after an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct AttemptTrees {
    /// The start tree.
    pub start: String,
    /// The end tree.
    pub end: String,
}

/// The verdict of one evaluator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct EvaluatorVerdict {
    /// The name of the evaluator.
    pub name: String,
    /// The status.
    #[schemars(with = "String")]
    pub status: EvaluatorStatus,
    /// Why it did not pass, in one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl EvaluatorVerdict {
    pub(super) fn of(verdict: &Verdict) -> Self {
        let message = (verdict.status != EvaluatorStatus::Passed).then(|| truncated(&verdict.message));
        Self { name: verdict.evaluator.clone(), status: verdict.status, message }
    }
}

/// Cost by source. A cost that was not reported is `None`, never estimated.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Spend {
    /// The cost of the agent, without its subagents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_usd: Option<f64>,
    /// The cost of the subagents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subagents_usd: Option<f64>,
    /// The cost of judges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge_usd: Option<f64>,
}

impl Spend {
    /// Returns the sum of the known costs, or `None` if none is known.
    #[must_use]
    pub fn total(&self) -> Option<f64> {
        let known = [self.agent_usd, self.subagents_usd, self.judge_usd];
        known.iter().any(Option::is_some).then(|| known.into_iter().flatten().sum())
    }

    /// Returns the sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let add = |one: Option<f64>, two: Option<f64>| match (one, two) {
            (None, None) => None,
            (one, two) => Some(one.unwrap_or(0.0) + two.unwrap_or(0.0)),
        };
        Self {
            agent_usd: add(self.agent_usd, other.agent_usd),
            subagents_usd: add(self.subagents_usd, other.subagents_usd),
            judge_usd: add(self.judge_usd, other.judge_usd),
        }
    }
}

/// Progress that is shown but not recorded.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Progress {
    /// A trial reached the next step.
    Step {
        /// The trial's folder.
        trial: String,
        /// The step.
        step: TrialStep,
    },
    /// New live data of a running agent.
    Live {
        /// The trial's folder.
        trial: String,
        /// The current data.
        live: Live,
    },
    /// No trial is started for a while because of a rate limit.
    Holding {
        /// The agent whose account is rate limited.
        agent: String,
        /// The length of the pause.
        for_: Duration,
    },
    /// No further trials are started; running ones may finish.
    Draining {
        /// The reason.
        reason: StopReason,
        /// The number of running trials.
        running: usize,
    },
    /// Something to know about the run.
    Warning {
        /// The text.
        message: String,
    },
    /// Running trials are being killed.
    Killing {
        /// The number of running trials.
        running: usize,
    },
}

/// An event that the runner emits, in order.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum RunnerEvent<'a> {
    /// An event that is in the journal.
    Event(&'a JournalEntry),
    /// Progress that is not recorded.
    Progress(&'a Progress),
}
