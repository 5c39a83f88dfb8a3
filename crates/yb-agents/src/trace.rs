//! The tracing interface of the engine: it reports the start and the end of runs, trials, agents and evaluators as nodes of a tree.
//! The implementation, which creates spans, is elsewhere.
//!
//! A node that is dropped before its end was reported is reported as an aborted operation.

use std::fmt;
use std::sync::Arc;

use yb_claude::{Message, env_vars};
use yb_model::log::YouBenchaLog;
use yb_model::verdict::Verdict;
use yb_model::{Isolation, Outcome};

use crate::{Environment, Host, SubagentCall};

/// A node of a trace. Called from async tasks, so it must not block.
pub trait Trace: Send + Sync {
    /// Starts a child node.
    fn begin(&self, what: Begin<'_>) -> Arc<dyn Trace>;

    /// The `traceparent` for a child process (W3C trace context).
    fn parent(&self) -> Option<String> {
        None
    }

    /// A message of an agent, without secrets.
    fn message(&self, _message: &Message) {}

    /// A model call of a subagent, from a transcript that the agent wrote. Reported before the end of the agent.
    fn subagent_call(&self, _call: &SubagentCall) {}

    /// Ends the node.
    fn end(&self, how: End<'_>);
}

impl fmt::Debug for dyn Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Trace")
    }
}

/// The start of a node.
#[derive(Debug, Clone, Copy)]
pub enum Begin<'a> {
    /// An attempt at a trial.
    Trial(&'a TrialStart<'a>),
    /// An agent is about to be started: the trial's, or a judge.
    Agent(&'a AgentBegins<'a>),
    /// An evaluator.
    Evaluator {
        /// Its name in the case.
        name: &'a str,
    },
}

/// An attempt at a trial that is about to start.
#[derive(Debug, Clone, Copy)]
pub struct TrialStart<'a> {
    /// The name of the trial's directory, unique in its run.
    pub folder: &'a str,
    /// The name of the case.
    pub case: &'a str,
    /// The name of the variant.
    pub variant: &'a str,
    /// The type of the agent.
    pub agent: &'a str,
    /// The tags of the case.
    pub tags: &'a [String],
    /// Counts from 1.
    pub repeat: u32,
    /// Counts from 1.
    pub attempt: u32,
}

/// The end of an attempt at a trial.
#[derive(Debug, Clone, Copy)]
pub struct TrialEnd<'a> {
    /// How it ended.
    pub outcome: Outcome,
    /// The isolation that was used, if the agent was started.
    pub isolation: Option<Isolation>,
    /// The cost of agent and judges, if it was reported.
    pub cost_usd: Option<f64>,
    /// The error, if it failed.
    pub error: Option<&'a str>,
}

/// An agent that is about to be started.
#[derive(Clone, Copy)]
pub struct AgentBegins<'a> {
    /// The adapter's name.
    pub agent: &'a str,
    /// The model, if the case names one.
    pub model: Option<&'a str>,
    /// The prompt, if it is known.
    pub prompt: Option<&'a str>,
    /// Secrets, which are redacted.
    pub secrets: &'a [(String, Vec<u8>)],
}

/// Secrets and prompts are not shown.
impl fmt::Debug for AgentBegins<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentBegins")
            .field("agent", &self.agent)
            .field("model", &self.model)
            .finish_non_exhaustive()
    }
}

/// The end of a node.
#[derive(Debug, Clone, Copy)]
pub enum End<'a> {
    /// An attempt at a trial.
    Trial(&'a TrialEnd<'a>),
    /// An agent.
    Agent {
        /// Its log.
        log: &'a YouBenchaLog,
        /// Its outcome, if the execution decides it.
        outcome: Option<Outcome>,
    },
    /// An evaluator, without secrets.
    Evaluator(&'a Verdict),
}

/// Starts the node of an agent and passes the trace context to it, unless the case sets the variables itself.
pub fn begin_agent(
    below: Option<&Arc<dyn Trace>>,
    begins: &AgentBegins<'_>,
    host: &mut Host,
) -> Option<Arc<dyn Trace>> {
    let trace = below?.begin(Begin::Agent(begins));
    if let Some(parent) = trace.parent() {
        tell(&mut host.env, parent);
    }
    Some(trace)
}

fn tell(env: &mut Environment, parent: String) {
    env.entry(env_vars::TRACEPARENT.into()).or_insert_with(|| parent.into());
}
