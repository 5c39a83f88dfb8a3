//! The dispatcher: it alone decides what starts, keeps the journal, and counts. Each attempt is a task of its own
//! that only sends news; nothing is shared.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::{Id, JoinError, JoinSet};

use super::budget::Budget;
use super::error::RunError;
use super::event::{AttemptRecord, Progress, RunEvent, Spend, StopReason, Then, Told};
use super::governor::{Governor, Wait};
use super::open::OpenRun;
use super::results::RunResults;
use super::state::RunState;
use super::unit::{Ended, News, next_attempt, remove_private};
use crate::gates::GateReport;
use crate::trial::{Stop, TrialError};
use yb_agents::trace::{Begin, End, Trace};
use yb_model::outcome::{Outcome, Retry};

/// How long trials that are killed may take before they are given up: an exit is promised within three seconds.
const KILL_LIMIT: Duration = Duration::from_millis(2300);
/// The longest wait before a trial that was lost is tried again.
const LONGEST_BACKOFF: Duration = Duration::from_secs(60);
/// How much news is taken at once, so that many lines of the journal cost one sync.
const BATCH: usize = 256;

/// What somebody wants of a run while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Control {
    /// Start nothing more; what runs may end.
    Drain,
    /// End everything now.
    Kill,
}

/// How much at once, how often, and for how much.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Limits {
    /// Further attempts of a trial that was lost to the machine or the API.
    pub retries: u32,
    /// How many trials of an agent at once.
    pub concurrency: BTreeMap<String, u32>,
    /// The run's money.
    pub max_cost_usd: Option<f64>,
    /// Before the second attempt; doubles with each further one.
    pub backoff: Duration,
}

impl Limits {
    /// As a plan says.
    #[must_use]
    pub fn of(options: &super::plan::PlanOptions) -> Self {
        Self {
            retries: options.retries,
            concurrency: options.concurrency.clone(),
            max_cost_usd: options.max_cost_usd,
            backoff: Duration::from_secs(1),
        }
    }
}

/// A run that is over, or was stopped.
#[derive(Debug)]
#[non_exhaustive]
pub struct Over {
    /// What the journal came to.
    pub state: RunState,
    /// The first mistake in a case that only showed in its trial.
    pub mistake: Option<TrialError>,
    /// What the gates say, if there are any.
    pub gates: Option<GateReport>,
}

struct Queued {
    unit: usize,
    not_before: Option<Instant>,
}

struct Running {
    attempt: u32,
    stop: Stop,
    task: Id,
    /// How long the API asked us to wait, when it last did.
    retry_after: Option<Duration>,
    /// What it has cost so far, for an attempt that can't say so itself any more.
    metered: Spend,
    trace: Option<Arc<dyn Trace>>,
}

struct Dispatcher<'a> {
    open: OpenRun,
    limits: &'a Limits,
    tell: &'a mut (dyn FnMut(Told<'_>) + Send),
    queue: VecDeque<Queued>,
    running: HashMap<usize, Running>,
    tasks: JoinSet<(usize, Ended)>,
    news: UnboundedSender<super::unit::Told>,
    governor: Governor,
    budget: Budget,
    stopping: Option<StopReason>,
    kill_limit: Option<Instant>,
    failure: Option<RunError>,
    mistake: Option<TrialError>,
}

