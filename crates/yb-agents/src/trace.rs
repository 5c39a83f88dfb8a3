//! What a trace of a run is made of. The engine tells what begins and what ends, while it happens; whoever makes spans of that
//! is not known here.
//!
//! One node stands for a run, a trial, an agent or an evaluator, and begins those below it. A node that is dropped before it was
//! ended stands for something that was given up.

use std::fmt;
use std::sync::Arc;

use yb_claude::{Message, env_vars};
use yb_model::log::YouBenchaLog;
use yb_model::verdict::Verdict;
use yb_model::{Isolation, Outcome};

use crate::{Environment, Host};

/// One node of a trace. Called from tasks that must not wait: to be quick.
pub trait Trace: Send + Sync {
    /// Something begins below this.
    fn begin(&self, what: Begin<'_>) -> Arc<dyn Trace>;

    /// What a child is told of its place in the trace, in the form of W3C trace context.
    fn parent(&self) -> Option<String> {
        None
    }

    /// An agent printed a message; secrets are out of it.
    fn message(&self, _message: &Message) {}

    /// It is over.
    fn end(&self, how: End<'_>);
}

impl fmt::Debug for dyn Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Trace")
    }
}

/// What begins.
#[derive(Debug, Clone, Copy)]
pub enum Begin<'a> {
    /// An attempt at a trial.
    Trial(&'a TrialStart<'a>),
    /// An agent is about to be started: the trial's, or a judge.
    Agent(&'a AgentBegins<'a>),
    /// An evaluator begins to look.
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
    /// Why it did not end well.
    pub error: Option<&'a str>,
}

/// An agent that is about to be started.
#[derive(Clone, Copy)]
pub struct AgentBegins<'a> {
    /// The adapter's name.
    pub agent: &'a str,
    /// The model, if the case names one.
    pub model: Option<&'a str>,
    /// What it is asked, if that is known yet.
    pub prompt: Option<&'a str>,
    /// What must not appear in a span.
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

/// How something ended.
#[derive(Debug, Clone, Copy)]
pub enum End<'a> {
    /// An attempt at a trial.
    Trial(&'a TrialEnd<'a>),
    /// An agent.
    Agent {
        /// What it did and used.
        log: &'a YouBenchaLog,
        /// What its execution came to, where that decides.
        outcome: Option<Outcome>,
    },
    /// An evaluator; secrets are out of it.
    Evaluator(&'a Verdict),
}

/// Begins an agent, and tells it its place: a variable that the case names itself stays as it is.
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
