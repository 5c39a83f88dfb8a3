//! One attempt of one trial, as a task of its own: it tells the dispatcher what happens and never touches the journal.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use yb_agents::trace::TrialEnd;

use jiff::Timestamp;
use tokio::sync::mpsc::UnboundedSender;
use yb_supervise::TreeRecord;

use super::dir::RunDir;
use super::event::{AttemptRecord, Graded, Spend, Then, Trees};
use super::plan::PlannedTrial;
use crate::trial::{Attempt, Finished, KnownStart, PRIVATE, Runner, StartPoint, Step, Stop, TrialError};
use yb_agents::trace::Trace;
use yb_agents::{Live, Observer};
use yb_case::Case;
use yb_model::log::UsageSource;
use yb_model::outcome::Outcome;
use yb_repo::ObjectStore;

/// The longest error and warnings that go into the journal; the log has all of them.
const KEPT: usize = 500;
const WARNINGS: usize = 3;

/// A trial with all that it needs to run.
#[derive(Clone)]
pub(super) struct Unit {
    pub(super) trial: PlannedTrial,
    pub(super) case: Arc<Case>,
    pub(super) runner: Runner,
    pub(super) start: Arc<StartPoint>,
    pub(super) known: Arc<KnownStart>,
    pub(super) account: String,
}

/// What a unit tells while it runs.
#[derive(Debug)]
pub(super) enum News {
    Step(Step),
    Started(TreeRecord),
    Live(Live),
}

/// Where news of an attempt goes.
pub(super) type Told = (usize, News);

/// An attempt that is over.
pub(super) struct Ended {
    pub(super) record: AttemptRecord,
    /// Whether the case, rather than the machine, is to be changed.
    pub(super) error: Option<TrialError>,
}

#[derive(Debug)]
struct Sender {
    unit: usize,
    to: UnboundedSender<Told>,
    last: Mutex<Live>,
    /// Nobody is paid: what the agent reckons is what its tape once cost.
    is_free: bool,
}

impl Sender {
    fn last(&self) -> Live {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Observer for Sender {
    fn started(&self, record: TreeRecord) {
        let _ = self.to.send((self.unit, News::Started(record)));
    }

    fn changed(&self, live: &Live) {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone_from(live);
        let mut live = live.clone();
        if self.is_free {
            (live.agent_usd, live.subagents_usd) =
                (live.agent_usd.map(|_| 0.0), live.subagents_usd.map(|_| 0.0));
        }
        let _ = self.to.send((self.unit, News::Live(live)));
    }
}

impl Unit {
    /// Runs one attempt to its end, whatever that is.
    pub(super) async fn attempt(
        mut self,
        index: usize,
        number: u32,
        place: (RunDir, PathBuf, ObjectStore),
        stop: Stop,
        trace: Option<Arc<dyn Trace>>,
        to: UnboundedSender<Told>,
    ) -> Ended {
        let (run, cache, store) = place;
        self.runner.stop = stop.clone();
        self.runner.trace = trace;
        let is_free = self.runner.is_played(&self.case);
        let sender = Arc::new(Sender { unit: index, to: to.clone(), last: Mutex::default(), is_free });
        self.runner.observer = Some(sender.clone());
        let (began, started_at) = (Instant::now(), Timestamp::now().to_string());
        let attempt = Attempt {
            run: &run,
            store: &store,
            start: &self.start,
            known: &self.known,
            trial: &self.trial.folder,
            number,
        };
        let mut tell = |step: Step| {
            let _ = to.send((index, News::Step(step)));
        };
        let finished = self.runner.attempt(&self.case, &cache, &attempt, &mut tell).await;
        let mut record = AttemptRecord::new(&self.trial.folder, number, started_at);
        record.duration_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        match finished {
            Ok(finished) => {
                record.fill(&finished, &sender.last());
                Ended { record, error: None }
            }
            Err(error) => {
                remove_private(&run, &self.trial.folder, number);
                record.outcome = outcome_of(&error, &stop);
                record.error = Some(shortened(&error.to_string()));
                Ended { record, error: Some(error) }
            }
        }
    }
}

/// What an attempt came to that has no results.
fn outcome_of(error: &TrialError, stop: &Stop) -> Outcome {
    match (error, stop.outcome()) {
        (_, Some(outcome)) => outcome,
        (TrialError::Unavailable { .. }, None) => Outcome::Unauthenticated,
        (error, None) if error.is_cancelled() => Outcome::Cancelled,
        _ => Outcome::Infra,
    }
}

/// Private files, keys among them, go whatever happened.
pub(super) fn remove_private(run: &RunDir, trial: &str, attempt: u32) {
    for folder in PRIVATE {
        let _ = std::fs::remove_dir_all(run.attempt(trial, attempt).join(folder));
    }
}

/// A half-made workspace is worth nothing; what the agent wrote into the artifacts is kept.
pub(super) fn remove_half_made(run: &RunDir, trial: &str, attempt: u32) {
    remove_private(run, trial, attempt);
    let _ = std::fs::remove_dir_all(run.attempt(trial, attempt).join("src-modified"));
}

/// A number that no attempt has had, not even one that the journal forgot.
pub(super) fn next_attempt(run: &RunDir, trial: &str, known: u32) -> u32 {
    on_disk(run, trial).max().map_or(known, |last| known.max(last + 1))
}

/// The attempts of a trial that have a folder.
pub(super) fn on_disk(run: &RunDir, trial: &str) -> impl Iterator<Item = u32> {
    let taken = |path: &Path| path.file_name()?.to_str()?.strip_prefix("attempt-")?.parse::<u32>().ok();
    let entries = std::fs::read_dir(run.trial(trial)).into_iter().flatten().flatten();
    entries.filter_map(move |entry| taken(&entry.path()))
}

impl AttemptRecord {
    /// The end of this attempt, for a trace.
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
            then: Then::Done,
            started_at,
            duration_ms: 0,
            spend: Spend::default(),
            tokens: 0,
            turns: None,
            agent_version: None,
            model: None,
            isolation: None,
            network: None,
            tape: None,
            trees: None,
            evaluators: Vec::new(),
            artifacts: std::collections::BTreeMap::new(),
            error: None,
            warnings: Vec::new(),
        }
    }

    fn fill(&mut self, finished: &Finished, live: &Live) {
        let log = &finished.log;
        self.outcome = finished.outcome;
        if log.usage.source != UsageSource::Unreported {
            self.tokens = log.usage.total_tokens;
            // The agent's own account is one sum; how it is divided was metered.
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
        self.network = Some(log.execution.network);
        let (start, end) = finished.trees.clone();
        self.trees = Some(Trees { start, end });
        self.evaluators = finished
            .results
            .evaluators
            .iter()
            .map(|one| Graded { name: one.evaluator.clone(), status: one.status })
            .collect();
        self.artifacts.clone_from(&finished.artifacts);
        self.error = log.errors.first().map(|error| shortened(&error.message));
        self.warnings = finished.warnings.iter().take(WARNINGS).map(|text| shortened(text)).collect();
        if let more @ 1.. = finished.warnings.len().saturating_sub(WARNINGS) {
            self.warnings.push(format!("and {more} more warnings in the log"));
        }
    }
}

fn shortened(text: &str) -> String {
    if text.len() <= KEPT {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(KEPT);
    format!("{}…", &text[..end])
}
