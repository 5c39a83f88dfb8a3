//! Sees one child through to its end: deadline, cancellation, quota, the kill that follows, and the report.

use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::backend::{Backend, Done, Event};
use crate::error::SpawnError;
use crate::gate::Gate;
use crate::lines::Lines;
use crate::pause::{Held, PauseSwitch};
use crate::pump::{Ended, Pump};
use crate::quota::{self, Quota};
use crate::record::TreeRecord;
use crate::report::{Containment, End, ExitStatus, LogSummary, Output, Report, Usage, Warning};
use crate::stdin::StdinWriter;
use crate::tap::Tap;

/// How long the pipes may stay open once the tree is dead.
const PIPES_LIMIT: Duration = Duration::from_millis(500);
/// How long the last bytes may take to reach the files.
const FILES_LIMIT: Duration = Duration::from_secs(1);
/// How long after the kill the shim has to report; it gives up by itself before.
const SHIM_LIMIT: Duration = Duration::from_secs(2);

/// What ends a child that does not end by itself.
#[derive(Debug)]
pub(crate) struct Limits {
    pub(crate) deadline: Duration,
    pub(crate) grace: Duration,
    pub(crate) quotas: Vec<Quota>,
}

/// Everything that belongs to one running child.
#[derive(Debug)]
pub(crate) struct Driver {
    backend: Backend,
    pump: Pump,
    feeder: Option<JoinHandle<()>>,
    /// The way out of a sandbox, for as long as this lives.
    gate: Option<Gate>,
    warnings: Vec<Warning>,
    limits: Limits,
    held: Held,
    /// Since when it is held, if it is, and how long it was before that.
    paused_since: Option<Instant>,
    paused: Duration,
    /// Pauses that the backend has not confirmed.
    unconfirmed: usize,
    started_at: Timestamp,
    started: Instant,
}

impl Driver {
    pub(crate) fn new(
        backend: Backend,
        pump: Pump,
        feeder: Option<JoinHandle<()>>,
        warnings: Vec<Warning>,
        limits: Limits,
        held: Held,
    ) -> Self {
        Self {
            backend,
            pump,
            feeder,
            gate: None,
            warnings,
            limits,
            held,
            paused_since: None,
            paused: Duration::ZERO,
            unconfirmed: 0,
            started_at: Timestamp::now(),
            started: Instant::now(),
        }
    }

    /// The same with a way out of its sandbox.
    pub(crate) fn with_gate(mut self, gate: Option<Gate>) -> Self {
        self.gate = gate;
        self
    }

    async fn drive(mut self, cancel: CancellationToken) -> Report {
        let (reason, done) = self.until_dead(&cancel).await;
        self.end_pause();
        self.backend.close().await;
        if let Some(feeder) = self.feeder.take() {
            feeder.abort();
        }
        let (output, log) = self.collect_output().await;
        let end = match (reason, done.status) {
            (Some(reason), _) => reason,
            // The code is that of what makes the sandbox, not of the program.
            (None, Some(ExitStatus::Code(_))) if !done.began => {
                End::SpawnFailed(SpawnError::SandboxFailed { reason: last_words(&output) })
            }
            (None, Some(ExitStatus::Code(code))) => End::Exited { code },
            (None, Some(ExitStatus::Signal(signal))) => End::Signalled { signal },
            (None, None) => End::SupervisorLost,
        };
        Report {
            end,
            status: done.status,
            pid: Some(self.backend.pid()),
            output,
            log,
            started_at: self.started_at,
            ended_at: Timestamp::now(),
            duration: self.started.elapsed(),
            paused: self.paused,
            usage: done.usage,
            leaked: done.leaked,
            containment: Some(self.backend.containment()),
            unkillable: done.unkillable,
            refused: self.gate.as_ref().map(Gate::refused).unwrap_or_default(),
            warnings: self.warnings,
        }
    }

