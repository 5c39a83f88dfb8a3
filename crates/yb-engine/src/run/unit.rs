//! One attempt at one trial as a task. The task sends events to the dispatcher and never writes to the journal.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use yb_agents::trace::TrialEnd;

use jiff::Timestamp;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;
use yb_supervise::TreeRecord;

use super::dir::RunDir;
use super::event::{AttemptRecord, AttemptTrees, EvaluatorVerdict, RetryDecision, Spend};
use super::plan::PlannedTrial;
use crate::trial::{
    AttemptContext, FinishedAttempt, PRIVATE, Runner, SharedStartTree, StartPoint, StopHandle, TrialError,
    TrialStep, WORKSPACE_LAYER,
};
use yb_agents::trace::Trace;
use yb_agents::{Live, Observer, ProcessRole, StartRecorder};
use yb_case::Case;
use yb_model::log::UsageSource;
use yb_model::outcome::Outcome;
use yb_repo::{ObjectStore, remove_or_set_aside};

/// The longest error or warning, in bytes, that goes into the journal. The log has the full text.
const MAX_TEXT_BYTES: usize = 500;
const MAX_WARNINGS: usize = 3;

/// A trial with everything that is needed to run it.
#[derive(Clone)]
pub(super) struct TrialUnit {
    pub(super) trial: PlannedTrial,
    pub(super) case: Arc<Case>,
    pub(super) runner: Runner,
    pub(super) start: Arc<StartPoint>,
    pub(super) known: Arc<SharedStartTree>,
    pub(super) account: String,
}

/// An event of a running unit.
#[derive(Debug)]
pub(super) enum UnitEvent {
    Step(TrialStep),
    /// The program runs when the sender was used.
    Starting(ProcessRole, TreeRecord, oneshot::Sender<()>),
    /// The oldest progress in the queue.
    Live(Arc<LiveQueue>),
}

/// Progress that the dispatcher has not seen. An agent may report more than the dispatcher can handle: then only the newest is kept.
#[derive(Debug, Default)]
pub(super) struct LiveQueue(Mutex<VecDeque<Live>>);

/// The most progress that waits.
const MAX_LIVE: usize = 64;

impl LiveQueue {
    /// Adds progress. Returns whether the dispatcher has to be told; it is not if it replaces what waits already.
    fn push(&self, live: Live) -> bool {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() < MAX_LIVE {
            waiting.push_back(live);
            return true;
        }
        if let Some(newest) = waiting.back_mut() {
            *newest = live;
        }
        false
    }

