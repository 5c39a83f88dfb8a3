//! How a run is told while it runs: each way of showing it is a fold over the same events.

pub(crate) mod gates;
mod json;
mod live;
mod plain;
mod screen;
pub(crate) mod summary;
pub(crate) mod trial;

use std::collections::HashMap;

use yb_engine::run::{Plan, PlannedTrial, RunnerEvent};

use crate::printer::Printer;

pub(crate) use json::{Json, VERSION as JSON_VERSION};
pub(crate) use live::Live;
pub(crate) use plain::{Plain, one_line};
pub(crate) use screen::Screen;

/// One way of showing a run.
pub(crate) trait Reporter: Send {
    /// Something happened.
    fn told(&mut self, told: &RunnerEvent<'_>, printer: &mut Printer);

    /// Time has passed.
    fn tick(&mut self, _: &mut Printer) {}
}

/// Shows nothing.
pub(crate) struct Quiet;

impl Reporter for Quiet {
    fn told(&mut self, _: &RunnerEvent<'_>, _: &mut Printer) {}
}

/// What people call each trial, by folder.
pub(crate) struct Names {
    names: HashMap<String, String>,
}

impl Names {
    pub(crate) fn of(plan: &Plan) -> Self {
        let several = plan.trials.iter().any(|trial| trial.repeat > 1);
        let names = plan.trials.iter().map(|trial| (trial.folder.clone(), name(trial, several))).collect();
        Self { names }
    }

    pub(crate) fn get<'a>(&'a self, folder: &'a str) -> &'a str {
        self.names.get(folder).map_or(folder, String::as_str)
    }
}

/// `case`, `case / variant`, `case / variant #2`: what tells it from the others.
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

/// Seconds as people say them: `0.4 s`, `12 s`, `3 min 20 s`, `2 h 5 min`.
pub(crate) fn duration(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0..10 => format!("{:.1} s", ms as f64 / 1000.0),
        10..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// Money as people say it; small amounts keep their digits.
pub(crate) fn dollars(usd: f64) -> String {
    if usd >= 10.0 { format!("${usd:.2}") } else { format!("${usd:.4}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use yb_engine::run::Plan;

    use super::{dollars, duration};

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

    #[test]
    fn times_and_money_are_said_as_people_say_them() {
        let shown = [400, 9_990, 12_345, 200_000, 7_500_000].map(duration);
        assert_eq!(shown, ["0.4 s", "10.0 s", "12 s", "3 min 20 s", "2 h 5 min"]);
        assert_eq!([0.01234, 12.345].map(dollars), ["$0.0123", "$12.35"]);
    }
}
