//! Results files: of runs, with comparisons and gates, and of single trials.

use std::path::Path;

use serde_json::json;
use yb_case::gates::Gates;
use yb_engine::baseline::RecordedRun;
use yb_engine::compare::{CompareOptions, compare};
use yb_engine::run::RunResults;
use yb_report::{Report, Run};

use super::{Probe, Target, magnitude, require};
use crate::corpus::Seeds;

pub(super) const TARGET: Target = Target {
    name: "results",
    about: "results files: read, compared, gated and rendered in every format",
    seeds: || {
        Seeds::new()
            .files("fuzz/seeds/results", ".json")?
            .schema("run-results.schema.json")?
            .schema("results.schema.json")
    },
    check,
};

fn check(probe: &mut Probe, input: &[u8]) -> Result<(), String> {
    let path = probe.write("results.json", input)?;
    match RunResults::read(&path) {
        Ok(results) => {
            probe.saw(&(magnitude(results.trials.len()), results.finished, results.outcomes.len()));
            stable(probe, &results)?;
            judge(probe, &results, &path);
        }
        Err(error) => probe.saw_message(error.to_string().split("`: ").last().unwrap_or_default()),
    }
    match yb_report::read_bundle(&path) {
        Ok(run) => render(probe, run),
        Err(error) => {
            probe.saw_message(error.to_string().split("`: ").last().unwrap_or_default());
            Ok(())
        }
    }
}

/// Checks that results are the same after they were written and read.
pub(super) fn stable(probe: &mut Probe, results: &RunResults) -> Result<(), String> {
    let text = serde_json::to_string(results).map_err(|error| format!("results can be written: {error}"))?;
    let path = probe.write("written.json", text.as_bytes())?;
    let again =
        RunResults::read(&path).map_err(|error| format!("written results are read: {error}: {text}"))?;
    require(again == *results, "written results are read as the same", || text)
}

fn judge(probe: &mut Probe, results: &RunResults, path: &Path) {
    let limits =
        json!({ "min_pass_rate": 0.5, "max_cost_usd": 1.0, "max_lost": 0.1, "isolation": "landlock" });
    let against = path.display().to_string();
    let gates = json!({
        "limits": limits,
        "tags": { "fast": limits },
        "no_regression": { "against": against, "tolerance": 0.05, "alpha": 0.05, "estimand": "suite", "on_inconclusive": "pass" },
    });
    if let Ok(gates) = serde_json::from_value::<Gates>(gates) {
        let report = yb_engine::gates::evaluate(&gates, results, path.parent().unwrap_or(path));
        let answers =
            report.map(|report| report.gates.iter().map(|gate| gate.status.label()).collect::<Vec<_>>());
        probe.saw(&answers);
    }
    let root = path.parent().unwrap_or(path);
    if let (Ok(a), Ok(b)) = (RecordedRun::find(root, &against), RecordedRun::find(root, &against)) {
        match compare(&a, &b, &CompareOptions::default()) {
            Ok(found) => probe.saw(&format!("{:?}", found.decision)),
            Err(error) => probe.saw_message(&error.to_string()),
        }
    }
}

/// Renders a run in every format.
pub(super) fn render(probe: &mut Probe, run: Run) -> Result<(), String> {
    let report = Report::of(vec![run]);
    let json = yb_report::json(&report);
    require(serde_json::from_str::<serde_json::Value>(&json).is_ok(), "the JSON report is JSON", || {
        json.clone()
    })?;
    let texts = [
        yb_report::markdown(&report),
        yb_report::csv(&report),
        yb_report::junit(&report),
        yb_report::github(&report),
        yb_report::html(&report).pages().map(|page| page.text).collect(),
    ];
    for (at, text) in texts.iter().enumerate() {
        probe.saw(&(at, magnitude(text.len())));
    }
    let html = &texts[4];
    require(!html.contains("<script>alert"), "text is never markup in a report", || html.clone())
}
