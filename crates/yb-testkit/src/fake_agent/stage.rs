//! Time, and who is on: while a signal's steps are played, the main steps wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// How often a sleeper looks whether a signal's steps want the stage.
const TICK: Duration = Duration::from_millis(10);

/// Milliseconds on a clock that all processes of a machine share.
pub(crate) fn now_ms() -> u64 {
    clock_ms(ClockId::Monotonic)
}

/// Milliseconds of processor time that this process has used.
pub(crate) fn cpu_ms() -> u64 {
    clock_ms(ClockId::ProcessCPUTime)
}

fn clock_ms(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    let millis = time.tv_sec * 1000 + time.tv_nsec / 1_000_000;
    u64::try_from(millis).unwrap_or_default()
}

/// Shared by the main steps and by those of a signal.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stage {
    shared: Arc<Shared>,
    plays_handler: bool,
}

#[derive(Debug, Default)]
struct Shared {
    has_handler: AtomicBool,
    handling: AtomicBool,
}

impl Stage {
    /// The stage as the steps of a signal see it; only one set of them can exist.
    pub(crate) fn for_handler(&self) -> Result<Self, String> {
        if self.shared.has_handler.swap(true, Ordering::SeqCst) {
            return Err("`on_signal` can stand only once in the life of a process".to_owned());
        }
        Ok(Self { shared: Arc::clone(&self.shared), plays_handler: true })
    }

    /// The steps of a signal begin (or end): the main steps wait.
    pub(crate) fn set_handling(&self, handling: bool) {
        self.shared.handling.store(handling, Ordering::SeqCst);
    }

    /// Waits while a signal's steps are played.
    pub(crate) fn give_way(&self) {
        while !self.plays_handler && self.shared.handling.load(Ordering::SeqCst) {
            std::thread::sleep(TICK);
        }
    }

    /// Sleeps, and gives way meanwhile.
    pub(crate) fn nap(&self, millis: u64) {
        let end = Instant::now() + Duration::from_millis(millis);
        loop {
            let rest = end.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                break;
            }
            let alone = self.plays_handler || !self.shared.has_handler.load(Ordering::SeqCst);
            std::thread::sleep(if alone { rest } else { rest.min(TICK) });
            self.give_way();
        }
    }
}
