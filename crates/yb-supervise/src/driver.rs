//! Drives one child to completion: deadline, cancellation, quotas, the resulting kill, and the report.

use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::backend::{Backend, TreeEvent, TreeOutcome};
use crate::egress_proxy::EgressProxy;
use crate::error::SpawnError;
use crate::lines::Lines;
use crate::pause::{PauseState, PauseSwitch};
use crate::pump::{DrainOutcome, Pump};
use crate::quota::{self, Quota};
use crate::record::TreeRecord;
use crate::report::{Containment, End, ExitStatus, LogSummary, Output, Report, Usage, Warning};
use crate::stdin::StdinWriter;
use crate::tap::Tap;

/// How long the pipes may stay open after the tree is dead.
const PIPES_TIMEOUT: Duration = Duration::from_millis(500);
/// How long writing the last bytes to the files may take.
const FILES_TIMEOUT: Duration = Duration::from_secs(1);
/// How long after the kill the shim has to report. The shim itself gives up earlier.
const SHIM_TIMEOUT: Duration = Duration::from_secs(2);

/// Limits that the driver enforces.
#[derive(Debug)]
pub(crate) struct DriverLimits {
    pub(crate) deadline: Duration,
    pub(crate) grace: Duration,
    pub(crate) quotas: Vec<Quota>,
}

