//! What happens in a run. [`RunEvent`] is durable: the journal is made of it, and every report is a fold over it.
//! [`Progress`] is for whoever looks on, and is forgotten.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use yb_supervise::TreeRecord;

use crate::trial::Step;
use yb_agents::{Isolation, Live};
use yb_evaluate::EvaluatorStatus;
use yb_model::outcome::Outcome;

/// The journal's format; a newer one is not read.
pub const JOURNAL_VERSION: u32 = 1;

/// One line of the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Entry {
    /// Counts from 1, without gaps.
    pub seq: u64,
    /// When it was written, ISO 8601; for people, never for deciding what came first.
    pub at: String,
    /// What happened.
    #[serde(flatten)]
    pub event: RunEvent,
}

/// Something that counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunEvent {
    /// The run began; the first line.
    RunStarted {
        /// Of the journal's format.
        version: u32,
        /// The run's id.
        run: String,
        /// Our version.
        youbencha: String,
        /// How many trials are planned.
        trials: usize,
        /// How many run at once.
        jobs: usize,
    },
    /// The run goes on, after it was stopped or died.
    RunResumed {
        /// Our version.
        youbencha: String,
        /// How many trials are still to be done.
        pending: usize,
        /// How many run at once.
        jobs: usize,
        /// Trials that are done again although they had ended.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        again: Vec<String>,
    },
    /// A trial is tried; nothing of it exists yet.
    AttemptStarted {
        /// The trial's folder.
        trial: String,
        /// Counts from 1.
        attempt: u32,
    },
    /// The agent's processes exist.
    AgentStarted {
        /// The trial's folder.
        trial: String,
        /// Which attempt.
        attempt: u32,
        /// How to find them again.
        tree: TreeRecord,
    },
    /// An attempt is over, and everything that it names is on disk.
    AttemptFinished(AttemptRecord),
    /// The run ended before all was done.
    RunStopped {
        /// Why.
        reason: StopReason,
    },
    /// All was done.
    RunFinished,
}

impl RunEvent {
    /// Whether it must outlive the machine: a result must never be lost. An attempt that began is nothing without the
    /// machine that it ran on, and the end of a run can be told from its results.
    pub(crate) fn is_relied_on(&self) -> bool {
        matches!(self, Self::AttemptFinished(_) | Self::RunStopped { .. })
    }
}

/// Why a run ended before all was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StopReason {
    /// Somebody asked for it.
    Interrupted,
    /// The run's money is spent.
    Budget,
    /// Nothing more can be written.
    Disk,
}

/// How an attempt ended, with all that reports need of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct AttemptRecord {
    /// The trial's folder.
    pub trial: String,
    /// Which attempt.
    pub attempt: u32,
    /// What it came to.
    pub outcome: Outcome,
    /// Whether the trial runs again.
    pub then: Then,
    /// When it began, ISO 8601.
    pub started_at: String,
    /// How long it took.
    pub duration_ms: u64,
    /// What it cost.
    #[serde(default)]
    pub spend: Spend,
    /// Tokens that went in and came out.
    #[serde(default)]
    pub tokens: u64,
    /// Turns, as the agent counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u64>,
    /// The agent's version, if it said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_version: Option<String>,
    /// The model, if it was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What stood between the agent and the machine; absent if there was no agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Isolation>,
    /// What the agent could connect to; absent if there was no agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<yb_case::NetworkMode>,
    /// The tape that it was recorded on or replayed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tape: Option<Box<yb_agents::tape::TapeUse>>,
    /// The trees before and after, in the run's store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trees: Option<Trees>,
    /// What each evaluator said, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evaluators: Vec<Graded>,
    /// Digests of the artifacts, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub artifacts: BTreeMap<String, String>,
    /// Why there is no more than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What went otherwise than asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// What follows an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Then {
    /// Nothing: the trial has its outcome.
    Done,
    /// Another attempt.
    Again,
}

/// The trees of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Trees {
    /// What the agent began with.
    pub start: String,
    /// What it left.
    pub end: String,
}

/// One evaluator's word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Graded {
    /// Which evaluator.
    pub name: String,
    /// What it said.
    #[schemars(with = "String")]
    pub status: EvaluatorStatus,
}

/// Money, by who spent it. Nothing is invented: what nobody told is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Spend {
    /// The agent, without its subagents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_usd: Option<f64>,
    /// Its subagents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subagents_usd: Option<f64>,
    /// The judge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge_usd: Option<f64>,
}

impl Spend {
    /// All that is known.
    #[must_use]
    pub fn total(&self) -> Option<f64> {
        let known = [self.agent_usd, self.subagents_usd, self.judge_usd];
        known.iter().any(Option::is_some).then(|| known.into_iter().flatten().sum())
    }

    /// Both together.
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

/// Something to look at while it lasts.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Progress {
    /// A trial came a step further.
    Step {
        /// The trial's folder.
        trial: String,
        /// Which.
        step: Step,
    },
    /// More is known of a running agent.
    Live {
        /// The trial's folder.
        trial: String,
        /// All that is known.
        live: Live,
    },
    /// Nothing new is started for a while.
    Holding {
        /// Which agent's account is full.
        agent: String,
        /// For how long.
        for_: Duration,
    },
    /// Nothing new is started any more; what runs may end.
    Draining {
        /// Why.
        reason: StopReason,
        /// How many still run.
        running: usize,
    },
    /// What runs is being ended.
    Killing {
        /// How many.
        running: usize,
    },
}

/// What a run tells, in order.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Told<'a> {
    /// It is in the journal.
    Event(&'a Entry),
    /// It is for those who look on.
    Progress(&'a Progress),
}
