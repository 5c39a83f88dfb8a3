//! A switch that suspends and resumes commands and their deadlines.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Suspends every command that has a clone of it, set with [`Command::pause_on`](crate::Command::pause_on).
///
/// While the switch is on, no process of these commands runs, their deadlines are suspended, and commands
/// that are about to start wait. Cancellation still works. A host that wants to stop itself, as on Ctrl-Z,
/// first calls [`pause`](Self::pause) and awaits [`wait_until_idle`](Self::wait_until_idle).
///
/// On Windows only the deadlines are suspended; the processes keep running.
#[derive(Debug, Clone)]
pub struct PauseSwitch {
    paused: Arc<watch::Sender<bool>>,
    /// Number of commands whose tree may run.
    running: Arc<watch::Sender<usize>>,
    time: Arc<Mutex<PausedTime>>,
}

/// How long a switch was on.
#[derive(Debug, Default)]
struct PausedTime {
    /// The pauses that ended.
    ended: Duration,
    since: Option<Instant>,
}

/// Measures time without that during which its switch was on.
#[derive(Debug, Clone)]
pub struct Stopwatch {
    switch: PauseSwitch,
    began: Instant,
    paused_before: Duration,
}

impl Stopwatch {
    /// Returns the time since it was created, without pauses.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        // In this order, a pause that begins between the two is not subtracted too early.
        let paused = self.switch.paused_time().saturating_sub(self.paused_before);
        self.began.elapsed().saturating_sub(paused)
    }

    /// Returns the elapsed time in milliseconds.
    #[must_use]
    pub fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl Default for PauseSwitch {
    fn default() -> Self {
        Self::new()
    }
}

impl PauseSwitch {
    /// Creates a switch that is off.
    #[must_use]
    pub fn new() -> Self {
        Self {
            paused: Arc::new(watch::Sender::new(false)),
            running: Arc::new(watch::Sender::new(0)),
            time: Arc::default(),
        }
    }

    fn time(&self) -> MutexGuard<'_, PausedTime> {
        self.time.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how long the switch has been on, all pauses together.
    #[must_use]
    pub fn paused_time(&self) -> Duration {
        let time = self.time();
        time.ended + time.since.map(|since| since.elapsed()).unwrap_or_default()
    }

    /// Starts to measure time without pauses.
    #[must_use]
    pub fn stopwatch(&self) -> Stopwatch {
        Stopwatch { switch: self.clone(), began: Instant::now(), paused_before: self.paused_time() }
    }

    /// Waits for a time without pauses.
    pub async fn sleep(&self, duration: Duration) {
        let stopwatch = self.stopwatch();
        loop {
            self.wait_until_off().await;
            let left = duration.saturating_sub(stopwatch.elapsed());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left).await;
        }
    }

    /// Requests a pause and returns immediately. [`wait_until_idle`](Self::wait_until_idle) waits for it to
    /// take effect.
    pub fn pause(&self) {
        self.time().since.get_or_insert_with(Instant::now);
        self.paused.send_replace(true);
    }

    /// Resumes all commands.
    pub fn resume(&self) {
        self.paused.send_replace(false);
        let mut time = self.time();
        if let Some(since) = time.since.take() {
            time.ended += since.elapsed();
        }
    }

    /// Returns whether the switch is on.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        *self.paused.borrow()
    }

    /// Waits until no process of its commands runs. After [`pause`](Self::pause) this takes milliseconds,
    /// except for a tree that is being terminated, which is not suspended.
    pub async fn wait_until_idle(&self) {
        let _ = self.running.subscribe().wait_for(|running| *running == 0).await;
    }

    /// Waits until the switch is off.
    async fn wait_until_off(&self) {
        let _ = self.paused.subscribe().wait_for(|paused| !*paused).await;
    }
}

/// The pause state of one command: the switch it was given and its own.
#[derive(Debug)]
pub(crate) struct PauseState {
    switches: [PauseSwitch; 2],
    changes: [watch::Receiver<bool>; 2],
    counted_as_running: bool,
}

