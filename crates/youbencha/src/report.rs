//! Reporters of a run: each is a fold over the same events.

pub(crate) mod gates;
mod json;
mod lines;
mod live;
mod screen;
pub(crate) mod summary;
pub(crate) mod trial;

use std::collections::HashMap;

use yb_engine::run::{Plan, PlannedTrial, RunnerEvent};

use crate::printer::Printer;

pub(crate) use json::{JsonReporter, VERSION as JSON_VERSION};
pub(crate) use lines::{LineReporter, one_line};
pub(crate) use live::LiveReporter;
pub(crate) use screen::Screen;

/// A consumer of run events.
pub(crate) trait Reporter: Send {
    /// Handles an event.
    fn handle(&mut self, event: &RunnerEvent<'_>, printer: &mut Printer);

    /// Called periodically.
    fn tick(&mut self, _: &mut Printer) {}
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