    /// Waits for the end or brings it about. Returns why we ended it, if we did, and what was left.
    async fn until_dead(&mut self, cancel: &CancellationToken) -> (Option<End>, Done) {
        let mut reason: Option<End> = None;
        let mut leader_ended = false;
        // SIGKILL is due; the shim's answer is due.
        let mut kill_at: Option<Instant> = None;
        let mut lost_at: Option<Instant> = None;
        let quotas = std::mem::take(&mut self.limits.quotas);
        let quota = quota::exceeded(quotas);
        tokio::pin!(quota);
        self.follow_switches().await;
        loop {
            let asked = reason.is_some() || kill_at.is_some() || lost_at.is_some();
            let deadline = self.deadline();
            tokio::select! {
                biased;
                event = self.backend.next() => match event {
                    Event::LeaderEnded => leader_ended = true,
                    Event::Paused => self.confirm_pause(),
                    Event::OverLimit(over) => {
                        reason = reason.or(Some(End::OverLimit(over)));
                        self.end_pause();
                        lost_at = Some(Instant::now() + SHIM_LIMIT);
                    }
                    Event::Done(done) => return (reason, done),
                    Event::Lost => return self.after_loss(reason).await,
                },
                () = at(lost_at) => return self.after_loss(reason).await,
                () = at(kill_at) => {
                    kill_at = None;
                    lost_at = Some(Instant::now() + SHIM_LIMIT);
                    self.backend.kill();
                }
                () = at(deadline), if !asked && !leader_ended => {
                    reason = Some(End::TimedOut { after: self.limits.deadline });
                    kill_at = Some(Instant::now() + self.limits.grace);
                    self.backend.terminate();
                }
                () = cancel.cancelled(), if !asked => {
                    // A leader that had ended by itself keeps its own end.
                    if !leader_ended {
                        reason = Some(End::Cancelled);
                    }
                    kill_at = Some(Instant::now() + self.limits.grace);
                    self.end_pause();
                    self.backend.terminate();
                }
                // What is being ended is not held up.
                () = self.held.changed(), if !asked => self.follow_switches().await,
                exceeded = &mut quota, if !asked && !leader_ended => {
                    // What fills a disk gets no grace.
                    reason = Some(exceeded);
                    self.end_pause();
                    lost_at = Some(Instant::now() + SHIM_LIMIT);
                    self.backend.kill();
                }
            }
        }
    }

    /// When its time is over; never while it is held.
    fn deadline(&self) -> Option<Instant> {
        let is_set = !self.limits.deadline.is_zero() && self.paused_since.is_none();
        is_set.then(|| self.started + self.limits.deadline + self.paused)
    }

    /// Holds the tree or lets it go on, as the switches say.
    async fn follow_switches(&mut self) {
        match (self.held.wanted(), self.paused_since) {
            (true, None) => {
                self.paused_since = Some(Instant::now());
                self.unconfirmed += 1;
                self.backend.pause().await;
            }
            (false, Some(_)) => {
                self.end_pause();
                self.backend.resume();
            }
            _ => {}
        }
    }

    /// The last of possibly several pauses in a row has come about.
    fn confirm_pause(&mut self) {
        self.unconfirmed = self.unconfirmed.saturating_sub(1);
        if self.unconfirmed == 0 && self.paused_since.is_some() {
            self.held.count(false);
        }
    }

    fn end_pause(&mut self) {
        if let Some(since) = self.paused_since.take() {
            self.paused += since.elapsed();
            self.held.count(true);
        }
    }

    async fn after_loss(&mut self, reason: Option<End>) -> (Option<End>, Done) {
        let unkillable = self.backend.sweep().await;
        let done = Done { status: None, began: true, leaked: false, usage: Usage::default(), unkillable };
        (reason.or(Some(End::SupervisorLost)), done)
    }

    async fn collect_output(&mut self) -> (Output, LogSummary) {
        self.pump.stop_waiting_for_consumer();
        let drained = match timeout(PIPES_LIMIT, self.pump.drained()).await {
            Ok(drained) => drained,
            Err(_) => {
                self.pump.stop();
                timeout(FILES_LIMIT, self.pump.drained()).await.ok().flatten()
            }
        };
        let Some((drained, ended)) = drained else {
            self.warnings.push(Warning::PipesHeldOpen);
            return (Output::None, LogSummary::default());
        };
        if ended == Ended::Stopped {
            self.warnings.push(Warning::PipesHeldOpen);
        }
        self.warnings.extend(drained.warnings);
        (drained.output, drained.log)
    }
}