impl PauseState {
    /// Waits until the command may start and counts it as running from then on. Returns immediately if the
    /// command is cancelled.
    pub(crate) async fn wait_to_start(
        given: PauseSwitch,
        own: PauseSwitch,
        cancel: &CancellationToken,
    ) -> Self {
        let switches = [given, own];
        let changes = switches.each_ref().map(|switch| switch.paused.subscribe());
        let mut state = Self { switches, changes, counted_as_running: false };
        loop {
            state.set_running(true);
            // The order matters: a caller of `wait_until_idle` either sees this command counted, or has
            // paused it.
            if !state.pause_requested() || cancel.is_cancelled() {
                return state;
            }
            state.set_running(false);
            tokio::select! {
                () = state.switches[0].wait_until_off() => {}
                () = cancel.cancelled() => {}
            }
        }
    }

    /// Returns the command's own switch.
    pub(crate) fn own_switch(&self) -> PauseSwitch {
        self.switches[1].clone()
    }

    /// Returns whether at least one switch is on.
    pub(crate) fn pause_requested(&self) -> bool {
        self.switches.iter().any(PauseSwitch::is_paused)
    }

    /// Waits until a switch changes. Cancel-safe.
    pub(crate) async fn changed(&mut self) {
        let [given, own] = &mut self.changes;
        // The senders are owned by `self`, so neither channel closes.
        tokio::select! {
            _ = given.changed() => {}
            _ = own.changed() => {}
        }
    }

    /// Counts the command as running or not.
    pub(crate) fn set_running(&mut self, running: bool) {
        if self.counted_as_running != running {
            self.counted_as_running = running;
            for switch in &self.switches {
                switch.running.send_modify(|count| {
                    *count = if running { *count + 1 } else { count.saturating_sub(1) };
                });
            }
        }
    }
}

impl Drop for PauseState {
    fn drop(&mut self) {
        self.set_running(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn stopwatch_and_sleep_stand_still_while_paused() {
        let switch = PauseSwitch::new();
        let (stopwatch, whole) = (switch.stopwatch(), Instant::now());
        let (step, pause) = (Duration::from_millis(20), Duration::from_millis(300));
        let sleeping = tokio::spawn({
            let switch = switch.clone();
            async move { switch.sleep(step * 2).await }
        });
        for _ in 0..2 {
            switch.pause();
            switch.pause();
            tokio::time::sleep(pause).await;
            assert!(!sleeping.is_finished(), "paused time counted");
            switch.resume();
            switch.resume();
        }
        sleeping.await.unwrap();
        assert!(switch.paused_time() >= pause * 2);
        assert!(stopwatch.elapsed() >= step * 2);
        assert!(whole.elapsed() >= stopwatch.elapsed() + pause * 2);
        assert!(switch.stopwatch().elapsed() < pause, "earlier pauses are not subtracted");
    }

    #[tokio::test]
    async fn wait_until_idle_returns_when_no_started_command_runs() {
        let (switch, token) = (PauseSwitch::new(), CancellationToken::new());
        switch.wait_until_idle().await;
        let mut first = PauseState::wait_to_start(switch.clone(), PauseSwitch::new(), &token).await;
        let second = PauseState::wait_to_start(switch.clone(), PauseSwitch::new(), &token).await;
        switch.pause();
        first.set_running(false);
        let moment = Duration::from_millis(20);
        assert!(tokio::time::timeout(moment, switch.wait_until_idle()).await.is_err());
        drop(second);
        switch.wait_until_idle().await;
        let third = PauseState::wait_to_start(switch.clone(), PauseSwitch::new(), &token);
        assert!(tokio::time::timeout(moment, third).await.is_err());
        switch.resume();
        PauseState::wait_to_start(switch.clone(), PauseSwitch::new(), &token).await;
        switch.pause();
        token.cancel();
        PauseState::wait_to_start(switch, PauseSwitch::new(), &token).await;
    }
}
