//! What a trace of a run is made of. The engine tells what begins and what ends, while it happens; whoever makes spans of that
//! is not known here.
//!
//! One node stands for a run, a trial, an agent or an evaluator, and begins those below it. A node that is dropped before it was
//! ended stands for something that was given up.

use std::fmt;
use std::sync::Arc;

use yb_claude::{Message, env_vars};

use crate::adapter::{Environment, Host};
use crate::evaluate::Verdict;
use crate::log::YouBenchaLog;
use crate::outcome::Outcome;
use crate::run::{AttemptRecord, PlannedTrial};

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
#[non_exhaustive]
pub enum Begin<'a> {
    /// A trial is tried.
    Trial {
        /// Which.
        trial: &'a PlannedTrial,
        /// Counts from 1.
        attempt: u32,
    },
    /// An agent is about to be started: the trial's, or a judge.
    Agent(&'a AgentBegins<'a>),
    /// An evaluator begins to look.
    Evaluator {
        /// Its name in the case.
        name: &'a str,
    },
}

/// An agent that is about to be started.
#[derive(Clone, Copy)]
#[non_exhaustive]
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
#[non_exhaustive]
pub enum End<'a> {
    /// A trial.
    Trial(&'a AttemptRecord),
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
pub(crate) fn begin_agent(
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