    /// Takes the oldest progress.
    pub(super) fn pop(&self) -> Option<Live> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

/// A unit event with the index of its unit.
pub(super) type UnitMessage = (usize, UnitEvent);

/// The end of an attempt.
pub(super) struct AttemptEnd {
    pub(super) record: AttemptRecord,
    /// The error of an attempt without results, or the mistake in the configuration because of which its agent was not started.
    pub(super) error: Option<TrialError>,
}

/// Forwards live data of the agent to the dispatcher.
#[derive(Debug)]
struct UnitObserver {
    unit: usize,
    to: UnboundedSender<UnitMessage>,
    last: Mutex<Live>,
    waiting: Arc<LiveQueue>,
    /// The model is simulated: the cost that the agent computes was not paid.
    is_simulated: bool,
}

impl UnitObserver {
    fn last(&self) -> Live {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Observer for UnitObserver {
    fn changed(&self, live: &Live) {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone_from(live);
        let mut live = live.clone();
        if self.is_simulated {
            (live.agent_usd, live.subagents_usd) =
                (live.agent_usd.map(|_| 0.0), live.subagents_usd.map(|_| 0.0));
        }
        if self.waiting.push(live) {
            let _ = self.to.send((self.unit, UnitEvent::Live(Arc::clone(&self.waiting))));
        }
    }
}

/// Returns a recorder that has the dispatcher write each record to the journal.
fn start_recorder(unit: usize, to: UnboundedSender<UnitMessage>) -> StartRecorder {
    StartRecorder::new(move |role, record| {
        let (sender, recorded) = oneshot::channel();
        let _ = to.send((unit, UnitEvent::Starting(role, record, sender)));
        Box::pin(async move { recorded.await.map_err(|_| std::io::Error::other("the run has ended")) })
    })
}

impl TrialUnit {
    /// Runs one attempt and returns its record, also when it fails.
    pub(super) async fn attempt(
        mut self,
        index: usize,
        number: u32,
        dirs: (RunDir, PathBuf, ObjectStore),
        stop: StopHandle,
        trace: Option<Arc<dyn Trace>>,
        to: UnboundedSender<UnitMessage>,
    ) -> AttemptEnd {
        let (run, cache, store) = dirs;
        self.runner.stop = stop.clone();
        self.runner.trace = trace;
        let is_simulated = self.runner.has_simulated_model(&self.case);
        let observer = Arc::new(UnitObserver {
            unit: index,
            to: to.clone(),
            last: Mutex::default(),
            waiting: Arc::default(),
            is_simulated,
        });
        self.runner.observer = Some(observer.clone());
        self.runner.start_recorder = Some(start_recorder(index, to.clone()));
        let (began, started_at) = (self.runner.pause.stopwatch(), Timestamp::now().to_string());
        let attempt = AttemptContext {
            run: &run,
            store: &store,
            start: &self.start,
            known: &self.known,
            trial: &self.trial.folder,
            number,
        };
        let mut on_step = |step: TrialStep| {
            let _ = to.send((index, UnitEvent::Step(step)));
        };
        let finished = self.runner.attempt(&self.case, &cache, &attempt, &mut on_step).await;
        let mut record = AttemptRecord::new(&self.trial.folder, number, started_at);
        record.duration_ms = began.elapsed_ms();
        match finished {
            Ok(finished) => {
                record.fill(&finished, &observer.last());
                AttemptEnd { record, error: finished.config_error }
            }
            Err(error) => {
                record.warnings = remove_private(&run, &self.trial.folder, number);
                record.outcome = outcome_of(&error, &stop);
                record.error = Some(truncated(&error.to_string()));
                AttemptEnd { record, error: Some(error) }
            }
        }
    }
}

/// Returns the outcome of an attempt that ended with an error.
fn outcome_of(error: &TrialError, stop: &StopHandle) -> Outcome {
    match error {
        _ if stop.is_stopped() => Outcome::Cancelled,
        TrialError::Unavailable { .. } => Outcome::Unauthenticated,
        TrialError::ByAgent(_) => Outcome::Failed,
        error if error.is_cancelled() => Outcome::Cancelled,
        _ => Outcome::Infra,
    }
}

/// Removes the private directories of an attempt, which contain credentials. Returns a warning for each that can't be removed.
pub(super) fn remove_private(run: &RunDir, trial: &str, attempt: u32) -> Vec<String> {
    let removals =
        PRIVATE.iter().map(|folder| remove_or_set_aside(&run.attempt(trial, attempt).join(folder)));
    removals.filter_map(|removal| removal.warning()).collect()
}

/// Removes the private directories and the incomplete workspace of an attempt. Artifacts are kept.
pub(super) fn remove_incomplete(run: &RunDir, trial: &str, attempt: u32) {
    remove_private(run, trial, attempt);
    for name in ["src-modified", WORKSPACE_LAYER] {
        let _ = remove_or_set_aside(&run.attempt(trial, attempt).join(name));
    }
}

/// Returns the next free attempt number, also counting attempts that the journal does not know.
pub(super) fn next_attempt(run: &RunDir, trial: &str, known: u32) -> u32 {
    attempts_on_disk(run, trial).max().map_or(known, |last| known.max(last + 1))
}

/// Returns the numbers of the attempts that have a directory.
pub(super) fn attempts_on_disk(run: &RunDir, trial: &str) -> impl Iterator<Item = u32> {
    let taken = |path: &Path| path.file_name()?.to_str()?.strip_prefix("attempt-")?.parse::<u32>().ok();
    let entries = std::fs::read_dir(run.trial(trial)).into_iter().flatten().flatten();
    entries.filter_map(move |entry| taken(&entry.path()))
}

impl AttemptRecord {
    /// Returns the end of this attempt for a trace.
    pub(super) fn trace_end(&self) -> TrialEnd<'_> {
        TrialEnd {
            outcome: self.outcome,
            isolation: self.isolation,
            cost_usd: self.spend.total(),
            error: self.error.as_deref(),
        }
    }

    pub(super) fn new(trial: &str, attempt: u32, started_at: String) -> Self {
        Self {
            trial: trial.to_owned(),
            attempt,
            outcome: Outcome::Infra,
            then: RetryDecision::Final,
            started_at,
            duration_ms: 0,
            spend: Spend::default(),
            tokens: 0,
            turns: None,
            agent_version: None,
            model: None,
            isolation: None,
            syscall_filter: None,
            network: None,
            tape: None,
            trees: None,
            evaluators: Vec::new(),
            add_ons: Vec::new(),
            session: None,
            artifacts: std::collections::BTreeMap::new(),
            error: None,
            error_code: None,
            warnings: Vec::new(),
        }
    }

    fn fill(&mut self, finished: &FinishedAttempt, live: &Live) {
        let log = &finished.log;
        self.outcome = finished.outcome;
        if log.usage.source != UsageSource::Unreported {
            self.tokens = log.usage.total_tokens;
            // The agent reports one total; the share of subagents was metered.
            let subagents = live.subagents_usd;
            self.spend = Spend {
                agent_usd: log.usage.estimated_cost_usd.map(|all| (all - subagents.unwrap_or(0.0)).max(0.0)),
                subagents_usd: subagents,
                judge_usd: None,
            };
        }
        self.tape = finished.tape.clone().map(Box::new);
        if finished.tape.as_ref().is_some_and(|tape| tape.how.is_free()) || finished.spent.is_some() {
            self.spend = Spend { agent_usd: finished.spent, ..Spend::default() };
        }
        let judges: Vec<f64> = finished.results.evaluators.iter().filter_map(|one| one.cost_usd).collect();
        self.spend.judge_usd = (!judges.is_empty()).then(|| judges.iter().sum());
        self.turns = log.execution.num_turns;
        let known = |text: &str| (text != "unknown").then(|| text.to_owned());
        self.agent_version = known(&log.agent_info.version);
        self.model = known(&log.model_info.name);
        self.isolation = Some(log.execution.isolation);
        self.syscall_filter = log.execution.syscall_filter;
        self.network = Some(log.execution.network);
        let (start, end) = finished.trees.clone();
        self.trees = Some(AttemptTrees { start, end });
        self.evaluators = finished.results.evaluators.iter().map(|one| EvaluatorVerdict::of(one)).collect();
        self.add_ons.clone_from(&log.add_ons);
        self.session = finished.session.clone().map(Box::new);
        self.artifacts.clone_from(&finished.artifacts);
        self.error = log.errors.first().map(|error| truncated(&error.message));
        self.error_code = log.errors.first().and_then(|error| error.code.clone());
        self.warnings = finished.warnings.iter().take(MAX_WARNINGS).map(|text| truncated(text)).collect();
        if let more @ 1.. = finished.warnings.len().saturating_sub(MAX_WARNINGS) {
            self.warnings.push(format!("and {more} more warnings in the log"));
        }
    }
}

pub(super) fn truncated(text: &str) -> String {
    if text.len() <= MAX_TEXT_BYTES {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(MAX_TEXT_BYTES);
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_progress_is_bounded_and_ends_with_the_newest() {
        let queue = LiveQueue::default();
        let told = (1..=1000).filter(|turns| queue.push(Live { turns: *turns, ..Live::default() })).count();
        assert_eq!(told, MAX_LIVE);
        let seen: Vec<u32> = std::iter::from_fn(|| queue.pop()).map(|live| live.turns).collect();
        assert_eq!((seen.len(), seen.first(), seen.last()), (MAX_LIVE, Some(&1), Some(&1000)));
    }
}
