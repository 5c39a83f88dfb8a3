//! A reporter with its printer, shared while a run is executing.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use yb_engine::run::RunnerEvent;

use super::Reporter;
use crate::printer::Printer;

/// A reporter with its printer. Dropping it removes the status lines.
pub(crate) struct Screen<'a> {
    parts: Mutex<(Box<dyn Reporter>, &'a mut Printer)>,
}

impl<'a> Screen<'a> {
    /// The interval at which [`tick`](Self::tick) should be called.
    pub(crate) const TICK: Duration = Duration::from_millis(250);

    pub(crate) fn new(reporter: Box<dyn Reporter>, printer: &'a mut Printer) -> Self {
        Self { parts: Mutex::new((reporter, printer)) }
    }

    fn parts(&self) -> MutexGuard<'_, (Box<dyn Reporter>, &'a mut Printer)> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes an event to the reporter.
    pub(crate) fn handle(&self, event: &RunnerEvent<'_>) {
        let (reporter, printer) = &mut *self.parts();
        reporter.handle(event, printer);
    }

    /// Redraws, also after a change of the terminal size.
    pub(crate) fn tick(&self) {
        let (reporter, printer) = &mut *self.parts();
        reporter.tick(printer);
    }

    /// Removes the status lines until the next tick.
    pub(crate) fn clear(&self) {
        self.parts().1.clear_status_lines();
    }
}

impl Drop for Screen<'_> {
    fn drop(&mut self) {
        self.clear();
    }
}
