//! `yb run --dry-run`: what would be run, with what, and what it may cost; nothing is started.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use yb_engine::run::{PlannedTrial, PreparedRun, RunInfo, TrialState};

use super::estimate::{Estimate, History, Total};
use crate::args::RunArgs;
use crate::printer::{Printer, plural};
use crate::report::{JSON_VERSION, dollars, duration};
use crate::table::Table;

/// What stands where something is not known.
const UNKNOWN: &str = "unknown";

/// What would be run.
pub(super) struct Intent<'a> {
    root: PathBuf,
    trials: Vec<&'a PlannedTrial>,
    /// With the versions that they told.
    agents: BTreeMap<String, Option<String>>,
    /// Names only; none where nothing was asked.
    credentials: Option<BTreeMap<String, BTreeSet<String>>>,
    max_cost_usd: Option<f64>,
    jobs: usize,
}

impl<'a> Intent<'a> {
    /// A run that can begin.
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

    /// What is left of a run. What it has spent counts against its money.
    pub(super) fn of_rest(info: &'a RunInfo, max_cost_usd: Option<f64>, jobs: usize) -> Self {
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

pub(super) fn show(args: &RunArgs, intent: &Intent<'_>, printer: &mut Printer) {
    let history = History::read(&intent.root);
    let estimates: Vec<Estimate> = intent.trials.iter().map(|trial| history.of(trial)).collect();
    let total = Total::of(&estimates, intent.jobs);
    if args.json {
        printer.line(as_json(intent, &estimates, &total));
        return;
    }
    let mut shown = Table::new(&["trial", "agent", "model", "commit", "usual cost", "usual time", "seen"]);
    for (trial, estimate) in intent.trials.iter().zip(&estimates) {
        shown.row(vec![
            trial.folder.clone(),
            trial.agent.clone(),
            trial.model.clone().unwrap_or_default(),
            trial.commit.chars().take(12).collect(),
            estimate.usd.map_or_else(|| UNKNOWN.to_owned(), dollars),
            estimate.ms.map_or_else(|| UNKNOWN.to_owned(), duration),
            if estimate.from == 0 { String::new() } else { format!("{} ×", estimate.from) },
        ]);
    }
    printer.text(&shown.to_string());
    let count = intent.trials.len();
    printer.line(format_args!(
        "{}, {} at once; nothing was started",
        plural(count as u64, "trial"),
        intent.jobs.min(count)
    ));
    printer.line(expected(&total, count));
    if let Some(max) = intent.max_cost_usd {
        printer.line(against(&total, max));
    }
    for (agent, version) in &intent.agents {
        let version = version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
        let credentials = intent.credentials.as_ref().and_then(|known| known.get(agent));
        let names: Vec<&str> = credentials.into_iter().flatten().map(String::as_str).collect();
        let names = if names.is_empty() { String::new() } else { format!(", is given {}", names.join(", ")) };
        printer.line(format_args!("{agent}{version}: ready{names}"));
    }
}

/// What earlier runs say about all of them.
fn expected(total: &Total, count: usize) -> String {
    if total.untimed == count {
        return "cost and time are unknown: none of them ran before".to_owned();
    }
    let at_least = |unknown: usize| if unknown == 0 { "" } else { "at least " };
    let cost = total.usd.map_or_else(
        || "cost unknown".to_owned(),
        |usd| format!("{}{}", at_least(total.unpriced), dollars(usd)),
    );
    let time = total.ms.map_or_else(
        || "time unknown".to_owned(),
        |ms| format!("{}{}", at_least(total.untimed), duration(ms)),
    );
    let mut line = format!("as in earlier runs: {cost}, {time}");
    if total.usd.is_some() && total.unpriced > 0 {
        line.push_str(&format!("; the cost of {} is unknown", plural(total.unpriced as u64, "trial")));
    }
    line
}

/// Whether the money will do.
fn against(total: &Total, max: f64) -> String {
    match total.usd {
        Some(usd) if usd > max => {
            format!("that is more than {}, where the run stops: some trials would not be done", dollars(max))
        }
        Some(_) if total.unpriced == 0 => format!("the run stops at {}, which is enough", dollars(max)),
        _ => format!("the run stops at {}", dollars(max)),
    }
}

fn as_json(intent: &Intent<'_>, estimates: &[Estimate], total: &Total) -> Value {
    let estimate = |one: &Estimate| json!({ "cost_usd": one.usd, "duration_ms": one.ms, "from": one.from });
    let trials: Vec<Value> = intent
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
        "jobs": intent.jobs.min(intent.trials.len()),
        "agents": intent.agents,
        "credentials": intent.credentials,
        "estimate": {
            "cost_usd": total.usd,
            "duration_ms": total.ms,
            "unpriced": total.unpriced,
            "untimed": total.untimed,
        },
        "max_cost_usd": intent.max_cost_usd,
        "exceeds_max_cost": intent.max_cost_usd.zip(total.usd).map(|(max, usd)| usd > max),
    })
}
