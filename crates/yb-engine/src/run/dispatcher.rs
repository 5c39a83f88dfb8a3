//! The dispatcher: starts trials, writes the journal, and enforces the budget. Each attempt is a separate task that
//! reports to the dispatcher through a channel; tasks share no state.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::{Id, JoinError, JoinSet};

use super::budget::Budget;
use super::error::RunError;
use super::event::{AttemptRecord, Progress, RetryDecision, RunEvent, RunnerEvent, Spend, StopReason};
use super::governor::{Governor, StartDelay};
use super::results::RunResults;
use super::resume::ActiveRun;
use super::state::RunState;
use super::unit::{AttemptEnd, UnitEvent, next_attempt, remove_private};
use super::untouched::UntouchedChecks;
use crate::gates::GateReport;
use crate::trial::{StopCause, StopHandle, TrialError, TrialStep};
use yb_agents::ProcessRole;
use yb_agents::trace::{Begin, End, Trace};
use yb_model::outcome::{Outcome, Retry};
use yb_repo::RepoError;

/// How long killed trials may take to end before their tasks are aborted. The process must exit within three seconds.
const KILL_TIMEOUT: Duration = Duration::from_millis(2300);
/// The longest backoff before a retry.
const MAX_BACKOFF: Duration = Duration::from_secs(60);
/// How many unit events are handled in one batch. A batch shares one sync of the journal.
const EVENT_BATCH: usize = 256;

/// A request to a running run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Control {
    /// Start no further trials; let running trials finish.
    Drain,
    /// Kill the running trials.
    Kill,
}

/// Limits on concurrency, retries and cost.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ExecutionLimits {
    /// The number of retries after an infrastructure or API failure.
    pub retries: u32,
    /// The maximum number of concurrent trials, by agent.
    pub concurrency: BTreeMap<String, u32>,
    /// The budget of the run.
    pub max_cost_usd: Option<f64>,
    /// The backoff before the first retry; doubles with each further retry.
    pub backoff: Duration,
    /// Whether to warn of cases that an agent would pass that does nothing.
    pub check_untouched: bool,
}

impl ExecutionLimits {
    /// Returns the limits set by the options of a plan.
    #[must_use]
    pub fn from_options(options: &super::plan::PlanOptions) -> Self {
        Self {
            retries: options.retries,
            concurrency: options.concurrency.clone(),
            max_cost_usd: options.max_cost_usd,
            backoff: Duration::from_secs(1),
            check_untouched: true,
        }
    }
}

/// The outcome of a run that finished or was stopped.
#[derive(Debug)]
#[non_exhaustive]
pub struct RunOutcome {
    /// The state of the run after its last journal entry.
    pub state: RunState,
    /// The first configuration error that was only detected while its trial ran.
    pub config_error: Option<TrialError>,
    /// The results of the gates, if the run has any.
    pub gates: Option<GateReport>,
}

/// A pending trial.
struct QueuedTrial {
    unit: usize,
    not_before: Option<Instant>,
}

/// A running attempt.
struct RunningAttempt {
    attempt: u32,
    stop: StopHandle,
    task: Id,
    /// The delay that the API last asked for.
    retry_after: Option<Duration>,
    /// The metered cost so far, for an attempt that ends without reporting its own.
    metered: Spend,
    trace: Option<Arc<dyn Trace>>,
}

/// Runs the trials of an active run.
struct Dispatcher<'a> {
    active: ActiveRun,
    limits: &'a ExecutionLimits,
    emit: &'a mut (dyn FnMut(RunnerEvent<'_>) + Send),
    queue: VecDeque<QueuedTrial>,
    running: HashMap<usize, RunningAttempt>,
    tasks: JoinSet<(usize, AttemptEnd)>,
    unit_events: UnboundedSender<super::unit::UnitMessage>,
    governor: Governor,
    budget: Budget,
    stopping: Option<StopReason>,
    kill_deadline: Option<Instant>,
    failure: Option<RunError>,
    config_error: Option<TrialError>,
    untouched: UntouchedChecks,
}

