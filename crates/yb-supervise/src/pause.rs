//! A switch that holds commands and their clocks, and lets them go on.

use std::sync::Arc;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Holds every command that was given a clone of it with [`Command::pause_on`](crate::Command::pause_on).
///
/// While it is on, no process of their trees runs, their deadlines stand still, and commands that are to be started
/// wait. Cancelling works all the same. A host that wants to stop itself, as on Ctrl-Z, first calls
/// [`pause`](Self::pause) and waits for [`quiet`](Self::quiet).
///
/// On Windows the processes go on and only the clocks stand still.
#[derive(Debug, Clone)]
pub struct PauseSwitch {
    paused: Arc<watch::Sender<bool>>,
    /// How many commands have a tree that may run.
    running: Arc<watch::Sender<usize>>,
}

impl Default for PauseSwitch {
    fn default() -> Self {
        Self::new()
    }
}

impl PauseSwitch {
    /// A switch that is off.
    #[must_use]
    pub fn new() -> Self {
        Self { paused: Arc::new(watch::Sender::new(false)), running: Arc::new(watch::Sender::new(0)) }
    }

    /// Holds everything. Returns at once; [`quiet`](Self::quiet) says when it has happened.
    pub fn pause(&self) {
        self.paused.send_replace(true);
    }

    /// Lets everything go on.
    pub fn resume(&self) {
        self.paused.send_replace(false);
    }

    /// Whether it is on.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        *self.paused.borrow()
    }

    /// Waits until no process of its commands runs: after [`pause`](Self::pause) a matter of milliseconds, but for
    /// a tree that is just being ended, which is not held up.
    pub async fn quiet(&self) {
        let _ = self.running.subscribe().wait_for(|running| *running == 0).await;
    }

    /// Waits until it is off.
    async fn off(&self) {
        let _ = self.paused.subscribe().wait_for(|paused| !*paused).await;
    }
}

/// What holds one command: the switch that it was given and one of its own.
#[derive(Debug)]
pub(crate) struct Held {
    switches: [PauseSwitch; 2],
    changes: [watch::Receiver<bool>; 2],
    counted: bool,
}

impl Held {
    /// Waits until the command may start, and counts it as running from then on. One that is cancelled meanwhile goes
    /// the way of all that are.
    pub(crate) async fn until_it_may_start(given: PauseSwitch, cancel: &CancellationToken) -> Self {
        let switches = [given, PauseSwitch::new()];
        let changes = switches.each_ref().map(|switch| switch.paused.subscribe());
        let mut held = Self { switches, changes, counted: false };
        loop {
            held.count(true);
            // In this order: whoever waits for quiet either sees us counted or has paused us.
            if !held.wanted() || cancel.is_cancelled() {
                return held;
            }
            held.count(false);
            tokio::select! {
                () = held.switches[0].off() => {}
                () = cancel.cancelled() => {}
            }
        }
    }

    /// The command's own switch.
    pub(crate) fn own(&self) -> PauseSwitch {
        self.switches[1].clone()
    }

    /// Whether one of them is on.
    pub(crate) fn wanted(&self) -> bool {
        self.switches.iter().any(PauseSwitch::is_paused)
    }

    /// Waits until one of them was used. Cancel-safe.
    pub(crate) async fn changed(&mut self) {
        let [given, own] = &mut self.changes;
        // We hold the senders, so neither ever ends.
        tokio::select! {
            _ = given.changed() => {}
            _ = own.changed() => {}
        }
    }

    /// Whether the tree may run.
    pub(crate) fn count(&mut self, running: bool) {
        if self.counted != running {
            self.counted = running;
            for switch in &self.switches {
                switch.running.send_modify(|count| {
                    *count = if running { *count + 1 } else { count.saturating_sub(1) };
                });
            }
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.count(false);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn quiet_is_when_nothing_that_was_started_runs() {
        let (switch, token) = (PauseSwitch::new(), CancellationToken::new());
        switch.quiet().await;
        let mut first = Held::until_it_may_start(switch.clone(), &token).await;
        let second = Held::until_it_may_start(switch.clone(), &token).await;
        switch.pause();
        first.count(false);
        let moment = Duration::from_millis(20);
        assert!(tokio::time::timeout(moment, switch.quiet()).await.is_err());
        drop(second);
        switch.quiet().await;
        let third = Held::until_it_may_start(switch.clone(), &token);
        assert!(tokio::time::timeout(moment, third).await.is_err());
        switch.resume();
        Held::until_it_may_start(switch.clone(), &token).await;
        switch.pause();
        token.cancel();
        Held::until_it_may_start(switch, &token).await;
    }
}
