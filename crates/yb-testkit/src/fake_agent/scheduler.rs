//! Clocks, and the coordination of main steps and signal handler steps: the main steps wait for the handler.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// How often a sleeping step checks whether the handler runs.
const TICK: Duration = Duration::from_millis(10);

/// Returns monotonic milliseconds, comparable between processes.
pub(crate) fn now_ms() -> u64 {
    clock_ms(ClockId::Monotonic)
}

/// Returns the CPU time of this process in milliseconds.
pub(crate) fn cpu_ms() -> u64 {
    clock_ms(ClockId::ProcessCPUTime)
}

fn clock_ms(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    let millis = time.tv_sec * 1000 + time.tv_nsec / 1_000_000;
    u64::try_from(millis).unwrap_or_default()
}

/// Coordinates the main steps and the handler steps.
#[derive(Debug, Clone, Default)]
pub(crate) struct StepScheduler {
    shared: Arc<SchedulerState>,
    is_handler: bool,
}

#[derive(Debug, Default)]
struct SchedulerState {
    has_handler: AtomicBool,
    handling: AtomicBool,
}

impl StepScheduler {
    /// Returns the scheduler of the handler steps; only one handler is supported.
    pub(crate) fn for_handler(&self) -> Result<Self, String> {
        if self.shared.has_handler.swap(true, Ordering::SeqCst) {
            return Err("only one `on_signal` per process is supported".to_owned());
        }
        Ok(Self { shared: Arc::clone(&self.shared), is_handler: true })
    }

    /// Marks the handler steps as running or not.
    pub(crate) fn set_handling(&self, handling: bool) {
        self.shared.handling.store(handling, Ordering::SeqCst);
    }

    /// Waits while the handler steps run.
    pub(crate) fn wait_for_handler(&self) {
        while !self.is_handler && self.shared.handling.load(Ordering::SeqCst) {
            std::thread::sleep(TICK);
        }
    }

    /// Sleeps, and waits for the handler if it runs meanwhile.
    pub(crate) fn sleep(&self, millis: u64) {
        let end = Instant::now() + Duration::from_millis(millis);
        loop {
            let rest = end.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                break;
            }
            let alone = self.is_handler || !self.shared.has_handler.load(Ordering::SeqCst);
            std::thread::sleep(if alone { rest } else { rest.min(TICK) });
            self.wait_for_handler();
        }
    }
}
