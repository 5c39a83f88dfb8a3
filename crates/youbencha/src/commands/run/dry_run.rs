//! `yb run --dry-run`: the planned trials and their estimated cost.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use yb_engine::run::{PlannedTrial, PreparedRun, RunInfo, TrialState};
use yb_figures::{count as count_of, duration_ms, money, plural};

use super::estimate::{Estimate, History, Total};
use crate::args::RunArgs;
use crate::printer::Printer;
use crate::report::JSON_VERSION;
use crate::table::Table;

/// Shown for unknown values.
const UNKNOWN: &str = "unknown";

/// The trials that would run.
pub(super) struct PlannedRun<'a> {
    root: PathBuf,
    trials: Vec<&'a PlannedTrial>,
    /// Agents with their versions.
    agents: BTreeMap<String, Option<String>>,
    /// Names of credentials by agent; `None` if unknown.
    credentials: Option<BTreeMap<String, BTreeSet<String>>>,
    max_cost_usd: Option<f64>,
    jobs: usize,
}

impl<'a> PlannedRun<'a> {
    /// Creates it for a new run.
    pub(super) fn of(ready: &'a PreparedRun, max_cost_usd: Option<f64>, jobs: usize) -> Self {
        Self {
            root: ready.root.clone(),
            trials: ready.trials().collect(),
            agents: ready.agents.clone(),
            credentials: Some(ready.credentials()),
            max_cost_usd,
            jobs,
        }
    }

    /// Creates it for the pending trials of a run, whose cost counts against the budget.
    pub(super) fn of_pending(info: &'a RunInfo, max_cost_usd: Option<f64>, jobs: usize) -> Self {
        let done =
            |trial: &PlannedTrial| info.state.get(&trial.folder).and_then(TrialState::result).is_some();
        let spent = info.state.tally().spend.total().unwrap_or(0.0);
        Self {
            root: info.run.path().parent().and_then(Path::parent).unwrap_or(info.run.path()).to_owned(),
            trials: info.plan.trials.iter().filter(|trial| !done(trial)).collect(),
            agents: BTreeMap::new(),
            credentials: None,
            max_cost_usd: max_cost_usd.map(|max| (max - spent).max(0.0)),
            jobs,
        }
    }
}

pub(super) fn show(args: &RunArgs, planned: &PlannedRun<'_>, printer: &mut Printer) {
    let history = History::read(&planned.root);
    let estimates: Vec<Estimate> = planned.trials.iter().map(|trial| history.of(trial)).collect();
    let total = Total::of(&estimates, planned.jobs);
    if args.json {
        printer.json(&as_json(planned, &estimates, &total));
        return;
    }
    let mut shown =
        Table::new(&["trial", "agent", "model", "commit", "median cost", "median time", "samples"]);
    for (trial, estimate) in planned.trials.iter().zip(&estimates) {
        shown.row(vec![
            trial.folder.clone(),
            trial.agent.clone(),
            trial.model.clone().unwrap_or_default(),
            trial.commit.chars().take(12).collect(),
            estimate.usd.map_or_else(|| UNKNOWN.to_owned(), money),
            estimate.ms.map_or_else(|| UNKNOWN.to_owned(), duration_ms),
            if estimate.from == 0 { String::new() } else { count_of(estimate.from) },
        ]);
    }
    printer.text(&shown.to_string());
    let count = planned.trials.len();
    printer.line(format_args!("dry run: {}, {} at once", plural(count, "trial"), planned.jobs.min(count)));
    printer.line(estimate_line(&total, count));
    if let Some(max) = planned.max_cost_usd {
        printer.line(budget_line(&total, max));
    }
    for (agent, version) in &planned.agents {
        let version = version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
        let credentials = planned.credentials.as_ref().and_then(|known| known.get(agent));
        let names: Vec<&str> = credentials.into_iter().flatten().map(String::as_str).collect();
        let names = if names.is_empty() { String::new() } else { format!(", receives {}", names.join(", ")) };
        printer.line(format_args!("{agent}{version}: ready{names}"));
    }
}

/// Formats the estimate from earlier runs.
fn estimate_line(total: &Total, count: usize) -> String {
    if total.untimed == count {
        return "estimate: unknown, no trial ran before".to_owned();
    }
    let at_least = |unknown: usize| if unknown == 0 { "" } else { "at least " };
    let cost = total.usd.map_or_else(
        || "cost unknown".to_owned(),
        |usd| format!("{}{}", at_least(total.unpriced), money(usd)),
    );
    let time = total.ms.map_or_else(
        || "time unknown".to_owned(),
        |ms| format!("{}{}", at_least(total.untimed), duration_ms(ms)),
    );
    let mut line = format!("estimate from earlier runs: {cost}, {time}");
    if total.usd.is_some() && total.unpriced > 0 {
        line.push_str(&format!("; cost of {} unknown", plural(total.unpriced, "trial")));
    }
    line
}

/// Compares the estimate with the budget.
fn budget_line(total: &Total, max: f64) -> String {
    match total.usd {
        Some(usd) if usd > max => {
            format!("budget {}: exceeded by the estimate, some trials would not run", money(max))
        }
        Some(_) if total.unpriced == 0 => format!("budget {}: sufficient", money(max)),
        _ => format!("budget {}", money(max)),
    }
}

fn as_json(planned: &PlannedRun<'_>, estimates: &[Estimate], total: &Total) -> Value {
    let estimate = |one: &Estimate| json!({ "cost_usd": one.usd, "duration_ms": one.ms, "from": one.from });
    let trials: Vec<Value> = planned
        .trials
        .iter()
        .zip(estimates)
        .map(|(trial, one)| {
            let mut value = json!(trial);
            value["estimate"] = estimate(one);
            value
        })
        .collect();
    json!({
        "v": JSON_VERSION,
        "event": "dry_run",
        "trials": trials,
        "jobs": planned.jobs.min(planned.trials.len()),
        "agents": planned.agents,
        "credentials": planned.credentials,
        "estimate": {
            "cost_usd": total.usd,
            "duration_ms": total.ms,
            "unpriced": total.unpriced,
            "untimed": total.untimed,
        },
        "max_cost_usd": planned.max_cost_usd,
        "exceeds_max_cost": planned.max_cost_usd.zip(total.usd).map(|(max, usd)| usd > max),
    })
}
