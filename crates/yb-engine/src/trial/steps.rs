//! Records the workspace after each step of an agent, for `capture.steps` and `--steps`.
//!
//! A step is a model request that carries results of tool calls: it is the first moment at which all calls of an answer are
//! complete, and the agent waits for its answer. The request is held and every process of the agent suspended while the workspace
//! is read, so that nothing changes during the walk. A step never changes the outcome of a trial: what can't be recorded is a warning.

use std::collections::HashSet;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use yb_model::atomic_file::{Durability, write_private};
use yb_repo::{FileStamps, StartTree, Workspace};
use yb_supervise::PauseSwitch;
use yb_tape::{HeldRequest, HeldRequests};

use super::AttemptContext;
use super::attempt_dirs::AttemptDirs;

/// The file of the steps in the artifacts of an attempt, one JSON object per line.
pub const STEPS_FILE: &str = "steps.jsonl";
/// The version of a line.
const VERSION: u32 = 1;
/// The maximum number of steps; later ones are not recorded.
const MAX_STEPS: usize = 1_000;
/// How much all steps may add to the size of the start tree, in total.
const MAX_GROWTH: u64 = 4 << 30;
/// How long the processes of an agent may take to be suspended.
const SUSPEND_TIMEOUT: Duration = Duration::from_secs(2);

/// A line of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RecordedStep {
    /// Version of the line.
    pub v: u32,
    /// The number of the step, from 1.
    pub step: usize,
    /// The number of answers before it: `--fork` continues here after as many turns.
    pub turn: usize,
    /// Whether the step is one of the main loop, rather than of a subagent.
    pub main: bool,
    /// The ids of the tool calls that ended with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<String>,
    /// The id of the tree in the store of the run.
    pub tree: String,
    /// When it was recorded, ISO 8601.
    pub at: String,
    /// How long the agent was suspended.
    pub duration_ms: u64,
}

/// The workspace of an attempt as it was prepared.
pub(super) struct StepSource<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) start: &'a StartTree,
    pub(super) stamps: Option<&'a FileStamps>,
}

/// Records the steps of one attempt.
pub(super) struct StepRecorder<'a> {
    attempt: &'a AttemptContext<'a>,
    dirs: &'a AttemptDirs,
    source: StepSource<'a>,
    held: HeldRequests,
    pause: PauseSwitch,
    steps: Vec<RecordedStep>,
    seen: HashSet<String>,
    grown: u64,
    warnings: Vec<String>,
    is_full: bool,
}

/// Resumes an agent also when recording is cancelled.
struct Suspension<'a>(&'a PauseSwitch);

impl Drop for Suspension<'_> {
    fn drop(&mut self) {
        self.0.resume();
    }
}

impl<'a> StepRecorder<'a> {
    pub(super) fn new(
        attempt: &'a AttemptContext<'a>,
        dirs: &'a AttemptDirs,
        source: StepSource<'a>,
        held: HeldRequests,
        pause: PauseSwitch,
    ) -> Self {
        Self {
            attempt,
            dirs,
            source,
            held,
            pause,
            steps: Vec::new(),
            seen: HashSet::new(),
            grown: 0,
            warnings: Vec::new(),
            is_full: false,
        }
    }

    /// Records steps until the server stops. Cancel-safe.
    pub(super) async fn run(&mut self) {
        while let Some(request) = self.held.next().await {
            if !self.is_full && self.is_new(&request) {
                self.record(&request).await;
            }
        }
    }

    /// A request that is retried, or sent again after another one, has no new results.
    fn is_new(&mut self, request: &HeldRequest) -> bool {
        if request.tool_calls.is_empty() {
            return self.seen.insert(format!("turn {}", request.turn));
        }
        let new: Vec<&String> = request.tool_calls.iter().filter(|id| !self.seen.contains(*id)).collect();
        let is_new = !new.is_empty();
        let new: Vec<String> = new.into_iter().cloned().collect();
        self.seen.extend(new);
        is_new
    }

    async fn record(&mut self, request: &HeldRequest) {
        let stopwatch = std::time::Instant::now();
        let number = self.steps.len() + 1;
        self.pause.pause();
        let suspension = Suspension(&self.pause);
        if tokio::time::timeout(SUSPEND_TIMEOUT, self.pause.wait_until_idle()).await.is_err() {
            self.warnings.push(format!("step {number} was not recorded: the agent could not be suspended"));
            return;
        }
        let StepSource { workspace, start, stamps } = &self.source;
        let (trial, store) = (self.attempt.trial, self.attempt.store);
        let captured = store.capture_step(trial, number, workspace, start, *stamps).await;
        drop(suspension);
        let tree = match captured {
            Ok(captured) => {
                self.grown = self.grown.saturating_add(captured.growth);
                captured.tree
            }
            Err(error) => {
                self.warnings.push(format!("step {number} was not recorded: {error}"));
                return;
            }
        };
        self.steps.push(RecordedStep {
            v: VERSION,
            step: number,
            turn: request.turn,
            main: request.is_main,
            tool_calls: request.tool_calls.clone(),
            tree,
            at: Timestamp::now().to_string(),
            duration_ms: u64::try_from(stopwatch.elapsed().as_millis()).unwrap_or(u64::MAX),
        });
        self.write();
        if self.steps.len() >= MAX_STEPS || self.grown > MAX_GROWTH {
            self.is_full = true;
            self.warnings.push(format!("steps after step {number} were not recorded: too many or too large"));
        }
    }

    /// Writes all steps, so that a page can show those of a running agent.
    fn write(&mut self) {
        let lines: Result<Vec<String>, _> = self.steps.iter().map(serde_json::to_string).collect();
        let text = lines.map(|lines| lines.join("\n") + "\n").map_err(std::io::Error::from);
        let path = self.dirs.artifacts.join(STEPS_FILE);
        let written = text.and_then(|text| write_private(&path, text.as_bytes(), Durability::Unsynced));
        if let Err(error) = written {
            self.warnings.push(format!("failed to write `{STEPS_FILE}`: {error}"));
        }
    }

    /// Returns the warnings.
    pub(super) fn finish(mut self) -> Vec<String> {
        if !self.steps.is_empty() {
            // An agent without a sandbox may have changed the file.
            self.write();
        }
        self.warnings.truncate(5);
        self.warnings
    }
}