/// The state of one running child.
#[derive(Debug)]
pub(crate) struct Driver {
    backend: Backend,
    pump: Pump,
    feeder: Option<JoinHandle<()>>,
    /// The sandbox's only network connection, open as long as this is alive.
    egress_proxy: Option<EgressProxy>,
    warnings: Vec<Warning>,
    limits: DriverLimits,
    pause_state: PauseState,
    /// Start of the current pause, and the total duration of the earlier ones.
    paused_since: Option<Instant>,
    paused: Duration,
    /// Pause requests that the backend has not confirmed yet.
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
        limits: DriverLimits,
        pause_state: PauseState,
    ) -> Self {
        Self {
            backend,
            pump,
            feeder,
            egress_proxy: None,
            warnings,
            limits,
            pause_state,
            paused_since: None,
            paused: Duration::ZERO,
            unconfirmed: 0,
            started_at: Timestamp::now(),
            started: Instant::now(),
        }
    }

    /// Attaches the proxy of the sandbox.
    pub(crate) fn with_egress_proxy(mut self, egress_proxy: Option<EgressProxy>) -> Self {
        self.egress_proxy = egress_proxy;
        self
    }

    async fn drive(mut self, cancel: CancellationToken) -> Report {
        let (reason, outcome) = self.wait_for_tree_end(&cancel).await;
        self.end_pause();
        self.backend.close().await;
        if let Some(feeder) = self.feeder.take() {
            feeder.abort();
        }
        let (output, log) = self.collect_output().await;
        let end = match (reason, outcome.status) {
            (Some(reason), _) => reason,
            // The exit code is that of the sandbox wrapper, not of the program.
            (None, Some(ExitStatus::Code(_))) if !outcome.program_started => {
                #[cfg(target_os = "linux")]
                crate::sandbox::forget_probes();
                End::SpawnFailed(SpawnError::SandboxFailed { reason: last_stderr_line(&output) })
            }
            (None, Some(ExitStatus::Code(code))) => End::Exited { code },
            (None, Some(ExitStatus::Signal(signal))) => End::Signaled { signal },
            (None, None) => End::SupervisorLost,
        };
        Report {
            end,
            status: outcome.status,
            pid: Some(self.backend.pid()),
            output,
            log,
            started_at: self.started_at,
            ended_at: Timestamp::now(),
            duration: self.started.elapsed(),
            paused: self.paused,
            usage: outcome.usage,
            leaked: outcome.leaked,
            containment: Some(self.backend.containment()),
            unkillable: outcome.unkillable,
            refused: self.egress_proxy.as_ref().map(EgressProxy::refused).unwrap_or_default(),
            warnings: self.warnings,
        }
    }

    /// Waits until the tree has ended, ending it where a limit requires it. Returns the reason if the driver
    /// ended it.
    async fn wait_for_tree_end(&mut self, cancel: &CancellationToken) -> (Option<End>, TreeOutcome) {
        let mut reason: Option<End> = None;
        let mut leader_ended = false;
        // When SIGKILL is due, and when the shim counts as lost.
        let mut kill_at: Option<Instant> = None;
        let mut lost_at: Option<Instant> = None;
        let quotas = std::mem::take(&mut self.limits.quotas);
        let quota = quota::exceeded(quotas);
        tokio::pin!(quota);
        self.apply_pause_state().await;
        loop {
            let ending = reason.is_some() || kill_at.is_some() || lost_at.is_some();
            let deadline = self.deadline();
            tokio::select! {
                biased;
                event = self.backend.next() => match event {
                    TreeEvent::LeaderEnded => leader_ended = true,
                    TreeEvent::Paused => self.confirm_pause(),
                    TreeEvent::OverLimit(over) => {
                        reason = reason.or(Some(End::OverLimit(over)));
                        self.end_pause();
                        lost_at = Some(Instant::now() + SHIM_TIMEOUT);
                    }
                    TreeEvent::Finished(outcome) => return (reason, outcome),
                    TreeEvent::ShimLost => return self.handle_shim_loss(reason).await,
                },
                () = sleep_until_opt(lost_at) => return self.handle_shim_loss(reason).await,
                () = sleep_until_opt(kill_at) => {
                    kill_at = None;
                    lost_at = Some(Instant::now() + SHIM_TIMEOUT);
                    self.backend.kill();
                }
                () = sleep_until_opt(deadline), if !ending && !leader_ended => {
                    reason = Some(End::TimedOut { after: self.limits.deadline });
                    kill_at = Some(Instant::now() + self.limits.grace);
                    self.backend.terminate();
                }
                () = cancel.cancelled(), if !ending => {
                    // A leader that had already exited keeps its own exit status.
                    if !leader_ended {
                        reason = Some(End::Cancelled);
                    }
                    kill_at = Some(Instant::now() + self.limits.grace);
                    self.end_pause();
                    self.backend.terminate();
                }
                // A tree that is being ended is not paused.
                () = self.pause_state.changed(), if !ending => self.apply_pause_state().await,
                exceeded = &mut quota, if !ending && !leader_ended => {
                    // No grace period: the disk is filling up.
                    reason = Some(exceeded);
                    self.end_pause();
                    lost_at = Some(Instant::now() + SHIM_TIMEOUT);
                    self.backend.kill();
                }
            }
        }
    }

    /// Returns when the child times out; `None` while it is paused.
    fn deadline(&self) -> Option<Instant> {
        let is_set = !self.limits.deadline.is_zero() && self.paused_since.is_none();
        is_set.then(|| self.started + self.limits.deadline + self.paused)
    }

    /// Suspends or resumes the tree according to the pause switches.
    async fn apply_pause_state(&mut self) {
        match (self.pause_state.pause_requested(), self.paused_since) {
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

    /// Handles a pause confirmation. Only the last of several outstanding pauses counts.
    fn confirm_pause(&mut self) {
        self.unconfirmed = self.unconfirmed.saturating_sub(1);
        if self.unconfirmed == 0 && self.paused_since.is_some() {
            self.pause_state.set_running(false);
        }
    }

    fn end_pause(&mut self) {
        if let Some(since) = self.paused_since.take() {
            self.paused += since.elapsed();
            self.pause_state.set_running(true);
        }
    }

    async fn handle_shim_loss(&mut self, reason: Option<End>) -> (Option<End>, TreeOutcome) {
        let unkillable = self.backend.sweep().await;
        let outcome = TreeOutcome {
            status: None,
            program_started: true,
            leaked: false,
            usage: Usage::default(),
            unkillable,
        };
        (reason.or(Some(End::SupervisorLost)), outcome)
    }

    async fn collect_output(&mut self) -> (Output, LogSummary) {
        self.pump.stop_waiting_for_consumer();
        let drained = match timeout(PIPES_TIMEOUT, self.pump.drained()).await {
            Ok(drained) => drained,
            Err(_) => {
                self.pump.stop();
                timeout(FILES_TIMEOUT, self.pump.drained()).await.ok().flatten()
            }
        };
        let Some((drained, drain_outcome)) = drained else {
            self.warnings.push(Warning::PipesHeldOpen);
            return (Output::None, LogSummary::default());
        };
        if drain_outcome == DrainOutcome::Stopped {
            self.warnings.push(Warning::PipesHeldOpen);
        }
        self.warnings.extend(drained.warnings);
        (drained.output, drained.log)
    }
}

/// Returns the last line of stderr.
fn last_stderr_line(output: &Output) -> String {
    let bytes = match output {
        Output::Captured(captured) => captured.stderr(),
        Output::Streamed { stderr_tail, .. } => stderr_tail.clone(),
        Output::None => Vec::new(),
    };
    let text = String::from_utf8_lossy(&bytes);
    text.lines().last().unwrap_or("no error message").to_owned()
}

/// Sleeps until the instant; forever if there is none.
async fn sleep_until_opt(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

/// A running child process. Dropping it cancels the child.
#[derive(Debug)]
pub struct Child {
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

impl Child {
    pub(crate) fn start(
        driver: Driver,
        parent: &CancellationToken,
        stdin: Option<StdinWriter>,
        lines: Option<Lines>,
        tap: Option<Tap>,
    ) -> Self {
        let (pid, containment) = (driver.backend.pid(), driver.backend.containment());
        let (record, pause) = (driver.backend.record(), driver.pause_state.own_switch());
        let cancel = parent.child_token();
        let (sender, report) = oneshot::channel();
        let token = cancel.clone();
        tokio::spawn(async move {
            let _ = sender.send(driver.drive(token).await);
        });
        let guard = cancel.clone().drop_guard();
        Self { pid, containment, record, stdin, lines, tap, report, pause, cancel, _cancel_on_drop: guard }
    }

    /// Returns the pid of the leader.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns how the tree is contained.
    pub fn containment(&self) -> Containment {
        self.containment
    }

    /// Returns a record to persist. If both this process and the shim are killed, [`reap`](crate::reap) finds
    /// and kills the tree with it.
    pub fn record(&self) -> TreeRecord {
        self.record.clone()
    }

    /// Takes the writer of an interactive stdin. `None` after the first call.
    pub fn stdin(&mut self) -> Option<StdinWriter> {
        self.stdin.take()
    }

    /// Takes the line stream. `None` after the first call.
    pub fn lines(&mut self) -> Option<Lines> {
        self.lines.take()
    }

    /// Takes the live view enabled by [`Command::tap`](crate::Command::tap). `None` after the first call.
    pub fn tap(&mut self) -> Option<Tap> {
        self.tap.take()
    }

    /// Terminates the child: SIGTERM now, SIGKILL after the grace period.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Suspends every process of the tree, and its deadline. Output that is already in the pipes still
    /// arrives.
    pub fn pause(&self) {
        self.pause.pause();
    }

    /// Resumes the tree, unless the switch of [`Command::pause_on`](crate::Command::pause_on) is still on.
    pub fn resume(&self) {
        self.pause.resume();
    }

    /// Returns a switch for this child only, usable after [`wait`](Self::wait) has consumed this handle.
    pub fn pause_switch(&self) -> PauseSwitch {
        self.pause.clone()
    }

    /// Waits for the end. Closes an interactive stdin and drops the line stream and tap if they were not
    /// taken.
    pub async fn wait(mut self) -> Report {
        self.stdin = None;
        self.lines = None;
        self.tap = None;
        match (&mut self.report).await {
            Ok(report) => report,
            // Only happens if the runtime was shut down.
            Err(_) => Report::spawn_failed(SpawnError::System {
                what: "supervise the child",
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
