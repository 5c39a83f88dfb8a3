//! How a replay is done.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use super::fault::ReplayFault;
use crate::script::Script;
use crate::upstream::Upstream;

/// How strictly requests are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Mode {
    /// Everything that the user and the tools say has to be the same.
    #[default]
    Strict,
    /// What tools return may differ; how often it did is counted.
    Lenient,
}

/// How fast answers come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Speed {
    /// At once.
    #[default]
    Fast,
    /// With the pauses that were recorded.
    Real,
}

/// From where on a replay is no longer one.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Fork {
    /// The last turn of the lane `main` that the tape answers; 0 for none.
    pub step: usize,
    /// Who answers from there on.
    pub live: Live,
}

impl Fork {
    /// Replays up to and including this turn of the lane `main`.
    #[must_use]
    pub fn after(step: usize, live: Live) -> Self {
        Self { step, live }
    }
}

/// Who answers after a fork.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Live {
    /// The real API, with another model if one is named.
    Upstream {
        /// Where it is.
        upstream: Upstream,
        /// Takes the place of the model that the agent asks for.
        model: Option<String>,
    },
    /// A script, whose lanes count their turns from the beginning of the conversation.
    Script(Script),
}

/// How a replay is done; strict and fast by default.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ReplayOptions {
    /// How strictly requests are compared.
    pub mode: Mode,
    /// How fast answers come.
    pub speed: Speed,
    /// The directories of this run, by the names that the recording gave them.
    pub places: BTreeMap<String, String>,
    /// What goes wrong on purpose.
    pub faults: Vec<ReplayFault>,
    /// From where on a live model answers.
    pub fork: Option<Fork>,
    /// How long an answer waits for requests that came earlier in the recording, so that conversations side by side keep
    /// their order; 3 s by default. When it was in vain, there is no more waiting.
    pub patience: Option<Duration>,
    /// The loopback port; 0, the default, takes any free one.
    pub port: u16,
}

impl ReplayOptions {
    /// The same with this mode.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// The same with this speed.
    #[must_use]
    pub fn speed(mut self, speed: Speed) -> Self {
        self.speed = speed;
        self
    }

    /// The same with one directory of this run: its `workspace`, its `home` and so on.
    #[must_use]
    pub fn place(mut self, name: impl Into<String>, path: impl AsRef<Path>) -> Self {
        self.places.insert(name.into(), path.as_ref().display().to_string());
        self
    }

    /// The same with another patience for the recorded order.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = Some(patience);
        self
    }

    /// The same with one more fault.
    #[must_use]
    pub fn fault(mut self, fault: ReplayFault) -> Self {
        self.faults.push(fault);
        self
    }

    /// The same with a fork.
    #[must_use]
    pub fn fork(mut self, fork: Fork) -> Self {
        self.fork = Some(fork);
        self
    }
}