impl OpenRun {
    /// Does all that is still to be done, or stops where it must. What was recorded until then stays, whatever
    /// happens.
    ///
    /// # Errors
    /// When nothing more can be recorded.
    pub async fn execute(
        self,
        limits: &Limits,
        control: &mut mpsc::Receiver<Control>,
        tell: &mut (dyn FnMut(Told<'_>) + Send),
    ) -> Result<Over, RunError> {
        let (news, mut incoming) = mpsc::unbounded_channel();
        let budget = Budget::new(limits.max_cost_usd, self.state.tally().spend);
        for entry in &self.begun {
            tell(Told::Event(entry));
        }
        self.store.warm_up();
        let queue = (0..self.units.len()).map(|unit| Queued { unit, not_before: None }).collect();
        let mut dispatcher = Dispatcher {
            open: self,
            limits,
            tell,
            queue,
            running: HashMap::new(),
            tasks: JoinSet::new(),
            news,
            governor: Governor::default(),
            budget,
            stopping: None,
            kill_limit: None,
            failure: None,
            mistake: None,
        };
        if dispatcher.budget.is_spent() {
            dispatcher.stopping = Some(StopReason::Budget);
        }
        dispatcher.work(control, &mut incoming).await;
        dispatcher.open.store.close().await;
        dispatcher.finish()
    }
}

impl Dispatcher<'_> {
    async fn work(
        &mut self,
        control: &mut mpsc::Receiver<Control>,
        incoming: &mut UnboundedReceiver<super::unit::Told>,
    ) {
        let mut news = Vec::new();
        let mut listening = true;
        loop {
            self.start_what_may();
            if self.running.is_empty() && (self.queue.is_empty() || self.stopping.is_some()) {
                return;
            }
            let wake = self.wake();
            tokio::select! {
                biased;
                wish = control.recv(), if listening => match wish {
                    Some(Control::Drain) => self.drain(StopReason::Interrupted),
                    Some(Control::Kill) => self.kill(),
                    None => listening = false,
                },
                _ = incoming.recv_many(&mut news, BATCH) => self.take(std::mem::take(&mut news)),
                Some(ended) = self.tasks.join_next_with_id() => {
                    // What it said before it ended comes first.
                    while let Ok(one) = incoming.try_recv() {
                        news.push(one);
                    }
                    self.take(std::mem::take(&mut news));
                    self.ended(ended.map(|(_, ended)| ended));
                }
                () = sleep_until(wake) => {}
                () = sleep_until(self.kill_limit) => {
                    self.kill_limit = None;
                    self.tasks.abort_all();
                }
            }
        }
    }

    /// Starts every trial that may start now; all their first lines cost one sync.
    fn start_what_may(&mut self) {
        if self.stopping.is_some() {
            return;
        }
        let now = Instant::now();
        let mut starting = Vec::new();
        while self.running.len() + starting.len() < self.open.jobs {
            let Some(at) = self.queue.iter().position(|queued| self.may_start(queued, &starting, now)) else {
                break;
            };
            let Some(queued) = self.queue.remove(at) else { break };
            let unit = &self.open.units[queued.unit];
            let folder = &unit.trial.folder;
            let known = self.open.state.get(folder).map_or(1, super::state::TrialState::next_attempt);
            let attempt = next_attempt(&self.open.run, folder, known);
            self.governor.started(&unit.account);
            starting.push((queued.unit, attempt));
        }
        if starting.is_empty() {
            return;
        }
        let events = starting.iter().map(|(unit, attempt)| RunEvent::AttemptStarted {
            trial: self.open.units[*unit].trial.folder.clone(),
            attempt: *attempt,
        });
        self.record(events.collect());
        if self.failure.is_some() {
            // Nothing was started: they are still to be done.
            return;
        }
        for (index, attempt) in starting {
            let unit = self.open.units[index].clone();
            let place = (self.open.run.clone(), self.open.cache.clone(), self.open.store.clone());
            let (stop, news) = (Stop::default(), self.news.clone());
            let trace =
                self.open.trace.as_ref().map(|run| run.begin(Begin::Trial(&unit.trial.trace_start(attempt))));
            let run = unit.attempt(index, attempt, place, stop.clone(), trace.clone(), news);
            let task = self.tasks.spawn(async move { (index, run.await) }).id();
            let running =
                Running { attempt, stop, task, retry_after: None, metered: Spend::default(), trace };
            self.running.insert(index, running);
        }
    }

    fn may_start(&self, queued: &Queued, starting: &[(usize, u32)], now: Instant) -> bool {
        let unit = &self.open.units[queued.unit];
        if queued.not_before.is_some_and(|at| at > now) || self.governor.wait(&unit.account, now) != Wait::No
        {
            return false;
        }
        let Some(limit) = self.limits.concurrency.get(&unit.trial.agent) else { return true };
        let active = self.running.keys().chain(starting.iter().map(|(unit, _)| unit));
        let same = active.filter(|other| self.open.units[**other].trial.agent == unit.trial.agent);
        same.count() < *limit as usize
    }

    /// When something may start that may not start now.
    fn wake(&self) -> Option<Instant> {
        if self.stopping.is_some() {
            return None;
        }
        let now = Instant::now();
        // Usually nothing waits for a moment in time: what is tried again is at the end, and no account is closed.
        let again = self.queue.back().is_some_and(|queued| queued.not_before.is_some());
        if !again && !self.governor.holds(now) {
            return None;
        }
        let each = self.queue.iter().filter_map(|queued| {
            match self.governor.wait(&self.open.units[queued.unit].account, now) {
                Wait::Until(at) => Some(queued.not_before.map_or(at, |not_before| at.max(not_before))),
                _ => queued.not_before.filter(|at| *at > now),
            }
        });
        each.min()
    }

    /// Takes news of running trials.
    fn take(&mut self, news: Vec<super::unit::Told>) {
        let mut events = Vec::new();
        for (index, news) in news {
            let trial = self.open.units[index].trial.folder.clone();
            match news {
                News::Started(tree) => {
                    if let Some(running) = self.running.get(&index) {
                        events.push(RunEvent::AgentStarted { trial, attempt: running.attempt, tree });
                    }
                }
                News::Step(step) => (self.tell)(Told::Progress(&Progress::Step { trial, step })),
                News::Live(live) => {
                    if let Some(retry) = &live.api_retry
                        && retry.status == Some(429)
                    {
                        if let Some(running) = self.running.get_mut(&index) {
                            running.retry_after = retry.retry_after;
                        }
                        self.refused(index, retry.retry_after);
                    }
                    let (agent_usd, subagents_usd) = (live.agent_usd, live.subagents_usd);
                    let metered = Spend { agent_usd, subagents_usd, judge_usd: None };
                    if let Some(running) = self.running.get_mut(&index) {
                        running.metered = metered;
                    }
                    self.budget.so_far(&trial, metered.total().unwrap_or(0.0));
                    (self.tell)(Told::Progress(&Progress::Live { trial, live }));
                }
            }
        }
        self.record(events);
        self.watch_budget();
    }

    fn refused(&mut self, index: usize, retry_after: Option<Duration>) {
        let unit = &self.open.units[index];
        if let Some(pause) = self.governor.refused(&unit.account, retry_after, Instant::now()) {
            let agent = unit.trial.agent.clone();
            (self.tell)(Told::Progress(&Progress::Holding { agent, for_: pause }));
        }
    }

    fn watch_budget(&mut self) {
        if self.stopping != Some(StopReason::Budget) && self.budget.is_spent() {
            self.drain(StopReason::Budget);
            for running in self.running.values() {
                running.stop.with(Outcome::Budget);
            }
        }
    }

    /// An attempt is over: by itself, given up, or with a bug of ours.
    fn ended(&mut self, ended: Result<(usize, Ended), JoinError>) {
        let (index, ended) = match ended {
            Ok(ended) => ended,
            Err(error) => {
                let found = self.running.iter().find(|(_, running)| running.task == error.id());
                let Some((index, running)) = found else { return };
                (*index, self.given_up(*index, running, &error))
            }
        };
        let Some(running) = self.running.remove(&index) else { return };
        let Ended { mut record, error } = ended;
        if record.spend.total().is_none() {
            record.spend = running.metered;
        }
        let unit = &self.open.units[index];
        let (account, folder) = (unit.account.clone(), unit.trial.folder.clone());
        self.governor.ended(&account);
        self.budget.ended(&folder, record.spend);
        match record.outcome {
            Outcome::RateLimited => self.refused(index, running.retry_after),
            Outcome::Infra | Outcome::Cancelled => {}
            _ => self.governor.went_well(&account),
        }
        let lost = self.open.state.get(&folder).map_or(0, super::state::TrialState::lost_in_a_row);
        let full = error.as_ref().filter(|error| record.outcome == Outcome::Infra && error.is_full());
        if let Some(error) = full {
            // Still to be done, when there is room again.
            record.then = Then::Again;
            self.failure.get_or_insert_with(|| RunError::full(error));
            self.drain(StopReason::Disk);
        } else if may_help(&record, error.as_ref()) && lost < self.limits.retries {
            record.then = Then::Again;
            let backoff = self.limits.backoff.saturating_mul(2_u32.saturating_pow(lost)).min(LONGEST_BACKOFF);
            self.queue.push_back(Queued { unit: index, not_before: Some(Instant::now() + backoff) });
        } else if record.outcome == Outcome::Cancelled {
            // Still to be done, by whoever resumes the run.
            self.queue.push_back(Queued { unit: index, not_before: None });
        }
        if let Some(trace) = &running.trace {
            trace.end(End::Trial(&record.trace_end()));
        }
        self.record(vec![RunEvent::AttemptFinished(record)]);
        if let Some(error) = error.filter(TrialError::is_configuration) {
            self.mistake.get_or_insert(error);
        }
        self.watch_budget();
    }

    fn given_up(&self, index: usize, running: &Running, error: &JoinError) -> Ended {
        let folder = &self.open.units[index].trial.folder;
        remove_private(&self.open.run, folder, running.attempt);
        let started = self.open.state.get(folder).and_then(|state| state.in_flight.as_ref());
        let started_at = started.map(|one| one.started_at.clone()).unwrap_or_default();
        let mut record = AttemptRecord::new(folder, running.attempt, started_at);
        if error.is_cancelled() {
            record.outcome = running.stop.outcome().unwrap_or(Outcome::Cancelled);
            record.error = Some("did not end in time and was given up".to_owned());
        } else {
            record.error = Some(format!("internal error, please report it: {error}"));
        }
        Ended { record, error: None }
    }

    /// Writes to the journal. When that fails, nothing more is begun and what runs is ended: it could not be recorded.
    fn record(&mut self, events: Vec<RunEvent>) {
        if events.is_empty() || matches!(self.failure, Some(RunError::Journal(_))) {
            return;
        }
        match self.open.journal.append(events) {
            Ok(entries) => {
                for entry in &entries {
                    self.open.state.apply(entry);
                    (self.tell)(Told::Event(entry));
                }
            }
            Err(error) => {
                self.failure = Some(error.into());
                self.drain(StopReason::Disk);
                self.kill();
            }
        }
    }

    fn drain(&mut self, reason: StopReason) {
        if self.stopping.is_none() {
            let running = self.running.len();
            (self.tell)(Told::Progress(&Progress::Draining { reason: reason.clone(), running }));
            self.stopping = Some(reason);
        }
    }

    fn kill(&mut self) {
        self.stopping.get_or_insert(StopReason::Interrupted);
        (self.tell)(Told::Progress(&Progress::Killing { running: self.running.len() }));
        for running in self.running.values() {
            running.stop.with(Outcome::Cancelled);
        }
        self.kill_limit.get_or_insert_with(|| Instant::now() + KILL_LIMIT);
    }

    fn finish(mut self) -> Result<Over, RunError> {
        let last = match self.stopping.take() {
            Some(reason) if self.open.state.tally().pending() > 0 => RunEvent::RunStopped { reason },
            _ => RunEvent::RunFinished,
        };
        self.record(vec![last]);
        let Self { open, failure, mistake, .. } = self;
        let mut results = RunResults::of(&open.plan, &open.state);
        results.gates = crate::gates::evaluate(&open.plan.options.gates, &results, open.run.root());
        let written = results.write(&open.run.results());
        // Derived, and made again by whoever misses it: never a reason to fail.
        let _ = crate::index::update(open.run.root(), &results);
        match failure {
            Some(failure) => Err(failure),
            None => written.map(|()| Over { state: open.state, mistake, gates: results.gates }),
        }
    }
}

/// Whether another attempt may come to something else: only what the machine or the API did is tried again.
fn may_help(record: &AttemptRecord, error: Option<&TrialError>) -> bool {
    let by_its_own_words = match error {
        Some(TrialError::Hook { .. }) => false,
        Some(error) => !error.is_configuration(),
        None => true,
    };
    record.outcome.retried() == Retry::Bounded && by_its_own_words
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}
