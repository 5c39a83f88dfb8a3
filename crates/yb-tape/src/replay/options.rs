//! Options of a replay.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use super::fault::ReplayFault;
use crate::script::Script;
use crate::upstream::Upstream;

/// How strictly requests are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ReplayMode {
    /// User messages and tool results must be equal byte for byte, except for the directories of the run.
    Exact,
    /// User messages and tool results must be equal after normalization, which is counted.
    #[default]
    Strict,
    /// Tool results may differ; the differences are counted.
    Lenient,
}

/// How fast responses are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ReplaySpeed {
    /// Without pauses.
    #[default]
    Fast,
    /// With the recorded pauses.
    Real,
}

/// Continues a replay with a live model or a script after a turn.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Fork {
    /// The last turn of lane `main` that is replayed; 0 for none.
    pub step: usize,
    /// Serves the requests after the fork.
    pub target: ForkTarget,
}

impl Fork {
    /// Creates a fork that replays up to and including this turn of lane `main`.
    #[must_use]
    pub fn after(step: usize, target: ForkTarget) -> Self {
        Self { step, target }
    }
}

/// Serves the requests after a [`Fork`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ForkTarget {
    /// A live API.
    Upstream {
        /// The API.
        upstream: Upstream,
        /// Replaces the model that the agent requests.
        model: Option<String>,
    },
    /// A script. Its turns count from the beginning of the conversation.
    Script(Script),
}

/// Options of a [`ReplayServer`](crate::ReplayServer); strict and fast by default.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ReplayOptions {
    /// How strictly requests are compared.
    pub mode: ReplayMode,
    /// How fast responses are sent.
    pub speed: ReplaySpeed,
    /// Directories of this run, by the names used in the recording.
    pub directories: BTreeMap<String, String>,
    /// Faults to inject.
    pub faults: Vec<ReplayFault>,
    /// Where to continue with a live model.
    pub fork: Option<Fork>,
    /// How long a response waits for requests that were recorded earlier, which keeps parallel conversations in the
    /// recorded order; 3 s by default. After the first timeout, the order is no longer enforced.
    pub order_timeout: Option<Duration>,
    /// The loopback port; 0, the default, means any free port.
    pub port: u16,
}

impl ReplayOptions {
    /// Sets how strictly requests are compared.
    #[must_use]
    pub fn mode(mut self, mode: ReplayMode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets how fast responses are sent.
    #[must_use]
    pub fn speed(mut self, speed: ReplaySpeed) -> Self {
        self.speed = speed;
        self
    }

    /// Adds a directory of this run, such as its `workspace` or `home`.
    #[must_use]
    pub fn directory(mut self, name: impl Into<String>, path: impl AsRef<Path>) -> Self {
        self.directories.insert(name.into(), path.as_ref().display().to_string());
        self
    }

    /// Sets how long a response waits for requests that were recorded earlier.
    #[must_use]
    pub fn order_timeout(mut self, timeout: Duration) -> Self {
        self.order_timeout = Some(timeout);
        self
    }

    /// Adds a fault to inject.
    #[must_use]
    pub fn fault(mut self, fault: ReplayFault) -> Self {
        self.faults.push(fault);
        self
    }

    /// Sets where to continue with a live model or a script.
    #[must_use]
    pub fn fork(mut self, fork: Fork) -> Self {
        self.fork = Some(fork);
        self
    }

    /// Sets the loopback port; 0 means any free port.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }
}
