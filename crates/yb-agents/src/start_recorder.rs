//! Records of processes that are kept before their program runs, so that they can be found after this process and the shim were
//! killed.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use yb_supervise::{Command, TreeRecord};

/// The role of a process of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ProcessRole {
    /// The agent.
    Agent,
    /// A hook before the agent or after grading.
    Hook,
    /// A command of an evaluator, or one that prepares grading.
    Evaluator,
    /// A judge.
    Judge,
}

/// The program runs when the future has ended; if it fails, the program is not run.
pub type StartRecorded = Pin<Box<dyn Future<Output = std::io::Result<()>> + Send>>;

type Record = dyn Fn(ProcessRole, TreeRecord) -> StartRecorded + Send + Sync;

/// Persists the record of each process of a trial. The function must not block.
#[derive(Clone)]
pub struct StartRecorder(Arc<Record>);

impl StartRecorder {
    /// Returns a recorder that calls a function.
    pub fn new(record: impl Fn(ProcessRole, TreeRecord) -> StartRecorded + Send + Sync + 'static) -> Self {
        Self(Arc::new(record))
    }

    /// Returns the command with its record kept before its program runs.
    pub fn attach(&self, role: ProcessRole, command: Command) -> Command {
        let record = Arc::clone(&self.0);
        command.before_start(move |tree| record(role, tree))
    }
}

impl fmt::Debug for StartRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StartRecorder")
    }
}