impl ActiveRun {
    /// Runs all pending trials, or stops early on a request, an exhausted budget or a full disk. Recorded results are
    /// kept in every case.
    ///
    /// # Errors
    /// Returns an error when results can no longer be recorded.
    pub async fn execute(
        self,
        limits: &ExecutionLimits,
        control: &mut mpsc::Receiver<Control>,
        emit: &mut (dyn FnMut(RunnerEvent<'_>) + Send),
    ) -> Result<RunOutcome, RunError> {
        let (unit_events, mut incoming) = mpsc::unbounded_channel();
        let budget = Budget::new(limits.max_cost_usd, self.state.tally().spend);
        for entry in &self.opening_entries {
            emit(RunnerEvent::Event(entry));
        }
        for message in self.warnings() {
            emit(RunnerEvent::Progress(&Progress::Warning { message }));
        }
        self.store.warm_up();
        let queue = (0..self.units.len()).map(|unit| QueuedTrial { unit, not_before: None }).collect();
        let mut dispatcher = Dispatcher {
            active: self,
            limits,
            emit,
            queue,
            running: HashMap::new(),
            tasks: JoinSet::new(),
            unit_events,
            governor: Governor::default(),
            budget,
            stopping: None,
            kill_deadline: None,
            failure: None,
            config_error: None,
            untouched: UntouchedChecks::new(),
        };
        if dispatcher.budget.is_exhausted() {
            dispatcher.stopping = Some(StopReason::Budget);
        }
        dispatcher.run_until_done(control, &mut incoming).await;
        dispatcher.finish_checks().await;
        dispatcher.check_checkouts().await;
        dispatcher.active.store.close().await;
        dispatcher.finish()
    }
}

impl ActiveRun {
    /// Returns what to know before the first trial: warnings about the starts of cases, and those about isolation and network
    /// that several trials share. A single trial reports its own.
    fn warnings(&self) -> BTreeSet<String> {
        let is_single = self.plan.trials.len() == 1;
        let first = self.units.iter().filter(|unit| unit.trial.repeat == 1);
        first
            .flat_map(|unit| {
                let shared = (!is_single).then(|| unit.runner.isolation_warnings(&unit.case));
                unit.start.warnings.iter().cloned().chain(shared.into_iter().flatten())
            })
            .collect()
    }
}

impl Dispatcher<'_> {
    async fn run_until_done(
        &mut self,
        control: &mut mpsc::Receiver<Control>,
        incoming: &mut UnboundedReceiver<super::unit::UnitMessage>,
    ) {
        let mut events = Vec::new();
        let mut control_open = true;
        loop {
            self.start_ready_trials();
            if self.running.is_empty() && (self.queue.is_empty() || self.stopping.is_some()) {
                return;
            }
            let next_wakeup = self.next_wakeup();
            tokio::select! {
                biased;
                request = control.recv(), if control_open => match request {
                    Some(Control::Drain) => self.drain(StopReason::Interrupted),
                    Some(Control::Kill) => self.kill(),
                    None => control_open = false,
                },
                _ = incoming.recv_many(&mut events, EVENT_BATCH) => self.handle_unit_events(std::mem::take(&mut events)),
                Some(ended) = self.tasks.join_next_with_id() => {
                    // Events that the task sent before it ended come first.
                    while let Ok(event) = incoming.try_recv() {
                        events.push(event);
                    }
                    self.handle_unit_events(std::mem::take(&mut events));
                    self.handle_attempt_end(ended.map(|(_, ended)| ended));
                }
                Some(warning) = self.untouched.next() => self.warn(warning),
                () = sleep_until(next_wakeup) => {}
                () = sleep_until(self.kill_deadline) => {
                    self.kill_deadline = None;
                    self.tasks.abort_all();
                }
            }
        }
    }

    /// Waits for the checks beside the run, unless the user wants it to end.
    async fn finish_checks(&mut self) {
        let checks = std::mem::replace(&mut self.untouched, UntouchedChecks::new());
        if self.stopping != Some(StopReason::Interrupted) {
            for warning in checks.finish().await {
                self.warn(warning);
            }
        }
    }

    /// Checks that the checkouts that trials shared were not changed. Otherwise, no result of them is certain.
    async fn check_checkouts(&mut self) {
        for unit in &self.active.units {
            if let Some(checkout) = unit.known.checkout()
                && let Err(error) = checkout.check_now().await
            {
                self.failure.get_or_insert(RunError::Checkout(error));
            }
        }
    }

    fn warn(&mut self, message: String) {
        (self.emit)(RunnerEvent::Progress(&Progress::Warning { message }));
    }

    /// Starts every trial that may start now. Their first journal entries share one sync.
    fn start_ready_trials(&mut self) {
        if self.stopping.is_some() {
            return;
        }
        let now = Instant::now();
        let mut starting = Vec::new();
        while self.running.len() + starting.len() < self.active.jobs {
            let Some(at) = self.queue.iter().position(|queued| self.may_start(queued, &starting, now)) else {
                break;
            };
            let Some(queued) = self.queue.remove(at) else { break };
            let unit = &self.active.units[queued.unit];
            let folder = &unit.trial.folder;
            let known = self.active.state.get(folder).map_or(1, super::state::TrialState::next_attempt);
            let attempt = next_attempt(&self.active.run, folder, known);
            self.governor.start(&unit.account);
            starting.push((queued.unit, attempt));
        }
        if starting.is_empty() {
            return;
        }
        let events = starting.iter().map(|(unit, attempt)| RunEvent::AttemptStarted {
            trial: self.active.units[*unit].trial.folder.clone(),
            attempt: *attempt,
        });
        self.record(events.collect());
        if self.failure.is_some() {
            // No trial was started: all of them remain pending.
            return;
        }
        for (index, attempt) in starting {
            let unit = self.active.units[index].clone();
            let dirs = (self.active.run.clone(), self.active.cache.clone(), self.active.store.clone());
            let (stop, unit_events) = (StopHandle::default(), self.unit_events.clone());
            let trace = self
                .active
                .trace
                .as_ref()
                .map(|run| run.begin(Begin::Trial(&unit.trial.trace_start(attempt))));
            let run = unit.attempt(index, attempt, dirs, stop.clone(), trace.clone(), unit_events);
            let task = self.tasks.spawn(async move { (index, run.await) }).id();
            let running =
                RunningAttempt { attempt, stop, task, retry_after: None, metered: Spend::default(), trace };
            self.running.insert(index, running);
        }
    }

    fn may_start(&self, queued: &QueuedTrial, starting: &[(usize, u32)], now: Instant) -> bool {
        let unit = &self.active.units[queued.unit];
        if queued.not_before.is_some_and(|at| at > now)
            || self.governor.start_delay(&unit.account, now) != StartDelay::None
        {
            return false;
        }
        let Some(limit) = self.limits.concurrency.get(&unit.trial.agent) else { return true };
        let active = self.running.keys().chain(starting.iter().map(|(unit, _)| unit));
        let same = active.filter(|other| self.active.units[**other].trial.agent == unit.trial.agent);
        same.count() < *limit as usize
    }

    /// Returns the time at which the next delayed trial may start.
    fn next_wakeup(&self) -> Option<Instant> {
        if self.stopping.is_some() {
            return None;
        }
        let now = Instant::now();
        // Avoids a scan in the common case: retries are at the end of the queue, and no account is paused.
        let has_retries = self.queue.back().is_some_and(|queued| queued.not_before.is_some());
        if !has_retries && !self.governor.is_paused(now) {
            return None;
        }
        let each = self.queue.iter().filter_map(|queued| {
            match self.governor.start_delay(&self.active.units[queued.unit].account, now) {
                StartDelay::Until(at) => Some(queued.not_before.map_or(at, |not_before| at.max(not_before))),
                _ => queued.not_before.filter(|at| *at > now),
            }
        });
        each.min()
    }

    /// Handles events of running trials.
    fn handle_unit_events(&mut self, messages: Vec<super::unit::UnitMessage>) {
        let mut events = Vec::new();
        let mut starting = Vec::new();
        for (index, event) in messages {
            let trial = self.active.units[index].trial.folder.clone();
            match event {
                UnitEvent::Starting(role, tree, recorded) => {
                    if let Some(running) = self.running.get(&index) {
                        let attempt = running.attempt;
                        events.push(match role {
                            ProcessRole::Agent => RunEvent::AgentStarted { trial, attempt, tree },
                            role => RunEvent::ProcessStarted { trial, attempt, role, tree },
                        });
                        starting.push(recorded);
                    }
                }
                UnitEvent::Step(TrialStep::StartRecorded { tree }) => {
                    if self.limits.check_untouched {
                        self.untouched.begin(&self.active, index, tree);
                    }
                }
                UnitEvent::Step(step) => (self.emit)(RunnerEvent::Progress(&Progress::Step { trial, step })),
                UnitEvent::Live(waiting) => {
                    let Some(live) = waiting.pop() else { continue };
                    if let Some(retry) = &live.api_retry
                        && retry.status == Some(429)
                    {
                        if let Some(running) = self.running.get_mut(&index) {
                            running.retry_after = retry.retry_after;
                        }
                        self.handle_rate_limit(index, retry.retry_after);
                    }
                    let (agent_usd, subagents_usd) = (live.agent_usd, live.subagents_usd);
                    let metered = Spend { agent_usd, subagents_usd, judge_usd: None };
                    if let Some(running) = self.running.get_mut(&index) {
                        running.metered = metered;
                    }
                    self.budget.update_running(&trial, metered.total().unwrap_or(0.0));
                    (self.emit)(RunnerEvent::Progress(&Progress::Live { trial, live }));
                }
            }
        }
        // A program runs only when the journal has its record; otherwise the senders are dropped.
        if self.record(events) {
            for recorded in starting {
                let _ = recorded.send(());
            }
        }
        self.check_budget();
    }

    fn handle_rate_limit(&mut self, index: usize, retry_after: Option<Duration>) {
        let unit = &self.active.units[index];
        if let Some(pause) = self.governor.record_rate_limit(&unit.account, retry_after, Instant::now()) {
            let agent = unit.trial.agent.clone();
            (self.emit)(RunnerEvent::Progress(&Progress::Holding { agent, for_: pause }));
        }
    }

    fn check_budget(&mut self) {
        if self.stopping != Some(StopReason::Budget) && self.budget.is_exhausted() {
            self.drain(StopReason::Budget);
            for running in self.running.values() {
                running.stop.stop(StopCause::CostLimit);
            }
        }
    }

    /// Records the end of an attempt: a regular end, an aborted task, or a panic.
    fn handle_attempt_end(&mut self, ended: Result<(usize, AttemptEnd), JoinError>) {
        let (index, ended) = match ended {
            Ok(ended) => ended,
            Err(error) => {
                let found = self.running.iter().find(|(_, running)| running.task == error.id());
                let Some((index, running)) = found else { return };
                (*index, self.abandoned_attempt(*index, running, &error))
            }
        };
        let Some(running) = self.running.remove(&index) else { return };
        let AttemptEnd { mut record, error } = ended;
        if record.spend.total().is_none() {
            record.spend = running.metered;
        }
        // Only needed to compare variants; it has many names.
        if self.active.plan.vary.is_empty() {
            record.session = None;
        }
        let unit = &self.active.units[index];
        let (account, folder) = (unit.account.clone(), unit.trial.folder.clone());
        self.governor.finish(&account);
        self.budget.finish_attempt(&folder, record.spend);
        match record.outcome {
            Outcome::RateLimited => self.handle_rate_limit(index, running.retry_after),
            Outcome::Infra | Outcome::Cancelled => {}
            _ => self.governor.record_success(&account),
        }
        let lost = self.active.state.get(&folder).map_or(0, super::state::TrialState::consecutive_retries);
        let full = error.as_ref().filter(|error| record.outcome == Outcome::Infra && error.is_disk_full());
        if let Some(error) = full {
            // The trial stays pending until there is disk space again.
            record.then = RetryDecision::Retry;
            self.failure.get_or_insert_with(|| RunError::disk_full(error));
            self.drain(StopReason::Disk);
        } else if let Some(TrialError::Repo(RepoError::CheckoutChanged { path })) = &error {
            record.then = RetryDecision::Retry;
            let changed = RepoError::CheckoutChanged { path: path.clone() };
            self.failure.get_or_insert(RunError::Checkout(changed));
            self.drain(StopReason::Interrupted);
        } else if is_retryable(&record, error.as_ref()) && lost < self.limits.retries {
            record.then = RetryDecision::Retry;
            let backoff = self.limits.backoff.saturating_mul(2_u32.saturating_pow(lost)).min(MAX_BACKOFF);
            self.queue.push_back(QueuedTrial { unit: index, not_before: Some(Instant::now() + backoff) });
        } else if record.outcome == Outcome::Cancelled {
            // The trial stays pending until the run is resumed.
            self.queue.push_back(QueuedTrial { unit: index, not_before: None });
        }
        if let Some(trace) = &running.trace {
            trace.end(End::Trial(&record.trace_end()));
        }
        self.record(vec![RunEvent::AttemptFinished(record)]);
        if let Some(error) = error.filter(TrialError::is_configuration) {
            self.config_error.get_or_insert(error);
        }
        self.check_budget();
    }

    fn abandoned_attempt(&self, index: usize, running: &RunningAttempt, error: &JoinError) -> AttemptEnd {
        let folder = &self.active.units[index].trial.folder;
        remove_private(&self.active.run, folder, running.attempt);
        let started = self.active.state.get(folder).and_then(|state| state.in_flight.as_ref());
        let started_at = started.map(|one| one.started_at.clone()).unwrap_or_default();
        let agent_ran = started.is_some_and(|one| one.tree.is_some());
        let mut record = AttemptRecord::new(folder, running.attempt, started_at);
        if error.is_cancelled() {
            record.outcome = Outcome::Cancelled;
            record.error = Some("did not end before the kill timeout".to_owned());
        } else {
            // Whatever the agent did to cause it, it must not be excluded from the pass rate.
            if agent_ran {
                record.outcome = Outcome::Failed;
            }
            record.error = Some(format!("internal error, please report it: {error}"));
        }
        AttemptEnd { record, error: None }
    }

    /// Appends to the journal; returns whether the events are in it. On failure, no further trial is started and
    /// running ones are killed, because their results could not be recorded.
    fn record(&mut self, events: Vec<RunEvent>) -> bool {
        if matches!(self.failure, Some(RunError::Journal(_))) {
            return false;
        }
        if events.is_empty() {
            return true;
        }
        match self.active.journal.append(events) {
            Ok(entries) => {
                for entry in &entries {
                    self.active.state.apply(entry);
                    (self.emit)(RunnerEvent::Event(entry));
                }
                true
            }
            Err(error) => {
                self.failure = Some(error.into());
                self.drain(StopReason::Disk);
                self.kill();
                false
            }
        }
    }

    fn drain(&mut self, reason: StopReason) {
        if self.stopping.is_none() {
            let running = self.running.len();
            (self.emit)(RunnerEvent::Progress(&Progress::Draining { reason: reason.clone(), running }));
            self.stopping = Some(reason);
        }
    }

    fn kill(&mut self) {
        self.stopping.get_or_insert(StopReason::Interrupted);
        (self.emit)(RunnerEvent::Progress(&Progress::Killing { running: self.running.len() }));
        for running in self.running.values() {
            running.stop.stop(StopCause::Interrupted);
        }
        self.kill_deadline.get_or_insert_with(|| Instant::now() + KILL_TIMEOUT);
    }

    fn finish(mut self) -> Result<RunOutcome, RunError> {
        let results = RunResults::of(&self.active.plan, &self.active.state);
        let gates = crate::gates::evaluate(&self.active.plan.options.gates, &results, self.active.run.root());
        let digest = super::record::json_digest(&gates);
        let last = match self.stopping.take() {
            Some(reason) if self.active.state.tally().pending() > 0 => {
                RunEvent::RunStopped { reason, gates: digest }
            }
            _ => RunEvent::RunFinished { gates: digest },
        };
        self.record(vec![last]);
        let Self { active, failure, config_error, .. } = self;
        let mut results = RunResults::of(&active.plan, &active.state);
        results.gates = gates;
        results.variants = crate::compare::VariantSummary::of(&results);
        results.journal_head = active.journal.head().map(str::to_owned);
        let written = results.write(&active.run.results());
        // The index is derived data and can be rebuilt: a failure to update it is not an error.
        let _ = crate::index::update(active.run.root(), &results);
        match failure {
            Some(failure) => Err(failure),
            None => written.map(|()| RunOutcome { state: active.state, config_error, gates: results.gates }),
        }
    }
}

/// Whether a retry may have another outcome. Only infrastructure and API failures are retried.
fn is_retryable(record: &AttemptRecord, error: Option<&TrialError>) -> bool {
    let retryable_error = match error {
        Some(TrialError::Hook { .. }) => false,
        Some(error) => !error.is_configuration(),
        None => true,
    };
    record.outcome.retried() == Retry::Bounded && retryable_error
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}
