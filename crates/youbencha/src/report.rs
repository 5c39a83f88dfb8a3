//! Reporters of a run: each is a fold over the same events.

pub(crate) mod gates;
mod json;
mod lines;
mod live;
pub(crate) mod reasons;
mod screen;
pub(crate) mod summary;
pub(crate) mod trial;

use std::collections::HashMap;
use std::time::Instant;

use yb_engine::run::{Plan, PlannedTrial, RunDir, RunnerEvent};
use yb_supervise::PauseSwitch;

use crate::printer::Printer;

pub(crate) use json::{JsonReporter, VERSION as JSON_VERSION};
pub(crate) use lines::LineReporter;
pub(crate) use live::LiveReporter;
pub(crate) use reasons::one_line;
pub(crate) use screen::Screen;

/// A consumer of run events.
pub(crate) trait Reporter: Send {
    /// Handles an event.
    fn handle(&mut self, event: &RunnerEvent<'_>, printer: &mut Printer);

    /// Called periodically.
    fn tick(&mut self, _: &mut Printer) {}
}

/// The run that a reporter follows: its files, and the clock of its trials.
#[derive(Clone)]
pub(crate) struct FollowedRun {
    pub(crate) dir: RunDir,
    pub(crate) pause: PauseSwitch,
}

impl FollowedRun {
    /// Returns the current time on a clock that stands still while the run is suspended.
    pub(crate) fn now(&self) -> Instant {
        let now = Instant::now();
        now.checked_sub(self.pause.paused_time()).unwrap_or(now)
    }
}

/// Prints nothing.
pub(crate) struct QuietReporter;

impl Reporter for QuietReporter {
    fn handle(&mut self, _: &RunnerEvent<'_>, _: &mut Printer) {}
}

/// Display names of trials, by folder.
pub(crate) struct TrialNames {
    names: HashMap<String, String>,
}

impl TrialNames {
    pub(crate) fn of(plan: &Plan) -> Self {
        let several = plan.trials.iter().any(|trial| trial.repeat > 1);
        let names = plan.trials.iter().map(|trial| (trial.folder.clone(), name(trial, several))).collect();
        Self { names }
    }

    /// Returns the name that all repeats of a trial share.
    pub(crate) fn without_repeat(trial: &PlannedTrial) -> String {
        name(trial, false)
    }

    pub(crate) fn get<'a>(&'a self, folder: &'a str) -> &'a str {
        self.names.get(folder).map_or(folder, String::as_str)
    }
}

/// Returns `case`, `case / variant` or `case / variant #2`.
fn name(trial: &PlannedTrial, several: bool) -> String {
    let mut name = trial.case.clone();
    if trial.variant != "default" {
        name.push_str(" / ");
        name.push_str(&trial.variant);
    }
    if several {
        name.push_str(&format!(" #{}", trial.repeat));
    }
    name
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use yb_engine::run::Plan;

    /// A run without files that is never suspended.
    pub(super) fn followed() -> super::FollowedRun {
        super::FollowedRun {
            dir: yb_engine::run::RunDir::at("/nonexistent"),
            pause: yb_supervise::PauseSwitch::new(),
        }
    }

    /// A plan of these cases.
    pub(super) fn plan(cases: &[&str]) -> Plan {
        let trials: Vec<_> = cases
            .iter()
            .map(|case| {
                json!({
                    "id": format!("id-{case}"), "folder": format!("{case}--default--1"), "case": case,
                    "variant": "default", "repeat": 1, "agent": "command", "commit": "c0ffee",
                    "task_digest": format!("task-{case}"), "grade_digest": "g", "timeout_ms": 300_000,
                })
            })
            .collect();
        serde_json::from_value(json!({
            "version": 1, "run": "run-1", "created_at": "2026-11-15T00:00:00Z", "youbencha": "0.1.0",
            "name": "nightly", "config": "suite.yaml", "files": [], "options": {"retries": 2}, "trials": trials,
        }))
        .unwrap()
    }
}