/// The last line that was written to stderr.
fn last_words(output: &Output) -> String {
    let bytes = match output {
        Output::Captured(captured) => captured.stderr(),
        Output::Streamed { stderr_tail, .. } => stderr_tail.clone(),
        Output::None => Vec::new(),
    };
    let text = String::from_utf8_lossy(&bytes);
    text.lines().last().unwrap_or("nothing was said").to_owned()
}

/// Sleeps until then; for ever, if there is no such time.
async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

/// A child that runs. Dropping it cancels the child.
#[derive(Debug)]
pub struct Running {
    pid: u32,
    containment: Containment,
    record: TreeRecord,
    stdin: Option<StdinWriter>,
    lines: Option<Lines>,
    tap: Option<Tap>,
    report: oneshot::Receiver<Report>,
    pause: PauseSwitch,
    cancel: CancellationToken,
    _cancel_on_drop: DropGuard,
}

impl Running {
    pub(crate) fn start(
        driver: Driver,
        parent: &CancellationToken,
        stdin: Option<StdinWriter>,
        lines: Option<Lines>,
        tap: Option<Tap>,
    ) -> Self {
        let (pid, containment) = (driver.backend.pid(), driver.backend.containment());
        let (record, pause) = (driver.backend.record(), driver.held.own());
        let cancel = parent.child_token();
        let (sender, report) = oneshot::channel();
        let token = cancel.clone();
        tokio::spawn(async move {
            let _ = sender.send(driver.drive(token).await);
        });
        let guard = cancel.clone().drop_guard();
        Self { pid, containment, record, stdin, lines, tap, report, pause, cancel, _cancel_on_drop: guard }
    }

    /// The leader's pid.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// What holds the tree together.
    pub fn containment(&self) -> Containment {
        self.containment
    }

    /// What to keep where this process can't take it along, so that [`reap`](crate::reap) can end the tree if both
    /// this process and the shim are killed.
    pub fn record(&self) -> TreeRecord {
        self.record.clone()
    }

    /// The writing end of an interactive stdin; once.
    pub fn stdin(&mut self) -> Option<StdinWriter> {
        self.stdin.take()
    }

    /// The lines of a stream; once.
    pub fn lines(&mut self) -> Option<Lines> {
        self.lines.take()
    }

    /// The live view, if one was asked for; once.
    pub fn tap(&mut self) -> Option<Tap> {
        self.tap.take()
    }

    /// Ends the child: SIGTERM now, SIGKILL after the grace.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Holds every process of the tree, and the deadline. What was printed before still arrives.
    pub fn pause(&self) {
        self.pause.pause();
    }

    /// Lets the tree go on, unless the switch of [`Command::pause_on`](crate::Command::pause_on) still holds it.
    pub fn resume(&self) {
        self.pause.resume();
    }

    /// A handle that pauses this child alone, for when [`wait`](Self::wait) has taken this one.
    pub fn pause_switch(&self) -> PauseSwitch {
        self.pause.clone()
    }

    /// Waits for the end. What was not taken is given up: an interactive stdin ends here, and so does the stream.
    pub async fn wait(mut self) -> Report {
        self.stdin = None;
        self.lines = None;
        self.tap = None;
        match (&mut self.report).await {
            Ok(report) => report,
            // The driver never ends without a report, unless its runtime was shut down under it.
            Err(_) => Report::spawn_failed(SpawnError::System {
                what: "supervise the child to its end",
                source: std::io::Error::other("the runtime was shut down"),
            }),
        }
    }
}

impl Report {
    pub(crate) fn spawn_failed(error: SpawnError) -> Self {
        let now = Timestamp::now();
        Self {
            end: End::SpawnFailed(error),
            status: None,
            pid: None,
            output: Output::None,
            log: LogSummary::default(),
            started_at: now,
            ended_at: now,
            duration: Duration::ZERO,
            paused: Duration::ZERO,
            usage: Usage::default(),
            leaked: false,
            containment: None,
            unkillable: Vec::new(),
            refused: Vec::new(),
            warnings: Vec::new(),
        }
    }
}
