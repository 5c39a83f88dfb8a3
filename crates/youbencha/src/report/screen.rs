//! A reporter and the printer that it prints with, for all who have something to say while a run goes on.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use yb_engine::run::RunnerEvent;

use super::Reporter;
use crate::printer::Printer;

/// What a run is shown on; as clean afterwards as before.
pub(crate) struct Screen<'a> {
    parts: Mutex<(Box<dyn Reporter>, &'a mut Printer)>,
}

impl<'a> Screen<'a> {
    /// How often [`tick`](Self::tick) wants to be called.
    pub(crate) const TICK: Duration = Duration::from_millis(250);

    pub(crate) fn new(reporter: Box<dyn Reporter>, printer: &'a mut Printer) -> Self {
        Self { parts: Mutex::new((reporter, printer)) }
    }

    fn parts(&self) -> MutexGuard<'_, (Box<dyn Reporter>, &'a mut Printer)> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something happened.
    pub(crate) fn told(&self, told: &RunnerEvent<'_>) {
        let (reporter, printer) = &mut *self.parts();
        reporter.told(told, printer);
    }

    /// Time has passed, or the terminal has another size.
    pub(crate) fn tick(&self) {
        let (reporter, printer) = &mut *self.parts();
        reporter.tick(printer);
    }

    /// Somebody else will use the terminal; the next tick takes it back.
    pub(crate) fn clear(&self) {
        self.parts().1.nothing_below();
    }
}

impl Drop for Screen<'_> {
    fn drop(&mut self) {
        self.clear();
    }
}
